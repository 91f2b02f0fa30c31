"""Races: every access to watched memory is logged; what no barrier orders is looked at afterwards.

Memory is a row of cells. While accesses come in, a few arrays tell which cells more than one thread touched
and at least one wrote; only of those is the log examined. Two accesses of a cell race if different threads made
them, one changed the cell, not both were atomic, and neither happened before the other. It is enough to
compare each access with the writes next to it in the order of the run: if those are ordered, so are all others.

A write of the value that is there already is benign to whatever came before it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from flashgen.emulator.lockstep.access import Access
from flashgen.emulator.lockstep.history import History
from flashgen.emulator.lockstep.lanes import WARP, Array, Geometry

READ, REPEATED, CHANGED = 0, 1, 2
STRONG, COLLECTIVE = 1, 2


@dataclass(slots=True)
class Accesses:
    """Accesses to cells, one element for each cell of each access, in the order of the run.

    Attributes:
        cell: what was touched; ``what``: read, written with what was there, changed.
        thread: who, by number in the launch; ``clock``, ``row``: when (see `History`).
        how: `STRONG` if atomic or volatile, `COLLECTIVE` if on behalf of all lanes of the warp, at once.
        instruction, size: of the access; ``step``: a number of its own for each instruction executed.
    """

    cell: Array
    what: Array
    thread: Array
    clock: Array
    row: Array
    how: Array
    instruction: Array
    size: Array
    step: Array

    def of(self, chosen: Array) -> Accesses:
        """Some of them."""
        return Accesses(*(getattr(self, name)[chosen] for name in self.__slots__))

    @classmethod
    def joined(cls, parts: list[Accesses]) -> Accesses:
        """Several, one after the other."""
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in cls.__slots__))


@dataclass(frozen=True, slots=True)
class _Noted:
    """One instruction's accesses in the log; what is the same for all is a number here."""

    cell: Array
    what: Array
    thread: Array
    clock: Array
    row: Array
    how: int
    instruction: int
    size: int
    step: int

    def accesses(self, chosen: Array | None = None) -> Accesses:
        """Some of them, or all."""
        chosen = np.arange(len(self.cell)) if chosen is None else chosen
        columns = (getattr(self, name) for name in self.__slots__)
        return Accesses(
            *(c[chosen] if isinstance(c, np.ndarray) else np.full(len(chosen), c, np.int64) for c in columns)
        )


class Watch:
    """The accesses to one memory, which falls into parts that are settled each by itself.

    Args:
        parts, cells: how many parts, and cells of each.
        make: makes an array of zeros of that many elements and that type.
        cta_threads: by how much a thread's number grows from one CTA to the next.
    """

    def __init__(self, parts: int, cells: int, make: Callable[[int, str], Array], cta_threads: int) -> None:
        self._owner = make(parts * cells, "i8")  # 1 + the last thread that touched it
        self._many = make(parts * cells, "?")
        self._written = make(parts * cells, "?")
        self._log: list[_Noted] = []
        self._over: list[Accesses] = []  # of CTAs that have ended
        self._settled = np.zeros(parts, np.int64)  # what of the log is of no interest to a part any more
        self._cells = cells
        self._cta_threads = cta_threads
        self._steps = 0

    def note(
        self, access: Access, lanes: Array, cell: Array, what: Array, geometry: Geometry, history: History
    ) -> None:
        """Logs one instruction's accesses: for each of them a lane, a cell, and what it does to that."""
        thread = geometry.identity[lanes]
        before = self._owner[cell]
        self._owner[cell] = thread + 1
        mixed = ((before != 0) & (before != thread + 1)) | (self._owner[cell] != thread + 1)
        self._many[cell if access.collective else cell[mixed]] = True
        self._written[cell[what != READ]] = True
        self._steps += 1

        how = access.strong * STRONG + access.collective * COLLECTIVE
        clock, row = history.clock[lanes], history.row[lanes]
        self._log.append(_Noted(cell, what, thread, clock, row, how, access.instruction, access.size, self._steps))

    def settle(self, parts: list[int], history: History) -> Pairs | None:
        """Examines what some parts have seen. What comes to them later happens after all of it."""
        chosen = np.zeros(len(self._settled), np.bool_)
        chosen[parts] = True
        by_part = (len(self._settled), self._cells)
        doubtful = (self._many.reshape(by_part)[parts] & self._written.reshape(by_part)[parts]).any()
        pairs = find_races(self._doubtful(chosen), history, self._cta_threads) if doubtful else None
        for cells in (self._owner, self._many, self._written):
            cells.reshape(by_part)[parts] = 0
        self._settled[parts] = len(self._log)
        if self._settled.min() == len(self._log):
            self._log.clear()
            self._settled[:] = 0
        return pairs

    def examine(self, history: History, more_to_come: bool) -> Pairs | None:
        """Examines a memory of one part whose later accesses, by other CTAs, nothing orders."""
        if not self._log and not self._over:
            return None
        accesses = Accesses.joined([*self._over, self._doubtful(np.ones(1, np.bool_))])
        if more_to_come:
            self._over = [_summary(Accesses.joined([*self._over, *map(_Noted.accesses, self._log)]), self._cta_threads)]
            self._log.clear()
        return find_races(accesses, history, self._cta_threads)

    def _doubtful(self, parts: Array) -> Accesses:
        """What is logged of the cells of some parts that several threads touched and one wrote."""
        found = []
        for number, noted in enumerate(self._log):
            cell = noted.cell
            chosen = np.flatnonzero(self._many[cell] & self._written[cell])
            part = cell[chosen] // self._cells
            found.append(noted.accesses(chosen[parts[part] & (self._settled[part] <= number)]))
        return Accesses.joined(found)


