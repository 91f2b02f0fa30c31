"""cp.async: copies from global to shared memory that arrive when their thread waits for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flashgen.emulator.isa.access import address, note_width
from flashgen.emulator.isa.builders import need
from flashgen.emulator.isa.entry import Entry, Fields
from flashgen.emulator.program.ops import Const, Raw, Slot
from flashgen.emulator.ptx.ast import Imm, Instruction, Negated, Register

if TYPE_CHECKING:
    from flashgen.emulator.program.lower import Lowering

_SIZES = {"ca": (4, 8, 16), "cg": (16,)}


def build_copy(low: Lowering, ins: Instruction, f: Fields) -> None:
    """``cp.async [d], [s], size, given, policy``: slots base of d, base of s, bytes given, displacement of d.

    ``given`` is how many bytes are read, the rest being zero, or a predicate that asks for zeros alone.
    ``aux``: kinds of the two bases, log2 of the size, what ``given`` is (0 bytes, 1 predicate), negated.
    """
    policy = bool(f["policy"])
    need(low, ins, 3 + policy, 4 + policy)
    to, start, space = _shared_place(low, ins)
    base, kind, displacement, source_space = address(low, ins, ins.operands[1], "global")
    if space != "shared" or source_space != "global":
        raise low.error(ins, f"{ins.opcode} copies from global to shared memory")
    size = ins.operands[2]
    if not isinstance(size, Imm) or size.value not in _SIZES[f["cop"]]:
        raise low.error(ins, f"{ins.opcode} copies {' or '.join(map(str, _SIZES[f['cop']]))} bytes")
    given: Slot = Const(size.value, 32)
    asks = negated = 0
    if len(ins.operands) == 4 + policy:
        third = ins.operands[3]
        register = third.register if isinstance(third, Negated) else third
        asks = int(isinstance(register, Register) and register.type == "pred")
        negated = int(isinstance(third, Negated))
        given = low.read(third, "pred" if asks else "u32", ins)
    note_width(low, "shared", size.value)
    slots: list[Slot] = [to[0], base, given, Raw(start & 0xFFFFFFFF)]
    aux = (to[1], kind, size.value.bit_length() - 1, asks, negated)
    low.emit(ins, "cp.async", slots, [], imm=displacement, aux=aux, unit="copy.async")


def _shared_place(low: Lowering, ins: Instruction) -> tuple[tuple[Slot, int], int, str]:
    base, kind, displacement, space = address(low, ins, ins.operands[0], "shared")
    return (base, kind), displacement, space


def build_wait(low: Lowering, ins: Instruction, f: Fields) -> None:
    """``cp.async.wait_group n``: the n latest groups of the thread may stay in flight; in ``imm``."""
    need(low, ins, 1)
    newest = ins.operands[0]
    if not isinstance(newest, Imm) or newest.value < 0:
        raise low.error(ins, f"{ins.opcode} takes a number that is known")
    low.emit(ins, "cp.async.wait", [], [], imm=newest.value, unit="copy.async")


ENTRIES = (
    Entry(
        "cp.async.<cop:ca|cg>.<space:shared|shared::cta>.global[.<policy:L2::cache_hint>][.L2::<prefetch:64B|128B|256B>]",
        unit="copy.async", build=build_copy, since=80,
    ),
    Entry("cp.async.commit_group", "", "cp.async.commit", "copy.async", since=80),
    Entry("cp.async.wait_group", unit="copy.async", build=build_wait, since=80),
    Entry("cp.async.wait_all", "", "cp.async.wait_all", "copy.async", since=80),
)  # fmt: skip
