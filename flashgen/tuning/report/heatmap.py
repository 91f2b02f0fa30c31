"""The Br x Bc map of a shape: what each tile takes, relative to the default plan."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from flashgen.tuning.sweep.request import Request
from flashgen.tuning.sweep.result import ShapeResult
from flashgen.tuning.sweep.table import Row, rows_of
from flashgen.tuning.sweep.trial import FINAL

MEASURED, FAILED, PRUNED, UNTRIED = "measured", "failed", "pruned", "not tried"
ALL_KNOBS = "the best knobs of each tile"
_LEAST_RANGE = 0.1  # differences within 10% are not blown up to the whole scale
_Tile = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Cell:
    """One tile of a map.

    Attributes:
        state: `MEASURED` (or predicted), `FAILED`, `PRUNED` or `UNTRIED`.
        ratio: its time over the default's (over the fastest's, if the default failed); None unless measured.
        marks: ``chosen``, ``default``, ``rule``.
        title: all that is known, for whoever points at it.
    """

    state: str
    ratio: float | None
    marks: tuple[str, ...]
    title: str


@dataclass(frozen=True, slots=True)
class HeatMap:
    """A map.

    Attributes:
        name: of which knobs; `ALL_KNOBS` for the best of all.
        br, bc: its rows and columns, ascending.
        cells: (br, bc) -> cell; tiles that the family does not offer are missing.
        low, high: the ratios at the ends of the scale.
    """

    name: str
    br: tuple[int, ...]
    bc: tuple[int, ...]
    cells: dict[_Tile, Cell]
    low: float
    high: float

    def heat(self, cell: Cell) -> float:
        """Where a measured cell stands on the scale: 1 is the fastest, 0 the slow end and beyond."""
        assert cell.ratio is not None, "only measured cells have a heat"
        return min(max((self.high - cell.ratio) / (self.high - self.low), 0.0), 1.0)


def heat_maps(result: ShapeResult, request: Request) -> tuple[HeatMap, ...]:
    """A map of each tile's best plan, then, where there are knobs, one for each setting of them."""
    cells = [*_timed(rows_of(result, request)), *_others(result)]
    names = list(dict.fromkeys(knobs for _, knobs, _ in cells))
    ratios = sorted(cell.ratio for _, _, cell in cells if cell.ratio is not None)
    scale = (
        (ratios[0], max(ratios[round(0.9 * (len(ratios) - 1))], ratios[0] * (1 + _LEAST_RANGE))) if ratios else (1, 2)
    )
    maps = [_map(ALL_KNOBS, cells, scale)]
    if len(names) > 1:
        maps += [_map(name, [entry for entry in cells if entry[1] == name], scale, cells) for name in names]
    return tuple(maps)


def _scale(ratios: list[float]) -> tuple[float, float]:
    """From the fastest to where nine in ten plans lie: a few hopeless ones should not take all colours."""
    if not ratios:
        return 1.0, 1.0 + _LEAST_RANGE
    return ratios[0], max(ratios[round(0.9 * (len(ratios) - 1))], ratios[0] * (1 + _LEAST_RANGE))


_Entry = tuple[_Tile, str, Cell]


def _timed(rows: list[Row]) -> Iterable[_Entry]:
    fastest = min((row.milliseconds for row in rows), default=1.0)
    for row in rows:
        plan, label = row.trial.candidate.plan, row.trial.candidate.label
        ratio = row.to_default if row.to_default is not None else row.milliseconds / fastest
        stage = "in the final" if row.trial.stage == FINAL else "screened"
        rounds = f", {row.rounds} rounds {stage}" if row.rounds else ""
        title = f"{label}: {ratio:.3f} of the default, {row.milliseconds:.3f} ms, {row.gflops:,.1f} GFLOP/s{rounds}"
        yield (plan.br, plan.bc), knobs_of(label), Cell(MEASURED, ratio, row.marks, title)


def _others(result: ShapeResult) -> Iterable[_Entry]:
    for trial in (*result.failures, *result.untried):
        candidate = trial.candidate
        state = UNTRIED if trial.failure is None else FAILED
        title = f"{candidate.label}: {trial.failure or state}"
        tile = (candidate.plan.br, candidate.plan.bc)
        yield tile, knobs_of(candidate.label), Cell(state, None, candidate.roles, title)
    for fallen in result.pruned:
        tile = (fallen.data["br"], fallen.data["bc"])
        yield tile, knobs_of(fallen.label), Cell(PRUNED, None, (), f"{fallen.label}: {fallen.reason}")


def knobs_of(label: str) -> str:
    """The knobs' part of a plan's label."""
    return label.partition(", ")[2]


def _map(
    name: str, entries: Iterable[_Entry], scale: tuple[float, float], axes: Iterable[_Entry] | None = None
) -> HeatMap:
    """A map of some plans; of several for one tile the fastest stands, with the marks and titles of all."""
    found: dict[_Tile, list[Cell]] = {}
    for tile, _, cell in entries:
        found.setdefault(tile, []).append(cell)
    cells = {tile: _joined(several) for tile, several in found.items()}
    tiles = set(found) if axes is None else {tile for tile, _, _ in axes}
    rows, columns = sorted({br for br, _ in tiles}), sorted({bc for _, bc in tiles})
    return HeatMap(name, tuple(rows), tuple(columns), cells, *scale)


def _joined(cells: list[Cell]) -> Cell:
    ordered = sorted(cells, key=lambda cell: (cell.ratio is None, cell.ratio or 0.0))
    marks = tuple(dict.fromkeys(mark for cell in ordered for mark in cell.marks))
    return Cell(ordered[0].state, ordered[0].ratio, marks, "\n".join(cell.title for cell in ordered))
