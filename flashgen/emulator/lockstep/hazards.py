"""Hazards of shared and global memory: what a wave's accesses mean to `Watch`, and how races are told."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from flashgen.emulator.arena import Arena, sparse_bytes
from flashgen.emulator.findings import NOBODY
from flashgen.emulator.lockstep.access import Access, Storage
from flashgen.emulator.lockstep.lanes import WARP, Array
from flashgen.emulator.lockstep.spaces import Ledger
from flashgen.emulator.lockstep.watch import CHANGED, REPEATED, Accesses, Pairs, Watch
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
            self._watches["shared"] = Watch(len(wave.geometry.ctas), self._cells, _zeros, self._cta_lanes)

    def watches(self, space: str) -> bool:
        """Whether accesses to a space have to be noted."""
        return space in self._watches

    def note(self, space: str, access: Access, offsets: Array, what: Array | int) -> None:
        """Notes an access; ``what``: for each byte of each lane, or for all."""
        if space == "global":
            watched = self._wave.globals.watched(access)
            if not watched.all():
                access, offsets = access.only(watched), offsets[watched]
                what = what if isinstance(what, int) else what[watched]
        if len(access.lanes) == 0:
            return
        shift = self._shift[space]
        columns = max(access.size >> shift, 1)
        cells = (offsets >> shift)[:, None] + np.arange(columns)
        if isinstance(what, int):
            kinds = np.broadcast_to(np.int64(what), cells.shape)
        else:
            kinds = what.reshape(len(cells), columns, -1).max(axis=2)
        self._watches[space].note(access, cells, kinds, self._wave.geometry, self._wave.history)

    def settle(self, part: int) -> None:
        """All threads of a CTA of the wave have met, or ended."""
        if self._ledger.checked:
            self._tell(self._watches["shared"].settle(part, self._wave.history), "shared")

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


def changes(storage: Storage, offsets: Array, rows: Array) -> Array:
    """What writing these rows does to each byte, lane after lane: `CHANGED` or `REPEATED`."""
    fresh = np.ascontiguousarray(rows).view(np.uint8).reshape(len(rows), -1)
    before = storage.gather(offsets, 1, fresh.shape[1])
    order = np.argsort(offsets, kind="stable")
    again = np.flatnonzero(offsets[order][1:] == offsets[order][:-1])
    before[order[again + 1]] = fresh[order[again]]
    return np.where(fresh != before, CHANGED, REPEATED)


def _zeros(count: int, kind: str) -> Array:
    return np.zeros(count, kind)


def _sparse(count: int, kind: str) -> Array:
    return sparse_bytes(count * np.dtype(kind).itemsize).view(kind)[:count]
