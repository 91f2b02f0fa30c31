"""The lowered form: operations on slots, in order, with the places that branches go to.

It names no machine: the C++ interpreter runs an encoding of it, another executor can run it directly.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from flashgen.emulator.ptx.ast import Instruction


@dataclass(eq=False, slots=True)
class VReg:
    """A virtual register: 1 (a predicate), 16, 32 or 64 bits in each lane."""

    width: int
    name: str


class Const(NamedTuple):
    """A constant, the same in every lane. A predicate has all 32 lanes in ``bits``."""

    bits: int
    width: int


class SpecialSlot(NamedTuple):
    """A special register by the machine's number."""

    number: int


class Raw(NamedTuple):
    """A plain number among the operands."""

    value: int


@dataclass(eq=False, slots=True)
class Place:
    """Where a branch may go."""

    name: str


Slot = VReg | Const | SpecialSlot | Raw | Place


@dataclass(eq=False, slots=True)
class Op:
    """One operation of the machine.

    Attributes:
        handler: the machine's function for it.
        slots: operands.
        writes: indices of those that it writes.
        imm: a displacement, a table, ...
        target: where a branch goes.
        guard: predicate, or None.
        aux: the handler's parameters.
        unit: what kind of work it is.
        source: the instruction that it came from; None for what the emulator added.
    """

    handler: str
    slots: tuple[Slot, ...] = ()
    writes: tuple[int, ...] = ()
    imm: int = 0
    target: Place | None = None
    guard: VReg | None = None
    guard_negated: bool = False
    aux: tuple[int, ...] = ()
    unit: str = "int"
    source: Instruction | None = None

    @property
    def ends_block(self) -> bool:
        """Whether control may go elsewhere afterwards."""
        return self.handler in ("bra", "brx.idx", "exit", "trap")

    @property
    def falls_through(self) -> bool:
        """Whether the next operation may follow."""
        unconditional = self.handler in ("bra", "exit", "trap", "brx.idx")
        return not unconditional or self.guard is not None

    def targets(self) -> tuple[Place, ...]:
        """Where a branch may go, besides the next operation."""
        listed = tuple(slot for slot in self.slots if isinstance(slot, Place))
        return (self.target,) if self.target is not None else listed


@dataclass(eq=False, slots=True)
class LoweredKernel:
    """A kernel, lowered, with its memory laid out.

    Attributes:
        name: the entry.
        code: operations and places, in order.
        param_bytes: size of the parameter block.
        static_shared: bytes of static shared memory, up to where the dynamic one starts.
        local_bytes: local memory of one thread.
        narrowest_shared, narrowest_global: bytes of the narrowest write to either, at most 16.
        partial_barriers: whether some barriers are not of the whole block.
    """

    name: str
    code: list[Op | Place] = field(default_factory=list)
    param_bytes: int = 0
    static_shared: int = 0
    local_bytes: int = 0
    narrowest_shared: int = 16
    narrowest_global: int = 16
    partial_barriers: bool = False
