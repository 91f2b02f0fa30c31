"""cp.async: copies from global to shared memory that land when their thread waits for them.

The source is read when a copy lands, as late as hardware may read it; what it held when the copy set out only tells
whether two copies to one place bring the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from flashgen.emulator.lockstep.access import LOAD, Access
from flashgen.emulator.lockstep.lanes import WARP, Array
from flashgen.emulator.program.layout import GLOBAL_BASE

if TYPE_CHECKING:
    from flashgen.emulator.lockstep.wave import Wave


@dataclass(slots=True)
class _Copy:
    """One instruction's copies that are in flight.

    Attributes:
        to: the writes; ``offsets``: their places in shared memory.
        group: how many groups each lane had closed when it set out.
        source, given: device addresses, and how many bytes are read there, the rest being zero.
        watched: which sources the kernel may write.
    """

    to: Access
    offsets: Array
    group: Array
    source: Array
    given: Array
    watched: Array

    def only(self, chosen: Array) -> _Copy:
        """The copies of some lanes."""
        rest = (getattr(self, name)[chosen] for name in ("offsets", "group", "source", "given", "watched"))
        return _Copy(self.to.only(chosen), *rest)


class Copies:
    """The copies of a wave.

    Attributes:
        closed: how many groups each lane has closed.
    """

    def __init__(self, wave: Wave) -> None:
        self._wave = wave
        self._flying: list[_Copy] = []
        self.closed = np.zeros(wave.geometry.count, np.int64)

    def start(self, to: Access, source: Array, given: Array) -> None:
        """Copies set out; ``source``, ``given``: of each lane of ``to``."""
        wave = self._wave
        kept, offsets = wave.shared.admit(to)
        inside = np.isin(to.lanes, kept.lanes)
        copy = _Copy(
            kept, offsets, self.closed[kept.lanes], source[inside], given[inside], np.zeros(len(offsets), bool)
        )
        readable = np.ones(len(offsets), np.bool_)
        for amount in np.unique(copy.given[copy.given > 0]).tolist():
            self._check_sources(copy, copy.given == amount, readable)
        copy = copy.only(readable)
        if wave.ledger.checked and len(copy.offsets):
            wave.hazards.note_copy(copy.to, copy.offsets, self._bytes(copy))
        self._flying.append(copy)

    def _check_sources(self, copy: _Copy, chosen: Array, readable: Array) -> None:
        """The lanes that read equally many bytes."""
        wave, amount = self._wave, int(copy.given[chosen][0])
        asked = Access(
            copy.to.instruction, copy.to.lanes[chosen], copy.source[chosen], amount, LOAD, aligned=copy.to.size
        )
        if amount > copy.to.size:
            wave.globals.tell("out-of-bounds", asked, np.ones(len(asked.lanes), np.bool_))
            readable &= ~chosen
            return
        access, offsets = wave.globals.admit(asked)
        readable &= ~chosen | np.isin(copy.to.lanes, access.lanes)
        if wave.hazards.watches("global") and len(access.lanes):
            wave.hazards.note_load("global", access, offsets)
            copy.watched |= np.isin(copy.to.lanes, access.lanes[wave.globals.watched(access)])

    def _bytes(self, copy: _Copy) -> Array:
        """What the sources hold now."""
        rows = np.zeros((len(copy.given), copy.to.size), np.uint8)
        for amount in np.unique(copy.given[copy.given > 0]).tolist():
            mine = copy.given == amount
            offsets = (copy.source[mine] - np.uint64(GLOBAL_BASE)).astype(np.int64)
            rows[mine, :amount] = self._wave.globals.storage.gather(offsets, 1, amount)
        return rows

    def land(self, lanes: Array, newest: int) -> None:
        """Lands what lanes (booleans of all) wait for: all groups but the ``newest`` closed ones."""
        flying = []
        for copy in self._flying:
            mine = copy.to.lanes
            done = lanes[mine] & (self.closed[mine] - copy.group > newest)
            if done.any():
                self._land(copy.only(done))
            if not done.all():
                flying.append(copy.only(~done))
        self._flying = flying

    def _land(self, copy: _Copy) -> None:
        wave = self._wave
        wave.shared.storage.scatter(copy.offsets, self._bytes(copy))
        if not wave.ledger.checked:
            return
        wave.hazards.note_landing(copy.to, copy.offsets)
        for amount in np.unique(copy.given[copy.watched]).tolist():  # read as late as this
            mine = copy.watched & (copy.given == amount)
            access = Access(copy.to.instruction, copy.to.lanes[mine], copy.source[mine], amount, LOAD)
            offsets = (access.addresses - np.uint64(GLOBAL_BASE)).astype(np.int64)
            wave.hazards.note_load("global", access, offsets)

    def check_sources(self, access: Access) -> None:
        """Tells of writes to what a copy of the same CTA is still to read."""
        cta_lanes = self._wave.geometry.cta_lanes
        for copy in self._flying:
            for k in np.flatnonzero(copy.watched).tolist():
                start = copy.source[k]
                hit = (access.addresses < start + np.uint64(copy.given[k])) & (
                    start < access.addresses + np.uint64(access.size)
                )
                hit &= access.lanes // cta_lanes == copy.to.lanes[k] // cta_lanes
                for warp in np.unique(access.lanes[hit] // WARP).tolist():
                    self._tell_source(access.only(hit & (access.lanes // WARP == warp)), copy.to, k)

    def _tell_source(self, access: Access, copy: Access, k: int) -> None:
        geometry = self._wave.geometry
        warp = int(access.lanes[0]) // WARP
        mask = int(np.bitwise_or.reduce(np.left_shift(1, access.lanes % WARP)))
        self._wave.ledger.findings.add(
            "in-flight", access.instruction, int(geometry.cta[warp * WARP]), warp % geometry.warps, mask,
            address=int(access.addresses[0]), size=access.size, other_instruction=copy.instruction,
            other_warp=int(copy.lanes[k]) // WARP % geometry.warps,
        )  # fmt: skip
