"""Lowering of instructions with a shape of their own: conversions, moves, comparisons."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flashgen.emulator.isa.entry import Fields, code
from flashgen.emulator.isa.specials import CLOCKS
from flashgen.emulator.program.ops import Const, Op, Slot
from flashgen.emulator.ptx.ast import Imm, Instruction, Negated, Operand, Register, Special, Vector
from flashgen.emulator.ptx.types import FLOATS, HALVES, WIDTHS, is_signed, register_width

if TYPE_CHECKING:
    from flashgen.emulator.program.lower import Lowering

_ALL_LANES = 0xFFFFFFFF
_UNSIGNED_NAMES = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}
_RELATIONS = ("eq", "ne", "lt", "le", "equ", "neu", "ltu", "leu", "num", "nan")
# (destination bits, source type) of integer conversions that are a plain cast.
_CASTS = {
    (64, "u32"): "u64.u32",
    (64, "s32"): "s64.s32",
    (32, "u64"): "u32.u64",
    (32, "s64"): "u32.u64",
    (32, "u16"): "u32.u16",
    (16, "u32"): "u16.u32",
    (16, "s32"): "u16.u32",
}


def operand_width(operand: Operand, type_name: str) -> int:
    """Bits of the register that an operand is, or of the type if it is a literal."""
    return operand.width if isinstance(operand, Register) else register_width(type_name)


def need(low: Lowering, ins: Instruction, least: int, most: int | None = None) -> None:
    """Refuses a wrong number of operands."""
    if not least <= len(ins.operands) <= (most or least):
        raise low.error(ins, f"{ins.opcode} with {len(ins.operands)} operands")


def build_convert(low: Lowering, ins: Instruction, f: Fields) -> None:
    """``cvt.d.s``: integers by container width, floats by type."""
    need(low, ins, 2)
    to, source = ins.operands
    d, s = f["d"], f["s"]
    slots: list[Slot] = [low.write(to, f"~{d}", ins), low.read(source, f"~{s}", ins)]
    to_width, from_width = operand_width(to, d), operand_width(source, s)
    plain = _CASTS.get((to_width, s)) if from_width == WIDTHS[s] and to_width == WIDTHS[d] else None
    if plain and d not in FLOATS and not f["sat"]:
        low.emit(ins, f"cvt.plain.{plain}", slots, [0], unit="convert")
        return
    handler = f"cvt.{d if d in FLOATS else f'b{to_width}'}.{s if s in FLOATS else f'b{from_width}'}"
    finish = code("relu", f) + 2 * code("satfinite", f)
    aux = (
        WIDTHS[s],
        int(is_signed(s)),
        WIDTHS[d],
        int(is_signed(d)),
        code("rnd", f),
        code("ftz", f),
        code("sat", f),
        finish,
    )
    low.emit(ins, handler, slots, [0], aux=aux, unit="convert")


def build_move(low: Lowering, ins: Instruction, f: Fields) -> None:
    """``mov``: registers, literals, addresses, special registers, and packing."""
    need(low, ins, 2)
    to, source = ins.operands
    type_name = f["t"]
    if type_name == "pred":
        negated = int(isinstance(source, Negated))
        slots: list[Slot] = [low.write(to, "pred", ins), low.read(source, "pred", ins)]
        low.emit(ins, "mov.pred", slots, [0], aux=(negated,), unit="move")
    elif isinstance(to, Vector):
        _unpack(low, ins, to, source, type_name)
    elif isinstance(source, Vector):
        _pack(low, ins, to, source, type_name)
    elif isinstance(source, Special) and source.name in CLOCKS:
        handler, shift = CLOCKS[source.name]
        low.emit(ins, handler, [low.write(to, type_name, ins)], [0], imm=shift, unit="move")
    else:
        slots = [low.write(to, type_name, ins), low.read(source, type_name, ins)]
        low.emit(ins, f"mov.b{register_width(type_name)}", slots, [0], unit="move")


def _element_width(low: Lowering, ins: Instruction, vector: Vector, total: str) -> int:
    width = WIDTHS[total] // len(vector.elements)
    if (WIDTHS[total], width) not in ((32, 16), (64, 16), (64, 32)):
        raise low.error(ins, f"{ins.opcode} of {len(vector.elements)} elements")
    return width


def _pack(low: Lowering, ins: Instruction, to: Operand, source: Vector, total: str) -> None:
    width = _element_width(low, ins, source, total)
    elements = [low.read(element, f"b{width}", ins) for element in source.elements]
    low.emit(ins, f"pack.b{WIDTHS[total]}.b{width}", [low.write(to, total, ins), *elements], [0], unit="move")


def _unpack(low: Lowering, ins: Instruction, to: Vector, source: Operand, total: str) -> None:
    width = _element_width(low, ins, to, total)
    elements: list[Slot] = [low.write(element, f"b{width}", ins) for element in to.elements]
    slots = [*elements, low.read(source, total, ins)]
    low.emit(ins, f"unpack.b{WIDTHS[total]}.b{width}", slots, list(range(len(elements))), unit="move")


def _comparison(low: Lowering, ins: Instruction, f: Fields, source: str, p: Slot, q: Slot, has_q: bool) -> None:
    """A comparison of operands 1 and 2 into p (and q), combined with operand 3 if there is one."""
    left, right = (low.read(operand, source, ins) for operand in ins.operands[1:3])
    relation = _UNSIGNED_NAMES.get(f["cmp"], f["cmp"])
    if relation.startswith("g"):
        left, right, relation = right, left, "l" + relation[1:]
    slots: list[Slot] = [p, q, left, right]
    negated = 0
    if f["bool"]:
        need(low, ins, 4)
        negated = int(isinstance(ins.operands[3], Negated))
        slots.append(low.read(ins.operands[3], "pred", ins))
    aux = [code("bool", f), negated, int(has_q)]
    if source in HALVES:
        aux += [_RELATIONS.index(relation), code("ftz", f)]
        handler = f"setp.{source}"
    elif source in FLOATS:
        handler = f"setp.{relation}{'.ftz' if f['ftz'] else ''}.{source}"
    else:
        as_signed = is_signed(source) and f["cmp"] not in _UNSIGNED_NAMES
        kind = "b" if relation in ("eq", "ne") else "s" if as_signed else "u"
        handler = f"setp.{relation}.{kind}{WIDTHS[source]}"
    low.emit(ins, handler, slots, [0, 1], aux=tuple(aux), unit="compare")


def build_setp(low: Lowering, ins: Instruction, f: Fields) -> None:
    """``setp p|q, a, b, {!}c``."""
    need(low, ins, 3, 4)
    first, second = low.pair(ins.operands[0])
    if f["t"] in ("f16x2", "bf16x2") and second is None:
        raise low.error(ins, f"{ins.opcode} writes two predicates")
    p = low.write(first, "pred", ins)
    q = low.write(second, "pred", ins) if second is not None else p
    _comparison(low, ins, f, f["t"], p, q, second is not None)


def build_set(low: Lowering, ins: Instruction, f: Fields) -> None:
    """``set d, a, b, {!}c``: a comparison into a scratch predicate, then all ones or 1.0 by it."""
    need(low, ins, 3, 4)
    p = low.scratch(1)
    _comparison(low, ins, f, f["s"], p, p, has_q=False)
    width = register_width(f["d"])
    true = {"f32": 0x3F800000, "f16": 0x3C00, "bf16": 0x3F80}.get(f["d"], (1 << width) - 1)
    chosen: list[Slot] = [low.write(ins.operands[0], f["d"], ins), Const(true, width), Const(0, width), p]
    op = Op(f"selp.b{width}", tuple(chosen), (0,), unit="compare")  # not an instruction of its own
    if ins.guard is not None:
        op.guard, op.guard_negated = low.register(ins.guard), ins.guard_negated
    low.kernel.code.append(op)


def build_lop3(low: Lowering, ins: Instruction, f: Fields) -> None:
    """``lop3.b32 d, a, b, c, table`` and ``lop3.BoolOp.b32 d|p, a, b, c, table, q``."""
    need(low, ins, 6 if f["bool"] else 5)
    to, p = low.pair(ins.operands[0])
    table = ins.operands[4]
    if not isinstance(table, Imm):
        raise low.error(ins, "the truth table of lop3 must be a literal")
    d = low.write(to, "b32", ins)
    slots: list[Slot] = [d, *(low.read(operand, "b32", ins) for operand in ins.operands[1:4])]
    low.emit(ins, "lop3.b32", slots, [0], imm=table.value & 0xFF, unit="int")
    if f["bool"]:
        if p is None:
            raise low.error(ins, f"{ins.opcode} writes a predicate, too")
        q = ins.operands[5]
        pslots: list[Slot] = [low.write(p, "pred", ins), d, low.read(q, "pred", ins)]
        low.emit(ins, "nonzero.bool", pslots, [0], aux=(code("bool", f), int(isinstance(q, Negated))), unit="int")
