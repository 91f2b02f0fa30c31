"""The operations of a kernel in the order in which executors number them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from flashgen.emulator.program.flow import Block
from flashgen.emulator.program.ops import LoweredKernel, Op


@dataclass(frozen=True, slots=True)
class Listing:
    """What reports need to know of a kernel that ran.

    Attributes:
        listing: the operation behind each number.
        block_of: the number of the marker of the block that each is in.
    """

    kernel: LoweredKernel
    listing: tuple[Op, ...]
    block_of: npt.NDArray[Any]

    @classmethod
    def of(cls, kernel: LoweredKernel, blocks: list[Block]) -> Listing:
        """The operations of all blocks, one after the other."""
        lengths = [len(block.ops) for block in blocks]
        starts = np.cumsum([0, *lengths[:-1]])
        return cls(kernel, tuple(op for block in blocks for op in block.ops), np.repeat(starts, lengths))
