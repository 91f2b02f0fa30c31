"""Lowering of memory instructions: addresses, vectors, the space that is meant."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flashgen.emulator.isa.builders import need, operand_width
from flashgen.emulator.isa.entry import Fields
from flashgen.emulator.program.layout import SPACES, window
from flashgen.emulator.program.ops import Const, Slot
from flashgen.emulator.ptx.ast import Address, Imm, Instruction, Operand, Register, Sink, Variable, Vector
from flashgen.emulator.ptx.types import WIDTHS, is_signed, register_width

if TYPE_CHECKING:
    from flashgen.emulator.program.lower import Lowering

_STRONG = ("volatile", "relaxed", "acquire", "release", "acq_rel", "sc", "mmio")
_NO_BASE = Const(0, 32)
_MASK64 = (1 << 64) - 1
# Atomic operations by the type that the machine knows them by.
_UNTYPED = frozenset({"and", "or", "xor", "exch", "cas"})


def _log2(value: int) -> int:
    return value.bit_length() - 1


def address(low: Lowering, ins: Instruction, operand: Operand, space: str) -> tuple[Slot, int, int, str]:
    """(base slot, its kind, displacement, space) of ``[operand]``."""
    if not isinstance(operand, Address):
        raise low.error(ins, f"{ins.opcode} takes an address in brackets")
    if isinstance(operand.base, Variable):
        own_space, start = low.address_of(operand.base)
        return _NO_BASE, 0, (start + operand.offset) & _MASK64, own_space
    if operand.base is None:
        return _NO_BASE, 0, operand.offset & _MASK64, space
    width = operand.base.width
    if width not in (32, 64):
        raise low.error(ins, f"{operand.base.name} cannot hold an address")
    return low.register(operand.base), _log2(width) - 4, operand.offset & _MASK64, space


def _space(f: Fields) -> str:
    return f["space"].partition("::")[0] or "generic"


def elements_of(operand: Operand) -> tuple[Operand, ...]:
    """The elements of ``{a, b, ...}``, or the operand itself."""
    return operand.elements if isinstance(operand, Vector) else (operand,)


def note_width(low: Lowering, space: str, size: int) -> None:
    """Remembers the narrowest write: cells no wider than that are written whole or not at all."""
    if space in ("shared", "generic"):
        low.kernel.narrowest_shared = min(low.kernel.narrowest_shared, size)
    if space in ("global", "generic"):
        low.kernel.narrowest_global = min(low.kernel.narrowest_global, size)


def _access(low: Lowering, ins: Instruction, f: Fields, place: Operand, data: Operand, *, load: bool) -> None:
    base, kind, displacement, space = address(low, ins, place, _space(f))
    elements, size = elements_of(data), WIDTHS[f["t"]] // 8
    if len(elements) != int(f["vec"][1:] or 1) if f["vec"] else len(elements) != 1:
        raise low.error(ins, f"{ins.opcode} with {len(elements)} elements")
    widths = {operand_width(element, f["t"]) for element in elements if not isinstance(element, Sink)}
    width = widths.pop() if widths else register_width(f["t"])
    if widths:
        raise low.error(ins, f"{ins.opcode} with registers of different widths")
    typed = f"~b{WIDTHS[f['t']]}" if width == register_width(f["t"]) else f"~b{width}"
    slots: list[Slot] = [base]
    slots += [low.write(element, typed, ins) if load else low.read(element, typed, ins) for element in elements]
    if space == "param" and not load:
        raise low.error(ins, "a kernel's parameters cannot be written")
    if not load:
        note_width(low, space, size * len(elements))
    strong = int(f["sem"] in _STRONG)
    aux = (kind, _log2(size), int(is_signed(f["t"])), _log2(width) - 3, len(elements), strong)
    name, unit = ("ld", "load") if load else ("st", "store")
    writes = list(range(1, len(slots))) if load else []
    low.emit(ins, f"{name}.{space}", slots, writes, imm=displacement, aux=aux, unit=f"{unit}.{space}")


def build_load(low: Lowering, ins: Instruction, f: Fields) -> None:
    """``ld d, [a]``; a cache policy may follow."""
    need(low, ins, 2, 3)
    _access(low, ins, f, ins.operands[1], ins.operands[0], load=True)


def build_store(low: Lowering, ins: Instruction, f: Fields) -> None:
    """``st [a], b``; a cache policy may follow."""
    need(low, ins, 2, 3)
    _access(low, ins, f, ins.operands[0], ins.operands[1], load=False)


def build_atomic(low: Lowering, ins: Instruction, f: Fields) -> None:
    """``atom d, [a], b, c`` and ``red [a], b``."""
    returns = f["name"] == "atom"
    operands = list(ins.operands)
    to = elements_of(operands.pop(0)) if returns else ()
    base, kind, displacement, space = address(low, ins, operands.pop(0), _space(f))
    count = 2 if f["op"] == "cas" else 1
    if len(operands) < count:
        raise low.error(ins, f"{ins.opcode} lacks operands")
    sources = [element for operand in operands[:count] for element in elements_of(operand)]
    size = WIDTHS[f["t"]] // 8
    lanes = len(elements_of(operands[0]))
    slots: list[Slot] = [base, *(low.write(element, f["t"], ins) for element in to)]
    slots += [low.read(element, f["t"], ins) for element in sources]
    note_width(low, space, size)
    aux = (kind, _log2(size), SPACES[space], 0, lanes, 1, int(returns), count)
    writes = list(range(1, 1 + len(to)))
    handler = f"atom.{f['op']}.{_atomic_type(f)}"
    low.emit(ins, handler, slots, writes, imm=displacement, aux=aux, unit=f"atomic.{space}")


def _atomic_type(f: Fields) -> str:
    type_name = f["t"]
    if f["op"] in _UNTYPED:
        return f"b{WIDTHS[type_name]}"
    if f["op"] == "add" and type_name in ("s32", "s64"):
        return f"u{WIDTHS[type_name]}"
    return type_name


def build_prefetch(low: Lowering, ins: Instruction, f: Fields) -> None:
    """A hint: nothing happens."""
    low.emit(ins, "prefetch", [], [], unit="control")


def build_policy(low: Lowering, ins: Instruction, f: Fields) -> None:
    """``createpolicy d, ...``: a cache policy, which changes nothing here; any value serves."""
    need(low, ins, 1, 3)
    low.emit(ins, "mov.b64", [low.write(ins.operands[0], "b64", ins), Const(0, 64)], [0], unit="move")


def build_cvta(low: Lowering, ins: Instruction, f: Fields) -> None:
    """``cvta`` adds a window's address, ``cvta.to`` takes it away; global addresses stay."""
    need(low, ins, 2)
    to, source = ins.operands
    offset = window(f["space"].partition("::")[0])
    slots: list[Slot] = [low.write(to, "u64", ins), low.read(source, "u64", ins)]
    if offset == 0:
        low.emit(ins, "mov.b64", slots, [0], unit="move")
    elif f["to"]:
        low.emit(ins, "sub.b64", [*slots, Const(offset, 64)], [0], unit="move")
    else:
        low.emit(ins, "add.b64", [*slots, Const(offset, 64)], [0], unit="move")


def build_isspacep(low: Lowering, ins: Instruction, f: Fields) -> None:
    """``isspacep p, a``: which window an address lies in."""
    need(low, ins, 2)
    slots: list[Slot] = [low.write(ins.operands[0], "pred", ins), low.read(ins.operands[1], "u64", ins)]
    space = f["space"].partition("::")[0]
    low.emit(ins, "isspacep", slots, [0], imm=SPACES[space], unit="compare")


def build_mapa(low: Lowering, ins: Instruction, f: Fields) -> None:
    """Every CTA is a cluster of its own here, so its shared memory is where it was."""
    need(low, ins, 3)
    source = ins.operands[1]
    if not isinstance(source, Register | Variable | Address | Imm):
        raise low.error(ins, f"{ins.opcode} takes an address")
    slots: list[Slot] = [low.write(ins.operands[0], f["t"], ins), low.read(source, f["t"], ins)]
    low.emit(ins, f"mov.b{WIDTHS[f['t']]}", slots, [0], unit="move")
