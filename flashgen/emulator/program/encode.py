"""A lowered kernel to the arrays that the machine reads (machine/abi.hpp)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from flashgen.emulator.program.allocate import Allocation, allocate
from flashgen.emulator.program.flow import Block, find_blocks, find_meets
from flashgen.emulator.program.listing import Listing
from flashgen.emulator.program.ops import Const, LoweredKernel, Op, Place, Raw, Slot, SpecialSlot, VReg

_NO_GUARD = 0xFFFFFFFF
_NEGATED = 0x80000000
_NOWHERE = 0xFFFFFFFF
_LANES = 32
_AUX = 8
# The places of registers in a frame, the widest first so that all stay aligned to 64 bytes.
_WIDTHS = (64, 32, 16)

INS_DTYPE = np.dtype(
    [
        ("handler", "<u4"),
        ("op", "<u4"),
        ("guard", "<u4"),
        ("own_guard", "<u4"),
        ("imm", "<u8"),
        ("aux", "u1", _AUX),
    ]
)
SPECIAL_DTYPE = np.dtype([("number", "<u4"), ("offset", "<u4")])
Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class EncodedKernel(Listing):
    """What the machine needs of a kernel, besides what reports need.

    Attributes:
        ins, ops, image, specials: the arrays of ProgramDesc; ``ins`` has a row for each operation of the listing.
        frame_bytes: of one warp.
    """

    ins: Array
    ops: Array
    image: Array
    specials: Array
    frame_bytes: int


class _Frame:
    """Offsets of everything that an operand can be."""

    def __init__(self, blocks: list[Block], allocation: Allocation) -> None:
        self._allocation = allocation
        self._constants: dict[Const, int] = {}
        self._specials: dict[SpecialSlot, int] = {}
        size = 0
        slots = [slot for block in blocks for op in block.ops for slot in op.slots]
        wanted = sorted({slot for slot in slots if isinstance(slot, Const)}, key=lambda c: (-c.width, c.bits))
        for constant in wanted:
            self._constants[constant] = size
            size += _slot_bytes(constant.width)
        self.image_bytes = size = -(-size // 64) * 64
        for special in sorted({slot for slot in slots if isinstance(slot, SpecialSlot)}):
            self._specials[special] = size
            size += _slot_bytes(32)
        self._bases: dict[int, int] = {}
        for width in (*_WIDTHS, 1):
            self._bases[width] = size
            size += allocation.pools.get(width, 0) * _slot_bytes(width)
        self.bytes = -(-size // 64) * 64

    def offset(self, slot: Slot) -> int:
        """Byte offset of an operand."""
        if isinstance(slot, VReg):
            return self._bases[slot.width] + self._allocation.slots[slot] * _slot_bytes(slot.width)
        if isinstance(slot, Const):
            return self._constants[slot]
        if isinstance(slot, SpecialSlot):
            return self._specials[slot]
        assert isinstance(slot, Raw)
        return slot.value

    def image(self) -> Array:
        """The constants, broadcast."""
        data = np.zeros(self.image_bytes, np.uint8)
        for constant, at in self._constants.items():
            if constant.width == 1:
                data[at : at + 4] = np.frombuffer(constant.bits.to_bytes(4, "little"), np.uint8)
                continue
            lane = np.frombuffer(constant.bits.to_bytes(constant.width // 8, "little"), np.uint8)
            data[at : at + _slot_bytes(constant.width)] = np.tile(lane, _LANES)
        return data

    def specials(self) -> Array:
        """Where the machine puts special registers."""
        rows = [(special.number, offset) for special, offset in self._specials.items()]
        return np.array(rows, SPECIAL_DTYPE)


def _slot_bytes(width: int) -> int:
    return 4 if width == 1 else width // 8 * _LANES


def encode(kernel: LoweredKernel, handlers: Mapping[str, int]) -> EncodedKernel:
    """Finds blocks, allocates registers and lays out the arrays.

    Args:
        kernel: lowered.
        handlers: the machine's number of each handler.
    """
    blocks, places = find_blocks(kernel.code)
    find_meets(blocks)
    frame = _Frame(blocks, allocate(blocks))
    starts = np.cumsum([0, *(len(block.ops) for block in blocks)]).tolist()
    listed = Listing.of(kernel, blocks)
    listing = listed.listing
    ins = np.zeros(len(listing), INS_DTYPE)
    ins["handler"] = [handlers[op.handler] for op in listing]
    ops: list[int] = []
    rows: list[tuple[int, int, int, int]] = []
    aux = np.zeros((len(listing), _AUX), np.uint8)
    for block in blocks:
        meet = _NOWHERE if block.meet is None else starts[block.meet]
        for op in block.ops:
            if op.aux:
                aux[len(rows), : len(op.aux)] = op.aux
            guard = _NO_GUARD if op.guard is None else frame.offset(op.guard) | (_NEGATED if op.guard_negated else 0)
            rows.append((len(ops), guard, int(op.handler == "bra"), _immediate(op, places, starts, meet)))
            ops += [starts[places[slot]] if isinstance(slot, Place) else frame.offset(slot) for slot in op.slots]
    ins["op"], ins["guard"], ins["own_guard"], ins["imm"] = (
        np.array(column, np.uint64) for column in zip(*rows, strict=True)
    )
    ins["aux"] = aux
    return EncodedKernel(
        kernel, listing, listed.block_of, ins, np.array(ops, np.uint32), frame.image(), frame.specials(), frame.bytes
    )


def _immediate(op: Op, places: dict[Place, int], starts: list[int], meet: int) -> int:
    if op.handler == "bra":
        assert op.target is not None
        return starts[places[op.target]] | meet << 32
    return meet << 32 if op.handler == "brx.idx" else op.imm
