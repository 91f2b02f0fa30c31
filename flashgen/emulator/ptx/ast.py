"""A PTX module as data: variables, functions, instructions with resolved operands."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from flashgen.emulator.ptx.types import register_width, width_of


@dataclass(eq=False, slots=True)
class Register:
    """A declared register. Equal names in different scopes are different registers."""

    name: str
    type: str

    @property
    def width(self) -> int:
        """Bits that it holds."""
        return register_width(self.type)


@dataclass(eq=False, slots=True)
class Variable:
    """A variable in memory.

    Attributes:
        name: as declared.
        space: ``global``, ``shared``, ``const``, ``local`` or ``param``.
        size: bytes; 0 for an ``extern`` array, whose size the launch decides.
        align: bytes.
        init: initial bytes, or None.
        extern: declared ``.extern``.
    """

    name: str
    space: str
    type: str
    size: int
    align: int
    init: bytes | None = None
    extern: bool = False


@dataclass(eq=False, slots=True)
class Label:
    """A place in a function."""

    name: str


class Imm(NamedTuple):
    """A literal: an integer, or the bits of a float of ``float_width`` bits (0: an integer)."""

    value: int
    float_width: int = 0


class Special(NamedTuple):
    """A special register, such as ``%tid.x``."""

    name: str


class Address(NamedTuple):
    """``[base + offset]``, or a variable's address as a value."""

    base: Register | Variable | None
    offset: int


class Vector(NamedTuple):
    """``{a, b, ...}``."""

    elements: tuple[Operand, ...]


class Negated(NamedTuple):
    """``!p``."""

    register: Register


class Pair(NamedTuple):
    """``p|q``."""

    first: Operand
    second: Operand


class Sink(NamedTuple):
    """``_``."""


class FunctionName(NamedTuple):
    """The name of a function, in a call."""

    name: str


class Group(NamedTuple):
    """``(a, b, ...)``, in a call; ``[map, {x, y}]``, a tensor and coordinates."""

    elements: tuple[Operand, ...]


Operand = Register | Variable | Label | Imm | Special | Address | Vector | Negated | Pair | Sink | FunctionName | Group


@dataclass(frozen=True, slots=True)
class Location:
    """Where an instruction came from: file number and line, then where that was inlined, outwards."""

    file: int
    line: int
    inlined_at: Location | None = None


@dataclass(eq=False, slots=True)
class Instruction:
    """One instruction.

    Attributes:
        opcode: with all its modifiers.
        operands: resolved.
        guard: the predicate, or None.
        guard_negated: ``@!p``.
        line: in the PTX text.
        location: from ``.loc``, or None.
        text: the statement, for messages.
    """

    opcode: str
    operands: tuple[Operand, ...]
    guard: Register | None
    guard_negated: bool
    line: int
    location: Location | None
    text: str


@dataclass(eq=False, slots=True)
class Function:
    """An ``.entry`` or ``.func``.

    Attributes:
        body: instructions and labels, in order.
        branch_targets: lists of labels that ``.branchtargets`` named.
        variables: those declared inside.
    """

    name: str
    is_entry: bool
    params: list[Variable | Register]
    returns: list[Variable | Register]
    body: list[Instruction | Label] = field(default_factory=list)
    branch_targets: dict[Label, tuple[Label, ...]] = field(default_factory=dict)
    variables: list[Variable] = field(default_factory=list)
    max_threads: int = 0


@dataclass(eq=False, slots=True)
class PtxModule:
    """A whole PTX text."""

    version: str = ""
    target: str = ""
    files: dict[int, str] = field(default_factory=dict)
    variables: list[Variable] = field(default_factory=list)
    functions: dict[str, Function] = field(default_factory=dict)


def element_size(type_name: str) -> int:
    """Bytes of one element of a variable."""
    return width_of(type_name) // 8
