"""Hazards of shared and global memory: what a wave's accesses mean to `Watch`, and how races are told."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from flashgen.emulator.arena import Arena, sparse_bytes
from flashgen.emulator.findings import NOBODY
from flashgen.emulator.lockstep.access import Access, Storage
from flashgen.emulator.lockstep.flight import Flight
from flashgen.emulator.lockstep.lanes import WARP, Array
from flashgen.emulator.lockstep.spaces import Ledger
from flashgen.emulator.lockstep.watch import CHANGED, READ, REPEATED, Accesses, Pairs, Watch
from flashgen.emulator.program.layout import GLOBAL_BASE, SHARED_BASE
from flashgen.emulator.program.ops import LoweredKernel

if TYPE_CHECKING:
    from flashgen.emulator.lockstep.wave import Wave


class Hazards:
    """Looks after a launch's memory.

    Args:
        cta_lanes: threads of a CTA, in whole warps.
        global_races: whether global memory is watched, too.
    """

    def __init__(self, kernel: LoweredKernel, arena: Arena, ledger: Ledger, cta_lanes: int, global_races: bool) -> None:
        self._ledger, self._cta_lanes = ledger, cta_lanes
        self._shift = {
            "shared": kernel.narrowest_shared.bit_length() - 1,
            "global": kernel.narrowest_global.bit_length() - 1,
        }
        self._watches: dict[str, Watch] = {}
        if ledger.checked and global_races:
            self._watches["global"] = Watch(1, arena.size >> self._shift["global"], _sparse, cta_lanes)

    def enter(self, wave: Wave) -> None:
        """Starts with a wave."""
        self._wave = wave
        self._cells = wave.shared.stride >> self._shift["shared"]
        if self._ledger.checked:
            parts = len(wave.geometry.ctas)
            self._watches["shared"] = Watch(parts, self._cells, _zeros, self._cta_lanes)
            size = parts * wave.shared.stride
            self._flight = Flight(parts * self._cells, size, wave.geometry, self._ledger.findings)

    def watches(self, space: str) -> bool:
        """Whether accesses to a space have to be noted."""
        return space in self._watches

    def note_load(self, space: str, access: Access, offsets: Array) -> None:
        """Notes reads."""
        if space == "global":
            watched = self._wave.globals.watched(access)
            access, offsets = access.only(watched), offsets[watched]
        cells = self._cells_of(space, access, offsets)
        flying = self._flight.holds(cells) if space == "shared" else None
        if flying is not None:
            self._flight.tell(access, cells, flying)
        self._log(space, access, cells, np.broadcast_to(np.int64(READ), cells.shape), flying)

    def note_store(self, space: str, access: Access, offsets: Array, rows: Array | None) -> None:
        """Notes writes, before they happen; ``rows``: what each lane writes, None if that is not known."""
        if space == "global":
            watched = self._wave.globals.watched(access)
            access, offsets, rows = access.only(watched), offsets[watched], rows if rows is None else rows[watched]
            self._wave.copies.check_sources(access)
        cells = self._cells_of(space, access, offsets)
        kinds = _kinds(self._wave.spaces[space].storage, cells, offsets, rows)
        if space == "shared":
            kinds = self._written_in_flight(access, cells, kinds, offsets, rows)
        self._log(space, access, cells, kinds)

    def note_copy(self, access: Access, offsets: Array, rows: Array) -> None:
        """A copy to shared memory sets out: it is judged as a write, and lands later."""
        cells = self._cells_of("shared", access, offsets)
        kinds = _kinds(self._wave.shared.storage, cells, offsets, rows)
        self._log("shared", access, cells, self._written_in_flight(access, cells, kinds, offsets, rows))
        self._flight.start(access, cells)
        self._flight.arriving.scatter(offsets, rows)

    def note_landing(self, access: Access, offsets: Array) -> None:
        """A copy lands: to whoever comes later it is a write of its lane's, now."""
        cells = self._cells_of("shared", access, offsets)
        self._flight.end(cells)
        self._log("shared", access, cells, np.broadcast_to(np.int64(REPEATED), cells.shape))

    def _written_in_flight(
        self, access: Access, cells: Array, kinds: Array, offsets: Array, rows: Array | None
    ) -> Array:
        """Tells of writes to what a copy is to write, unless it is the same; the last writer counts."""
        flying = self._flight.holds(cells)
        if flying is None:
            return kinds
        differs = flying & (_kinds(self._flight.arriving, cells, offsets, rows) == CHANGED)
        self._flight.tell(access, cells, differs)
        self._flight.end(cells[flying])
        return np.where(flying, REPEATED, kinds)

    def _cells_of(self, space: str, access: Access, offsets: Array) -> Array:
        shift = self._shift[space]
        return (offsets >> shift)[:, None] + np.arange(max(access.size >> shift, 1))

    def _log(self, space: str, access: Access, cells: Array, kinds: Array, left_out: Array | None = None) -> None:
        lanes = np.repeat(access.lanes, cells.shape[1])
        cell, kind = cells.reshape(-1), kinds.reshape(-1)
        if left_out is not None:
            kept = ~left_out.reshape(-1)
            lanes, cell, kind = lanes[kept], cell[kept], kind[kept]
        if len(cell):
            self._watches[space].note(access, lanes, cell, kind, self._wave.geometry, self._wave.history)

    def settle(self, parts: list[int]) -> None:
        """All threads of some CTAs of the wave have met, or ended."""
        if self._ledger.checked and parts:
            self._tell(self._watches["shared"].settle(parts, self._wave.history), "shared")

    def leave(self, more_to_come: bool) -> None:
        """The wave is over."""
        if "global" in self._watches:
            self._tell(self._watches["global"].examine(self._wave.history, more_to_come), "global")

    def _tell(self, pairs: Pairs | None, space: str) -> None:
        """One finding for each two instructions: the first event, and how many events there were."""
        if pairs is None:
            return
        later = pairs.later
        kinds = later.instruction << 32 | pairs.earlier.instruction
        for kind in np.unique(kinds):
            mine = np.flatnonzero(kinds == kind)
            warp = later.thread[mine] // WARP
            event = later.step[mine] << 32 | warp  # one instruction of one warp
            mine = mine[np.lexsort((later.thread[mine], event, later.thread[mine] // self._cta_lanes))]
            first = (later.step[mine] == later.step[mine[0]]) & (
                later.thread[mine] // WARP == later.thread[mine[0]] // WARP
            )
            self._tell_event(later.of(mine[first]), pairs.earlier.of(mine[first]), space, len(np.unique(event)))

    def _tell_event(self, later: Accesses, earlier: Accesses, space: str, count: int) -> None:
        thread, other = int(later.thread[0]), int(earlier.thread[0])
        cta, other_cta = thread // self._cta_lanes, other // self._cta_lanes
        cell = int(later.cell[0])
        place = cell % self._cells if space == "shared" else cell
        base = SHARED_BASE if space == "shared" else GLOBAL_BASE
        self._ledger.findings.add(
            "race", int(later.instruction[0]), cta, thread % self._cta_lanes // WARP,
            int(np.bitwise_or.reduce(np.left_shift(1, later.thread % WARP))), space=space,
            address=base + (place << self._shift[space]), size=int(later.size[0]), count=count,
            other_instruction=int(earlier.instruction[0]), other_warp=other % self._cta_lanes // WARP,
            other_cta=NOBODY if other_cta == cta else other_cta,
        )  # fmt: skip


def _kinds(storage: Storage, cells: Array, offsets: Array, rows: Array | None) -> Array:
    """What writing these rows does to each cell, lane after lane: `CHANGED` or `REPEATED`."""
    if rows is None:
        return np.broadcast_to(np.int64(CHANGED), cells.shape)
    fresh = np.ascontiguousarray(rows).view(np.uint8).reshape(len(rows), -1)
    before = storage.gather(offsets, 1, fresh.shape[1])
    order = np.argsort(offsets, kind="stable")
    again = np.flatnonzero(offsets[order][1:] == offsets[order][:-1])
    before[order[again + 1]] = fresh[order[again]]
    differs: Array = (fresh != before).reshape(len(rows), cells.shape[1], -1).any(axis=2)
    return np.where(differs, CHANGED, REPEATED)


def _zeros(count: int, kind: str) -> Array:
    return np.zeros(count, kind)


def _sparse(count: int, kind: str) -> Array:
    return sparse_bytes(count * np.dtype(kind).itemsize).view(kind)[:count]
