"""The heat map as a PNG, drawn with matplotlib (the ``plot`` extra), which `flashgen io` draws with, too."""

from __future__ import annotations

import textwrap
from pathlib import Path

from flashgen.errors import ToolchainError
from flashgen.tuning.report.heatmap import FAILED, PRUNED, Cell, HeatMap

_SIGNS = {"chosen": "★", "default": "D", "rule": "R"}
_TEXTS = {FAILED: "×", PRUNED: "–"}
_LIGHT_INK_FROM = 0.75


_LETTERS = 15  # of the note in an inch


def write_picture(found: HeatMap, path: Path, title: str, note: str) -> None:
    """Draws a map.

    Args:
        found: the map.
        path: the file; its suffix says the format.
        title: above the map.
        note: below it.

    Raises:
        ToolchainError: matplotlib is not installed.
        OSError: the file cannot be written.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ToolchainError("Drawing a PNG needs matplotlib: pip install 'flashgen[plot]'.") from error
    width = max(2.2 + 0.72 * len(found.bc), 6.0)
    below = textwrap.fill(note, round(_LETTERS * (width - 1.5)), break_long_words=False)
    height = 1.9 + 0.42 * len(found.br) + 0.15 * below.count("\n")
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots()
    nan = float("nan")
    ratios = [[_ratio(found.cells.get((br, bc)), nan) for bc in found.bc] for br in found.br]
    image = axes.imshow(ratios, origin="lower", aspect="auto", cmap="GnBu_r", vmin=found.low, vmax=found.high)
    for row, br in enumerate(found.br):
        for column, bc in enumerate(found.bc):
            cell = found.cells.get((br, bc))
            if cell is not None:
                axes.text(column, row, _text(cell), ha="center", va="center", fontsize=8, color=_ink(found, cell))
    axes.set_xticks(range(len(found.bc)), [str(bc) for bc in found.bc])
    axes.set_yticks(range(len(found.br)), [str(br) for br in found.br])
    axes.set_xlabel(f"Bc, keys of a tile\n{below}", fontsize=9)
    axes.set_ylabel("Br, query rows of a tile")
    axes.set_title(title, fontsize=10)
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    figure.colorbar(image, label="time over the default's", extend="max")
    figure.savefig(path, dpi=150)


def _ratio(cell: Cell | None, missing: float) -> float:
    return missing if cell is None or cell.ratio is None else cell.ratio


def _text(cell: Cell) -> str:
    number = _TEXTS.get(cell.state, "") if cell.ratio is None else f"{cell.ratio:.2f}"
    signs = "".join(sign for mark, sign in _SIGNS.items() if mark in cell.marks)
    return f"{number} {signs}" if signs else number


def _ink(found: HeatMap, cell: Cell) -> str:
    return "white" if cell.ratio is not None and found.heat(cell) >= _LIGHT_INK_FROM else "0.15"
