"""Tensor cores: matrix products, and the loads and the transposition that arrange their fragments.

A fragment is a register (or several) of each lane. Lane l stands for row g = l / 4 and column pair t = l % 4 of
a block of 8 rows, so that a 32-bit register of all lanes, read in the order of the lanes, is 8 rows of 8 halves or
of 4 tf32. In the order of the registers the blocks are, of A: rows 0-7, rows 8-15, then the same for the next
columns of k; of B (whose "rows" are the columns n): k ascending; of C and D in fp32: column 2t, column 2t + 1 of
rows 0-7, then of rows 8-15.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flashgen.emulator.isa.access import address, elements_of
from flashgen.emulator.isa.builders import need
from flashgen.emulator.isa.entry import Entry, Fields
from flashgen.emulator.program.ops import Slot
from flashgen.emulator.ptx.ast import Instruction, Operand
from flashgen.emulator.ptx.types import WIDTHS

if TYPE_CHECKING:
    from flashgen.emulator.program.lower import Lowering

_ROW_BYTES = 16  # of the 8 x 8 matrices of 16-bit elements


def build_mma(low: Lowering, ins: Instruction, f: Fields) -> None:
    """``mma d, a, b, c``: handler ``mma.<shape>.<accumulator>.<operand>``, slots d, a, b, c.

    ``aux`` counts the registers of each of them.
    """
    need(low, ins, 4)
    depth = int(f["shape"].rpartition("k")[2])
    per_register = 32 // WIDTHS[f["t"]]
    accumulators = 4 if f["d"] == "f32" else 2
    counts = (accumulators, 16 * depth // per_register // 32, 8 * depth // per_register // 32, accumulators)
    types = ("f32" if f["d"] == "f32" else "b32", "b32", "b32", "f32" if f["d"] == "f32" else "b32")
    slots: list[Slot] = []
    for which, (operand, count, type_name) in enumerate(zip(ins.operands, counts, types, strict=True)):
        registers = _registers(low, ins, operand, count)
        slots += [low.write(r, type_name, ins) if which == 0 else low.read(r, type_name, ins) for r in registers]
    low.emit(ins, f"mma.{f['shape']}.{f['d']}.{f['t']}", slots, list(range(accumulators)), aux=counts, unit="mma")


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
_K8 = "m16n8k8"
_K16 = "m16n8k16"
_PRODUCTS = (
    # accumulator, operands, shape, least architecture
    ("f32", "f16", _K8, 75),
    ("f16", "f16", _K8, 75),
    ("f32", "f16", _K16, 80),
    ("f16", "f16", _K16, 80),
    ("f32", "bf16", _K8, 80),
    ("f32", "bf16", _K16, 80),
    ("f32", "tf32", "m16n8k4", 80),
    ("f32", "tf32", _K8, 80),
)


def _product(d: str, t: str, shape: str, since: int) -> Entry:
    syntax = f"mma.sync.aligned.<shape:{shape}>.row.col.<d:{d}>.<t:{t}>.{t}.{d}"
    return Entry(syntax, unit="mma", build=build_mma, since=since)


ENTRIES = (
    *(_product(*product) for product in _PRODUCTS),
    Entry(
        f"ldmatrix.sync.aligned.m8n8.<count:x1|x2|x4>[.trans][.<space:{_SPACES}>].b16",
        unit="load.matrix", build=build_ldmatrix, since=75,
    ),
    Entry("movmatrix.sync.aligned.m8n8.trans.b16", "*d:b32 a:b32", "movmatrix", "mma", since=75),
)  # fmt: skip