def _summary(accesses: Accesses, cta_threads: int) -> Accesses:
    """One access of each kind to each cell by each CTA, of those that are over: step 0, outside all clocks."""
    cta = accesses.thread // cta_threads
    key = np.stack([accesses.cell, cta, accesses.what, accesses.how])
    _, first = np.unique(key, axis=1, return_index=True)
    kept = accesses.of(np.sort(first))
    kept.step = np.zeros_like(kept.step)
    kept.clock, kept.row = np.zeros_like(kept.clock), np.zeros_like(kept.row)
    return kept


@dataclass(frozen=True, slots=True)
class Pairs:
    """Accesses that race: element by element, the later and the earlier one of the run."""

    later: Accesses
    earlier: Accesses


def find_races(accesses: Accesses, history: History, cta_threads: int) -> Pairs | None:
    """Compares each access with the writes before and behind it in its cell."""
    a = accesses.of(np.argsort(accesses.cell, kind="stable"))
    index = np.arange(len(a.cell))
    written = a.what != READ
    before = np.concatenate([[-1], np.maximum.accumulate(np.where(written, index, -1))])[:-1]
    behind = np.minimum.accumulate(np.where(written, index, len(index))[::-1])[::-1]
    after_write = np.flatnonzero((before >= 0) & (a.what != REPEATED))
    before_write = np.flatnonzero((behind < len(index)) & ~written)
    before_write = before_write[a.what[behind[before_write]] == CHANGED]
    later = np.concatenate([after_write, behind[before_write]])
    earlier = np.concatenate([before[after_write], before_write])
    races = _unordered(a, later, earlier, history, cta_threads)
    if not races.any():
        return None
    return Pairs(a.of(later[races]), a.of(earlier[races]))


def _unordered(a: Accesses, later: Array, earlier: Array, history: History, cta_threads: int) -> Array:
    first, second = a.thread[earlier], a.thread[later]
    same_warp = first // WARP == second // WARP
    for_others = same_warp & ((a.how[later] & COLLECTIVE) != 0)
    at_once = same_warp & ((a.how[earlier] & COLLECTIVE) != 0)  # what the warp does later comes after it
    candidates = (a.cell[earlier] == a.cell[later]) & ((first != second) | for_others) & ~at_once
    candidates &= a.step[later] > 0
    candidates &= (a.how[earlier] & a.how[later] & STRONG) == 0
    same_cta = first // cta_threads == second // cta_threads
    ordered = history.happened(first % cta_threads, a.clock[earlier], a.row[later])
    races: Array = candidates & ~(same_cta & ordered)
    return races
