"""Global memory of a launch: NumPy arrays at device addresses, with red zones between them.

An array keeps its strides, and its offset from the start of its storage modulo 256, so that alignment is
what the caller's storage has and every run sees the same addresses. Arrays that share storage share it
here. Pages are only touched where array elements lie: a view that spans gigabytes costs what it holds.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.lib.array_utils import byte_bounds

from flashgen.emulator.abi import (
    BUFFER_DTYPE,
    MAP_INITIALISED,
    MAP_LEGAL,
    MAP_READ_ONLY,
    MAP_WRITTEN,
    MAPPED,
    READABLE,
    WRITABLE,
)
from flashgen.emulator.arguments import Buffer, NDArray
from flashgen.emulator.program.layout import GLOBAL_BASE, align_up
from flashgen.emulator.report import Finding

_RED_ZONE = 1 << 16
_ALIGNMENT = 256  # cudaMalloc's
# Python names it only from 3.13 on; the number is Linux's.
MAP_SPARSE = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0x4000)


def sparse_bytes(size: int) -> NDArray:
    """Zeros that take memory only where they are written."""
    return np.frombuffer(mmap.mmap(-1, max(size, 1), flags=MAP_SPARSE), np.uint8)


@dataclass(slots=True)
class Region:
    """A piece of the arena: arrays that overlap on the host, or the module's variables.

    Attributes:
        name: for reports.
        low, high: host addresses of its bytes.
        base: device address of ``low``.
    """

    name: str
    low: int
    high: int
    base: int = 0
    buffers: list[Buffer] = field(default_factory=list)
    flags: int = READABLE

    @property
    def end(self) -> int:
        """Device address behind it."""
        return self.base + self.high - self.low


class Arena:
    """The memory of a launch, or of several in a row.

    Attributes:
        regions: by ascending address.
        data, map: its bytes, and the machine's notes on each.
    """

    def __init__(self, buffers: list[Buffer], globals_image: bytearray) -> None:
        self.regions = [Region("module variables", 0, len(globals_image), GLOBAL_BASE, flags=READABLE | WRITABLE)]
        self.regions += _merge(buffers)
        at = self.regions[0].end
        for region in self.regions[1:]:
            phase = _storage_offset(region) % _ALIGNMENT
            region.base = align_up(at + _RED_ZONE, _ALIGNMENT) + phase
            at = region.end
        self.size = align_up(at + _RED_ZONE - GLOBAL_BASE, mmap.PAGESIZE)
        self.data = sparse_bytes(self.size)
        self.map = sparse_bytes(self.size)
        self._globals = globals_image
        self.data[: len(globals_image)] = globals_image
        for region in self.regions[1:]:
            _prepare(self, region)

    def address(self, array: NDArray) -> int:
        """Device address of an array's first element."""
        if array.size == 0:
            return self.regions[0].base + self.size - _RED_ZONE // 2  # anything that no access may use
        low, high = byte_bounds(array)
        region = next(r for r in self.regions[1:] if r.low <= low and high <= r.high)
        return region.base + array.ctypes.data - region.low

    def view(self, array: NDArray, of: NDArray | None = None) -> NDArray:
        """The array's elements in the arena (or in the map, one byte for each byte)."""
        offset = self.address(array) - GLOBAL_BASE
        if of is None:
            return np.ndarray(array.shape, array.dtype, self.data.data, offset, array.strides)
        return np.ndarray((*array.shape, array.itemsize), np.uint8, of.data, offset, (*array.strides, 1))

    def table(self) -> np.ndarray[Any, Any]:
        """The regions as the machine reads them."""
        return np.array([(r.base, r.end, r.flags, 0) for r in self.regions], BUFFER_DTYPE)

    def finish(self, kernel: str = "") -> list[Finding]:
        """Writes outputs to the caller's arrays; tells of outputs that were left unwritten, in part or whole."""
        for buffer in self._buffers():
            if buffer.use in ("out", "inout"):
                buffer.array[...] = self.view(buffer.array)
        self._globals[:] = self.data[: len(self._globals)].tobytes()
        return [self._unwritten(kernel, *missing) for missing in self._missing()]

    def _buffers(self) -> list[Buffer]:
        return [buffer for region in self.regions[1:] for buffer in region.buffers]

    def _missing(self) -> Iterator[tuple[Buffer, NDArray]]:
        for buffer in self._buffers():
            if buffer.use == "out":
                written = (self.view(buffer.array, self.map) & MAP_WRITTEN).all(axis=-1)
                if not written.all():
                    yield buffer, np.argwhere(~written)

    def _unwritten(self, kernel: str, buffer: Buffer, missing: NDArray) -> Finding:
        first = ", ".join(str(int(k)) for k in missing[0])
        count = f"{len(missing):,} of {buffer.array.size:,} elements of {buffer.name}"
        message = f"unwritten-output: {count}, the first at [{first}]"
        return Finding("unwritten-output", message, kernel, count=len(missing))


def _merge(buffers: list[Buffer]) -> list[Region]:
    """Groups buffers whose bytes overlap on the host; distinct ones keep the order of the arguments."""
    regions: list[Region] = []
    for buffer in buffers:
        if buffer.array.size == 0:
            continue
        low, high = byte_bounds(buffer.array)
        overlapping = [r for r in regions if r.low < high and low < r.high]
        merged = Region(buffer.name, low, high, buffers=[buffer])
        for region in overlapping:
            merged.low, merged.high = min(merged.low, region.low), max(merged.high, region.high)
            merged.buffers = region.buffers + merged.buffers
        if overlapping:
            merged.name = "+".join(dict.fromkeys(b.name for b in merged.buffers))
            regions[regions.index(overlapping[0])] = merged
            regions = [r for r in regions if r not in overlapping]
        else:
            regions.append(merged)
    return regions


def _storage_offset(region: Region) -> int:
    root = region.buffers[0].array
    while isinstance(root.base, np.ndarray):
        root = root.base
    return region.low - root.ctypes.data


def _is_whole(region: Region) -> bool:
    """Whether the elements of one array fill the region without gaps."""
    array = region.buffers[0].array
    return len(region.buffers) == 1 and array.size * array.itemsize == region.high - region.low


def _prepare(arena: Arena, region: Region) -> None:
    uses = {buffer.use for buffer in region.buffers}
    region.flags = READABLE | (WRITABLE if uses - {"in"} else 0)
    for buffer in region.buffers:
        if buffer.use in ("in", "inout"):
            arena.view(buffer.array)[...] = buffer.array
    if uses == {"in"} and _is_whole(region):
        return
    region.flags |= MAPPED
    for use, flags in (
        ("in", MAP_LEGAL | MAP_INITIALISED | MAP_READ_ONLY),
        ("scratch", MAP_LEGAL),
        ("out", MAP_LEGAL),
        ("inout", MAP_LEGAL | MAP_INITIALISED),
    ):
        for buffer in region.buffers:
            if buffer.use == use:
                arena.view(buffer.array, arena.map)[...] = flags
