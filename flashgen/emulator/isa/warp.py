"""Instructions in which the lanes of a warp see each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flashgen.emulator.isa.builders import need
from flashgen.emulator.isa.entry import Entry, Fields, code
from flashgen.emulator.program.ops import Slot
from flashgen.emulator.ptx.ast import Instruction, Negated

if TYPE_CHECKING:
    from flashgen.emulator.program.lower import Lowering


def _with_predicate(low: Lowering, ins: Instruction, type_name: str) -> tuple[list[Slot], list[int], int]:
    """Slots of ``d|p``; without p, a scratch one."""
    first, second = low.pair(ins.operands[0])
    p = low.write(second, "pred", ins) if second is not None else low.scratch(1)
    return [low.write(first, type_name, ins), p], [0, 1], int(second is not None)


def build_shuffle(low: Lowering, ins: Instruction, f: Fields) -> None:
    """``shfl.sync d|p, a, b, c, members``; the old form has no members."""
    need(low, ins, 5 if f["sync"] else 4)
    slots, writes, has_p = _with_predicate(low, ins, "b32")
    slots += [low.read(operand, "b32", ins) for operand in ins.operands[1:]]
    low.emit(ins, "shfl", slots, writes, aux=(code("shuffle", f), has_p, int(bool(f["sync"]))), unit="warp")


def build_vote(low: Lowering, ins: Instruction, f: Fields) -> None:
    """``vote.sync d, {!}p, members``."""
    need(low, ins, 3 if f["sync"] else 2)
    p = ins.operands[1]
    to = low.write(ins.operands[0], "b32" if f["vote"] == "ballot" else "pred", ins)
    slots: list[Slot] = [to, low.read(p, "pred", ins)]
    if f["sync"]:
        slots.append(low.read(ins.operands[2], "b32", ins))
    aux = (code("vote", f), int(isinstance(p, Negated)), int(bool(f["sync"])))
    low.emit(ins, "vote", slots, [0], aux=aux, unit="warp")


def build_match(low: Lowering, ins: Instruction, f: Fields) -> None:
    """``match.sync d|p, a, members``."""
    need(low, ins, 3)
    slots, writes, has_p = _with_predicate(low, ins, "b32")
    slots += [low.read(ins.operands[1], f["t"], ins), low.read(ins.operands[2], "b32", ins)]
    low.emit(ins, f"match.{f['t']}", slots, writes, aux=(code("match", f), has_p), unit="warp")


def build_elect(low: Lowering, ins: Instruction, f: Fields) -> None:
    """``elect.sync d|p, members``."""
    need(low, ins, 2)
    slots, writes, _ = _with_predicate(low, ins, "b32")
    low.emit(ins, "elect.sync", [*slots, low.read(ins.operands[1], "b32", ins)], writes, unit="warp")


ENTRIES = (
    Entry("shfl[.sync].<shuffle:up|down|bfly|idx>.b32", unit="warp", build=build_shuffle),
    Entry("vote[.sync].<vote:all|any|uni>.pred", unit="warp", build=build_vote),
    Entry("vote[.sync].<vote:ballot>.b32", unit="warp", build=build_vote),
    Entry("match.<match:any|all>.sync.<t:b32|b64>", unit="warp", build=build_match),
    Entry("redux.sync.<redux:add|min|max>.<t:u32|s32>", "*d:{t} a:{t} m:b32", "redux.{t}", "warp", ("redux",)),
    Entry("redux.sync.<redux:and|or|xor>.b32", "*d:b32 a:b32 m:b32", "redux.u32", "warp", ("redux",)),
    Entry("activemask.b32", "*d:b32", "activemask", "warp"),
    Entry("bar.warp.sync", "m:b32", "bar.warp.sync", "warp"),
    Entry("elect.sync", unit="warp", build=build_elect),
)
