"""The benchmark's picture: GFLOP/s of every contender, and the machine's peak above them (the ``plot`` extra)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from flashgen.errors import ToolchainError
from flashgen.measure.peers import PEERS

_OURS = ("#08519c", "#4292c6", "#9ecae1", "#c6dbef")
_PEERS = ("#7f7f7f", "#bcbd22", "#ff7f0e", "#8c564b", "#9467bd")
_GROUP = 0.84  # of the distance between workloads
_INCHES_PER_BAR = 0.27
_INCHES_PER_PANEL = 2.7

Row = Mapping[str, Any]


def write_picture(data: Mapping[str, Any], path: Path) -> None:
    """Draws a panel for each element type, in it a group of bars for each workload.

    Args:
        data: a benchmark as JSON has it, with at least one row.
        path: the file; its suffix says the format.

    Raises:
        ToolchainError: matplotlib is not installed.
        OSError: the file cannot be written.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ToolchainError("Drawing a PNG needs matplotlib: pip install 'flashgen[plot]'.") from error
    rows: Sequence[Row] = data["rows"]
    colours = contenders(rows)
    panels = {dtype: groups([row for row in rows if row["dtype"] == dtype]) for dtype in _distinct(rows, "dtype")}
    widest = max(len(panel) for panel in panels.values())
    size = (max(6.0, 1.0 + _INCHES_PER_BAR * (len(colours) + 1) * widest), 0.9 + _INCHES_PER_PANEL * len(panels))
    figure = Figure(figsize=size, layout="constrained")
    all_axes = figure.subplots(len(panels), squeeze=False)[:, 0]
    for axes, (dtype, panel) in zip(all_axes, panels.items(), strict=True):
        _draw_panel(axes, dtype, panel, colours)
    handles: dict[str, Any] = {}
    for axes in all_axes:
        drawn, labels = axes.get_legend_handles_labels()
        handles |= dict(zip(labels, drawn, strict=True))
    names = [name for name in (*colours, "peak") if name in handles]
    shown = [handles[name] for name in names]
    title = f"{data['machine']}, {data['threads']} thread{'s' if data['threads'] != 1 else ''}"
    style = {"ncols": 4, "frameon": False, "fontsize": 9, "title_fontsize": 10}
    figure.legend(shown, names, loc="outside upper center", title=title, **style)
    figure.savefig(path, dpi=150)


def contenders(rows: Sequence[Row]) -> dict[str, str]:
    """Contender -> colour, in order of appearance: flashgen's in blues, each peer always in the same one."""
    names = _distinct(rows, "name")
    ours = [name for name in names if name.startswith("flashgen")]
    known = [peer.name for peer in PEERS]
    peers = known + [name for name in names if name not in (*ours, *known)]
    pairs = ((ours, _OURS), (peers, _PEERS))
    colours = {name: shades[i % len(shades)] for group, shades in pairs for i, name in enumerate(group)}
    return {name: colours[name] for name in (*ours, *peers) if name in names}


def groups(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Label of a workload -> its rows."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(_label(row), []).append(row)
    return found


def _draw_panel(axes: Any, dtype: str, panel: Mapping[str, list[Row]], colours: Mapping[str, str]) -> None:
    for place, rows in enumerate(panel.values()):
        width = _GROUP / len(rows)
        for index, row in enumerate(rows):
            centre = place - _GROUP / 2 + (index + 0.5) * width
            name, gflops = row["name"], row["gflops"]
            axes.bar(centre, gflops, 0.92 * width, color=colours[name], label=name)
            tip = (centre, gflops)
            axes.annotate(f"{gflops:.0f}", tip, (0, 2), textcoords="offset points", ha="center", fontsize=7)
        axes.hlines(rows[0]["peak_gflops"], place - 0.48, place + 0.48, color="0.1", lw=1, ls="--", label="peak")
    axes.set_xticks(range(len(panel)), list(panel), fontsize=9)
    axes.set_xlim(-0.55, len(panel) - 0.45)
    axes.set_ylabel(f"{dtype}, GFLOP/s")
    axes.margins(y=0.1)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(axis="x", length=0)
    axes.grid(axis="y", alpha=0.25)
    axes.set_axisbelow(True)


def _label(row: Row) -> str:
    batch, heads, seqlen, d = row["shape"]
    return f"B{batch} H{heads} N{seqlen} d{d}\n{'causal' if row['causal'] else 'full'}"


def _distinct(rows: Sequence[Row], key: str) -> list[str]:
    return list(dict.fromkeys(row[key] for row in rows))
