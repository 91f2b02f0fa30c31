"""Tensor cores: matrix products, and the loads and the transposition that arrange their fragments.

A fragment is a register (or several) of each lane. Lane l stands for row g = l / 4 and column pair t = l % 4 of
a block of 8 rows, so that a register of all lanes, read in the order of the lanes, is 8 rows of 16 bytes, 8 halves, 4
tf32 or 4 doubles. In the order of the registers the blocks are, of A: rows 0-7, rows 8-15 (if it has them), then the
same for the next columns of k; of B (whose "rows" are the columns n): k ascending; of C and D: rows 0-7, then rows
8-15, each as one register of halves, or as two of which one holds the columns 2t and the other the columns 2t + 1.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from flashgen.emulator.isa.access import address, elements_of
from flashgen.emulator.isa.builders import need
from flashgen.emulator.isa.entry import Entry, Fields
from flashgen.emulator.program.ops import Slot
from flashgen.emulator.ptx.ast import Instruction, Operand
from flashgen.emulator.ptx.types import WIDTHS

if TYPE_CHECKING:
    from flashgen.emulator.program.lower import Lowering

_LANES = 32
_ROW_BYTES = 16  # of the 8 x 8 matrices of 16-bit elements


def build_mma(low: Lowering, ins: Instruction, f: Fields) -> None:
    """``mma d, a, b, c``: handler ``mma.<shape>.<accumulator>.<type of A>[.<type of B>]``, slots d, a, b, c.

    ``aux`` counts the registers of each of them, and says whether the sums saturate. B's type is named for those of
    8 bits, which may be mixed.
    """
    need(low, ins, 4)
    shape = re.fullmatch(r"m(\d+)n8k(\d+)", f["shape"])
    assert shape is not None
    rows, depth = int(shape[1]), int(shape[2])
    operand = "b64" if f["a"] == "f64" else "b32"
    accumulator = f["d"] if f["d"] in ("f32", "f64") else "b32"
    per_register = WIDTHS[operand] // WIDTHS[f["a"]]
    sums = rows * 8 // _LANES // (2 if f["d"] == "f16" else 1)
    counts = (sums, rows * depth // per_register // _LANES, 8 * depth // per_register // _LANES, sums)
    slots: list[Slot] = []
    for which, (fragment, count) in enumerate(zip(ins.operands, counts, strict=True)):
        type_name = accumulator if which in (0, 3) else operand
        registers = _registers(low, ins, fragment, count)
        slots += [low.write(r, type_name, ins) if which == 0 else low.read(r, type_name, ins) for r in registers]
    handler = ".".join(("mma", f["shape"], f["d"], f["a"], *([f["b"]] if f.get("b") else [])))
    aux = (*counts, int(bool(f.get("satfinite"))))
    low.emit(ins, handler, slots, list(range(sums)), aux=aux, unit="mma")


def build_ldmatrix(low: Lowering, ins: Instruction, f: Fields) -> None:
    """``ldmatrix {d, ...}, [a]``: handler ``ldmatrix.<space>``, slots base, d, ...

    ``aux`` is that of a load of 16 bytes, with the number of matrices for that of elements, and .trans last.
    """
    need(low, ins, 2)
    count = int(f["count"][1:])
    base, kind, displacement, space = address(low, ins, ins.operands[1], f["space"].partition("::")[0] or "generic")
    registers = _registers(low, ins, ins.operands[0], count)
    slots: list[Slot] = [base, *(low.write(register, "b32", ins) for register in registers)]
    aux = (kind, _ROW_BYTES.bit_length() - 1, 0, 2, count, 0, int(bool(f["trans"])))
    writes = list(range(1, 1 + count))
    low.emit(ins, f"ldmatrix.{space}", slots, writes, imm=displacement, aux=aux, unit="load.matrix")


def _registers(low: Lowering, ins: Instruction, operand: Operand, count: int) -> tuple[Operand, ...]:
    registers = elements_of(operand)
    if len(registers) != count:
        raise low.error(ins, f"{ins.opcode} takes {count} registers there, not {len(registers)}")
    return registers


_SPACES = "shared|shared::cta"
_BYTES = "s8|u8"
_FP8 = "e4m3|e5m2"
_PRODUCTS = (
    # accumulator, type of A, of B if it may be another, shapes, least architecture
    ("f32", "f16", "", "m16n8k8", 75),
    ("f16", "f16", "", "m16n8k8", 75),
    ("f32", "f16", "", "m16n8k16", 80),
    ("f16", "f16", "", "m16n8k16", 80),
    ("f32", "bf16", "", "m16n8k8|m16n8k16", 80),
    ("f32", "tf32", "", "m16n8k4|m16n8k8", 80),
    ("f64", "f64", "", "m8n8k4", 80),
    ("s32", _BYTES, _BYTES, "m16n8k16|m16n8k32", 80),
    ("f32", _FP8, _FP8, "m16n8k32", 89),
    ("f16", _FP8, _FP8, "m16n8k32", 89),
)


def _product(d: str, a: str, b: str, shapes: str, since: int) -> Entry:
    right, saturates = f"<b:{b}>" if b else a, "[.satfinite]" if d == "s32" else ""
    syntax = f"mma.sync.aligned.<shape:{shapes}>.row.col{saturates}.<d:{d}>.<a:{a}>.{right}.{d}"
    return Entry(syntax, unit="mma", build=build_mma, since=since)


ENTRIES = (
    *(_product(*product) for product in _PRODUCTS),
    Entry(
        f"ldmatrix.sync.aligned.m8n8.<count:x1|x2|x4>[.trans][.<space:{_SPACES}>].b16",
        unit="load.matrix", build=build_ldmatrix, since=75,
    ),
    Entry("movmatrix.sync.aligned.m8n8.trans.b16", "*d:b32 a:b32", "movmatrix", "mma", since=75),
)  # fmt: skip
