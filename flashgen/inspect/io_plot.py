"""A sweep drawn on log axes: in the terminal as text, and as a PNG."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from flashgen.errors import ToolchainError
from flashgen.inspect.io_sweep import Sweep

MARKS = {"standard": "s", "fa1": "1", "fa2": "2", "decode": "d"}
_LINE, _FLOOR = ".", "_"
_LABEL = 9


def text_plot(sweep: Sweep, height: int = 20) -> str:
    """The sweep as text, a column for each budget: bytes upwards, memory to the right, both logarithmic."""
    values = [value for row in sweep.bytes.values() for value in row if value] + [sweep.floor]
    low, high = math.log10(min(values)) - 0.1, math.log10(max(values)) + 0.1
    width = len(sweep.budgets)
    canvas = [[" "] * width for _ in range(height)]
    floor = (sweep.floor,) * width
    for mark, series in ((_FLOOR, floor), (_LINE, sweep.line), *((MARKS[n], row) for n, row in sweep.bytes.items())):
        for column, value in enumerate(series):
            row = round((high - math.log10(value)) / (high - low) * (height - 1)) if value else -1
            if 0 <= row < height:
                canvas[row][column] = mark
    rows = [f"{_tick(row, height, low, high):>{_LABEL}} |{''.join(cells).rstrip()}" for row, cells in enumerate(canvas)]
    return "\n".join([*rows, " " * _LABEL + " +" + "-" * width, _axis(sweep.budgets), legend(sweep)])


def legend(sweep: Sweep) -> str:
    """What the marks mean."""
    names = "  ".join(f"{MARKS[name]} {name}" for name in sweep.bytes)
    return f"  {names}  {_LINE} {sweep.line_factor} N^2 d^2 / M  {_FLOOR} Q, K, V and O once"


def write_png(sweep: Sweep, path: Path, title: str) -> None:
    """Draws the sweep with matplotlib.

    Raises:
        ToolchainError: matplotlib is not installed.
    """
    figure = _matplotlib_figure()
    axes = figure.subplots()
    for name, row in sweep.bytes.items():
        points = [(budget, value) for budget, value in zip(sweep.budgets, row, strict=True) if value]
        axes.plot(*_columns(points), marker=".", label=name)
    axes.plot(sweep.budgets, sweep.line, linestyle="--", color="0.5", label=rf"${sweep.line_factor}\,N^2 d^2 / M$")
    axes.axhline(sweep.floor, linestyle=":", color="0.5", label="Q, K, V and O once")
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xlabel("on-chip memory, bytes")
    axes.set_ylabel("HBM traffic, bytes")
    axes.set_title(title, fontsize=10)
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(path, dpi=150)


def _matplotlib_figure() -> Any:
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ToolchainError("Drawing a PNG needs matplotlib: pip install 'flashgen[plot]'.") from error
    return Figure(figsize=(7, 4.5), layout="constrained")


def _columns(points: Sequence[tuple[int, int]]) -> Iterator[tuple[int, ...]]:
    return iter(zip(*points, strict=True)) if points else iter(((), ()))


def _tick(row: int, height: int, low: float, high: float) -> str:
    """A label beside the rows where a power of ten lies."""
    step = (high - low) / (height - 1)
    value = high - row * step
    power = round(value)
    return _amount(power) if abs(value - power) <= step / 2 else ""


def _amount(power: int) -> str:
    unit = ("B", "KB", "MB", "GB", "TB", "PB")[min(power // 3, 5)]
    return f"{10 ** (power % 3)} {unit}"


def _axis(budgets: Sequence[int]) -> str:
    """Labels under the axis, at every second power of two."""
    line = [" "] * (len(budgets) + 8)
    for column, budget in enumerate(budgets):
        power = budget.bit_length() - 1
        if budget == 1 << power and power % 2 == 0:
            label = f"{budget // 1024} KiB" if power < 20 else f"{budget >> 20} MiB"
            line[column : column + len(label)] = label
    return " " * (_LABEL + 2) + "".join(line).rstrip()
