"""State spaces: which accesses are legal, what they cost, and where their bytes are.

``admit`` tells of everything that is wrong with an access, drops the lanes that must not go on, and returns the
rest with their offsets into the space's storage.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from flashgen.emulator.abi import (
    COUNTS_DTYPE,
    MAP_INITIALISED,
    MAP_LEGAL,
    MAP_READ_ONLY,
    MAP_WRITTEN,
    MAPPED,
    TRAFFIC_DTYPE,
    WRITABLE,
)
from flashgen.emulator.arena import Arena
from flashgen.emulator.lockstep.access import ATOMIC, LOAD, STORE, Access, Storage
from flashgen.emulator.lockstep.findings import Findings
from flashgen.emulator.lockstep.lanes import WARP, Array, Geometry
from flashgen.emulator.lockstep.traffic import sectors, wavefronts
from flashgen.emulator.program.layout import GLOBAL_BASE, SHARED_BASE


class Ledger:
    """What a launch counts and finds.

    Attributes:
        counts: by instruction; ``traffic``: by region of global memory, loads and stores.
        checked: whether anything but access beyond all memory is looked for.
        barriers: that completed.
    """

    def __init__(self, instructions: int, regions: int, checked: bool) -> None:
        self.counts = np.zeros(instructions, COUNTS_DTYPE)
        self.traffic = np.zeros((regions, 2), TRAFFIC_DTYPE)
        self.findings = Findings()
        self.checked = checked
        self.barriers = 0


class Space(Protocol):
    """A state space of a wave."""

    storage: Storage

    def admit(self, access: Access) -> tuple[Access, Array]:
        """Checks and counts; what remains, and the offsets of its bytes."""
        ...


class _Base:
    """What spaces have in common."""

    def __init__(self, name: str, data: Array, geometry: Geometry, ledger: Ledger) -> None:
        self.name = name
        self.storage = Storage(data)
        self._geometry = geometry
        self._ledger = ledger

    def tell(self, kind: str, access: Access, lanes: Array) -> None:
        """One finding for each warp; ``lanes``: booleans over the access's lanes."""
        if lanes.any():
            self._ledger.findings.add_lanes(
                kind, access.instruction, self._geometry, access.lanes[lanes], access.addresses[lanes], access.size,
                self.name,
            )  # fmt: skip

    def within(self, access: Access, low: int, high: int) -> Access:
        """Drops and tells of what is not inside [low, high)."""
        a = access.addresses
        inside = (a >= np.uint64(low)) & (a <= np.uint64(max(high - access.size, 0)))
        if high - access.size < low:
            inside[:] = False
        if inside.all():
            return access
        self.tell("out-of-bounds", access, ~inside)
        return access.only(inside)

    def check_alignment(self, access: Access) -> None:
        """Tells of addresses that are no multiples of what they must be."""
        self.tell("misaligned", access, (access.addresses & np.uint64((access.aligned or access.size) - 1)) != 0)


class Constants(_Base):
    """Constant memory and parameters: the same for all, and not to be written."""

    def admit(self, access: Access) -> tuple[Access, Array]:
        """See `Space`."""
        self.check_alignment(access)
        if access.use != LOAD:
            everyone = np.ones(len(access.lanes), np.bool_)
            self.tell("forbidden-write", access, everyone)
            access = access.only(~everyone)
        access = self.within(access, 0, len(self.storage.data))
        return access, access.addresses.astype(np.int64)


class Local(_Base):
    """Memory of each thread alone."""

    def __init__(self, size: int, geometry: Geometry, ledger: Ledger) -> None:
        super().__init__("local", np.zeros(size * geometry.count, np.uint8), geometry, ledger)
        self._size = size
        self._written = Storage(np.zeros(size * geometry.count if ledger.checked else 0, np.uint8))

    def admit(self, access: Access) -> tuple[Access, Array]:
        """See `Space`."""
        self.check_alignment(access)
        access = self.within(access, 0, self._size)
        offsets = access.addresses.astype(np.int64) + access.lanes * self._size
        if self._ledger.checked:
            if access.use == STORE:
                self._written.scatter(offsets, np.ones((len(offsets), access.size), np.uint8))
            else:
                known: Array = np.logical_and.reduce(self._written.gather(offsets, 1, access.size), axis=1)
                self.tell("uninitialised-read", access, ~known)
        return access, offsets


