"""The lanes of a wave: who they are, and sets of them as bits and as booleans.

A wave is the CTAs that run side by side. Its lanes are numbered CTA by CTA, warp by warp; an array that holds
something for each lane has one element for each of them.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from flashgen.emulator.isa.specials import SPECIALS

Array = npt.NDArray[Any]
WARP = 32
ALL = 0xFFFFFFFF


def bits_of(lanes: Array) -> Array:
    """Booleans of all lanes -> one 32-bit mask for each warp."""
    return np.packbits(lanes, bitorder="little").view(np.uint32)


def lanes_of(masks: Array) -> Array:
    """One 32-bit mask for each warp -> booleans of all lanes."""
    return np.unpackbits(masks.view(np.uint8), bitorder="little").view(np.bool_)


def lane_numbers(mask: int) -> list[int]:
    """The lanes of one mask, ascending."""
    return [lane for lane in range(WARP) if mask >> lane & 1]


@cache
def _special_names() -> dict[int, str]:
    names: dict[int, str] = {}
    for name, number in SPECIALS.items():
        names.setdefault(number, name[1:])
    return names


class Geometry:
    """Where the lanes of a wave stand in the launch.

    Attributes:
        threads, warps: of one CTA; ``all_warps``: of the wave.
        ctas: linear numbers of its CTAs.
        cta, thread: of each lane; a thread is counted within its CTA, in whole warps.
        identity: a number for each thread of the launch.
        exists: false for the lanes that fill up the last warp of a CTA.
    """

    def __init__(
        self, grid: tuple[int, int, int], block: tuple[int, int, int], ctas: Array, shared: int, static: int
    ) -> None:
        self.grid, self.block, self.ctas = grid, block, ctas
        self._shared, self._static = shared, static
        self.threads = block[0] * block[1] * block[2]
        self.warps = -(-self.threads // WARP)
        self.all_warps = self.warps * len(ctas)
        self.cta_lanes = self.warps * WARP
        self.cta = np.repeat(ctas.astype(np.int64), self.cta_lanes)
        self.thread = np.tile(np.arange(self.cta_lanes, dtype=np.int64), len(ctas))
        self.identity = self.cta * self.cta_lanes + self.thread
        self.exists = self.thread < self.threads

    @property
    def count(self) -> int:
        """How many lanes there are."""
        return len(self.cta)

    def special(self, number: int) -> Array:
        """The value of a special register in each lane."""
        name, _, axis = _special_names()[number].partition(".")
        return np.broadcast_to(np.asarray(self._special(name, "xyz".find(axis) if axis else 0)), self.count).astype(
            np.uint32
        )

    def _special(self, name: str, axis: int) -> Array | int:
        lane = self.thread % WARP
        bit = np.left_shift(1, lane)
        by_name: dict[str, Any] = {
            "tid": lambda: _coordinate(self.thread, self.block, axis),
            "ntid": lambda: self.block[axis],
            "ctaid": lambda: _coordinate(self.cta, self.grid, axis),
            "nctaid": lambda: self.grid[axis],
            "laneid": lambda: lane,
            "warpid": lambda: self.thread // WARP,
            "nwarpid": lambda: self.warps,
            "lanemask_eq": lambda: bit,
            "lanemask_lt": lambda: bit - 1,
            "lanemask_le": lambda: 2 * bit - 1,
            "lanemask_ge": lambda: ALL - (bit - 1),
            "lanemask_gt": lambda: ALL - (2 * bit - 1),
            "dynamic_smem_size": lambda: self._shared - self._static,
            "total_smem_size": lambda: self._shared,
            "nsmid": lambda: 1,
            "smid": lambda: 0,
        }
        value: Array | int = by_name[name]()
        return value


def _coordinate(linear: Array, sizes: tuple[int, int, int], axis: int) -> Array:
    x, y, _ = sizes
    return (linear % x, linear // x % y, linear // (x * y))[axis]
