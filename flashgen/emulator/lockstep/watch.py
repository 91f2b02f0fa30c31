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
        how: `STRONG` if atomic or volatile, `COLLECTIVE` if on behalf of all lanes of the warp.
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
        self._log: list[Accesses] = []
        self._settled = [0] * parts  # what of the log is of no interest to a part any more
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

        def same(value: int) -> Array:
            return np.broadcast_to(np.int64(value), cell.shape)

        how = same(access.strong * STRONG + access.collective * COLLECTIVE)
        self._log.append(
            Accesses(
                cell, what, thread, history.clock[lanes], history.row[lanes], how, same(access.instruction),
                same(access.size), same(self._steps),
            )
        )  # fmt: skip

    def settle(self, part: int, history: History) -> Pairs | None:
        """Examines what a part has seen. What comes later happens after all of it."""
        cells = slice(part * self._cells, (part + 1) * self._cells)
        pairs = None
        if (self._many[cells] & self._written[cells]).any():
            pairs = find_races(self._doubtful(part), history, self._cta_threads)
        self._owner[cells] = 0
        self._many[cells] = False
        self._written[cells] = False
        self._settled[part] = len(self._log)
        if min(self._settled) == len(self._log):
            self._log.clear()
            self._settled = [0] * len(self._settled)
        return pairs

    def examine(self, history: History, more_to_come: bool) -> Pairs | None:
        """Examines a memory of one part whose later accesses, by other CTAs, nothing orders."""
        pairs = find_races(self._doubtful(0), history, self._cta_threads) if self._log else None
        if more_to_come and self._log:
            self._log = [_summary(Accesses.joined(self._log), self._cta_threads)]
        return pairs

    def _doubtful(self, part: int) -> Accesses:
        """What is logged of a part's cells that several threads touched and one wrote."""
        first, last = part * self._cells, (part + 1) * self._cells
        found = []
        for accesses in self._log[self._settled[part] :]:
            cell = accesses.cell
            inside = np.flatnonzero((cell >= first) & (cell < last))
            found.append(accesses.of(inside[self._many[cell[inside]] & self._written[cell[inside]]]))
        return Accesses.joined(found)


def _summary(accesses: Accesses, cta_threads: int) -> Accesses:
    """One access of each kind to each cell by each CTA, of those that are over: step 0."""
    cta = accesses.thread // cta_threads
    key = np.stack([accesses.cell, cta, accesses.what, accesses.how])
    _, first = np.unique(key, axis=1, return_index=True)
    kept = accesses.of(np.sort(first))
    kept.step = np.zeros_like(kept.step)
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
    collective = (first // WARP == second // WARP) & (((a.how[earlier] | a.how[later]) & COLLECTIVE) != 0)
    candidates = (a.cell[earlier] == a.cell[later]) & ((first != second) | collective) & (a.step[later] > 0)
    candidates &= (a.how[earlier] & a.how[later] & STRONG) == 0
    same_cta = first // cta_threads == second // cta_threads
    ordered = history.happened(first % cta_threads, a.clock[earlier], a.row[later])
    races: Array = candidates & ~(same_cta & ordered)
    return races