class Shared(_Base):
    """Memory of each CTA, NaN bytes until it is written.

    Attributes:
        size: bytes of one CTA, and ``stride`` from one CTA's to the next's.
        stored: which bytes have been written.
    """

    def __init__(self, size: int, geometry: Geometry, ledger: Ledger) -> None:
        self.size, self.stride = size, -(-size // 64) * 64
        total = self.stride * len(geometry.ctas)
        super().__init__("shared", np.full(total, 0xFF, np.uint8), geometry, ledger)
        self.stored = Storage(np.zeros(total if ledger.checked else 0, np.uint8))

    def admit(self, access: Access) -> tuple[Access, Array]:
        """See `Space`."""
        self.check_alignment(access)
        access = self.within(access, SHARED_BASE, SHARED_BASE + self.size)
        cta = access.lanes // self._geometry.cta_lanes
        offsets = access.addresses.astype(np.int64) - SHARED_BASE + cta * self.stride
        if self._ledger.checked and len(access.lanes):
            self._count(access)
            self._check_contents(access, offsets)
        return access, offsets

    def _count(self, access: Access) -> None:
        counts = self._ledger.counts[access.instruction]
        counts["accesses"] += len(np.unique(access.lanes // WARP))
        counts["bytes"] += len(access.lanes) * access.size
        waves, ideal = wavefronts(access.lanes, access.addresses.astype(np.int64), access.size)
        counts["wavefronts"] += waves
        counts["ideal_wavefronts"] += ideal

    def _check_contents(self, access: Access, offsets: Array) -> None:
        if access.use == LOAD:
            known: Array = np.logical_and.reduce(self.stored.gather(offsets, 1, access.size), axis=1)
            self.tell("uninitialised-read", access, ~known)
        else:
            self.stored.scatter(offsets, np.ones((len(offsets), access.size), np.uint8))


class Global(_Base):
    """The arena: arrays with red zones between them, and a map of what may be done with each byte."""

    def __init__(self, arena: Arena, geometry: Geometry, ledger: Ledger) -> None:
        super().__init__("global", arena.data, geometry, ledger)
        table = arena.table()
        self._bases = table["base"].copy()
        self._ends = table["end"].copy()
        self._flags = table["flags"].copy()
        self._map = Storage(arena.map)
        self._bytes = arena.size

    def admit(self, access: Access) -> tuple[Access, Array]:
        """See `Space`."""
        self.check_alignment(access)
        if self._ledger.checked:
            access = self._check(access)
        else:
            access = self.within(access, GLOBAL_BASE, GLOBAL_BASE + self._bytes)
        return access, (access.addresses - np.uint64(GLOBAL_BASE)).astype(np.int64)

    def regions(self, addresses: Array) -> Array:
        """The last region that starts at or before each address; -1: none."""
        found: Array = np.searchsorted(self._bases, addresses, side="right") - 1
        return found

    def watched(self, access: Access) -> Array:
        """Which lanes touch what kernels may write."""
        watched: Array = (self._flags[self.regions(access.addresses)] & WRITABLE) != 0
        return watched

    def _check(self, access: Access) -> Access:
        region = self.regions(access.addresses)
        end = self._ends[region]
        inside = (region >= 0) & (access.addresses < end) & (end - access.addresses >= np.uint64(access.size))
        for lane in np.flatnonzero(~inside):  # each by itself: they have nothing in common
            self.tell("out-of-bounds", access, np.arange(len(inside)) == lane)
        flags = np.where(inside, self._flags[region], 0)
        writes = access.use != LOAD
        forbidden = inside & ((flags & WRITABLE) == 0) if writes else np.zeros_like(inside)
        for number in np.unique(region[forbidden]):
            self.tell("forbidden-write", access, forbidden & (region == number))
        good = inside & ~forbidden
        mapped = good & ((flags & MAPPED) != 0)
        if mapped.any():
            for number in np.unique(region[mapped]):
                good &= ~self._check_map(access, np.flatnonzero(mapped & (region == number)))
        access = access.only(good)
        if len(access.lanes):
            self._count(access, region[good])
        return access

    def _check_map(self, access: Access, places: Array) -> Array:
        """The byte map: gaps of views, contents that are not there yet. Booleans of the lanes that must not go on."""
        offsets = (access.addresses[places] - np.uint64(GLOBAL_BASE)).astype(np.int64)
        notes = self._map.gather(offsets, 1, access.size)
        every, some = np.bitwise_and.reduce(notes, axis=1), np.bitwise_or.reduce(notes, axis=1)
        writes = access.use != LOAD
        gap = (every & MAP_LEGAL) == 0
        if writes:
            gap |= (some & MAP_READ_ONLY) != 0
        unset = ~gap & ((every & MAP_INITIALISED) == 0) if access.use != STORE else np.zeros_like(gap)
        if access.use == ATOMIC:  # the first of several lanes writes what the others read
            _, first = np.unique(offsets, return_index=True)
            unset &= np.isin(np.arange(len(offsets)), first)
        everyone = np.arange(len(access.lanes))
        self.tell("uninitialised-read", access, np.isin(everyone, places[unset]))
        stopped = np.isin(everyone, places[gap])
        self.tell("forbidden-write" if writes else "out-of-bounds", access, stopped)
        if writes:
            value = MAP_LEGAL | MAP_INITIALISED | MAP_WRITTEN
            self._map.scatter(offsets[~gap], np.full((int((~gap).sum()), access.size), value, np.uint8))
        return stopped

    def _count(self, access: Access, region: Array) -> None:
        touched = sectors(access.lanes, access.addresses.astype(np.int64), access.size)
        # A region may start within its first sector; the sector's last byte lies in it or behind it.
        whose = self.regions(((touched + 1) * 32 - 1).astype(np.uint64))
        in_region = np.bincount(whose, minlength=len(self._bases))
        lanes = np.bincount(region, minlength=len(self._bases))
        warps = np.bincount(np.unique(region * (1 << 32) + access.lanes // WARP) >> 32, minlength=len(self._bases))
        self._ledger.counts[access.instruction]["sectors"] += len(touched)
        for way, use in ((0, STORE), (1, LOAD)):
            if access.use != use:
                traffic = self._ledger.traffic[:, way]
                traffic["requests"] += warps.astype(np.uint64)
                traffic["bytes"] += (lanes * access.size).astype(np.uint64)
                traffic["sectors"] += in_region.astype(np.uint64)
