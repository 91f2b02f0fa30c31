"""Lowering of control: branches, calls, barriers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flashgen.emulator.isa.builders import need
from flashgen.emulator.isa.entry import Fields, code
from flashgen.emulator.program.ops import Const, Place, Raw, Slot
from flashgen.emulator.ptx.ast import FunctionName, Group, Instruction, Label, Negated, Operand, Variable

if TYPE_CHECKING:
    from flashgen.emulator.program.lower import Lowering


def build_branch(low: Lowering, ins: Instruction, f: Fields) -> None:
    """``bra label``."""
    need(low, ins, 1)
    label = ins.operands[0]
    if not isinstance(label, Label):
        raise low.error(ins, "a branch takes a label")
    # A .uni branch without a guard says nothing: it is uniform by itself.
    uniform = int(bool(f["uni"]) and ins.guard is not None)
    low.emit(ins, "bra", [], [], target=low.place(label), aux=(uniform,), unit="control")


def build_indexed_branch(low: Lowering, ins: Instruction, f: Fields) -> None:
    """``brx.idx index, list``."""
    need(low, ins, 2)
    index, table = ins.operands
    targets = low.frame[0].branch_targets.get(table) if isinstance(table, Label) else None
    if targets is None or ins.guard is not None:
        raise low.error(ins, "brx.idx takes an index and a .branchtargets list, and no guard")
    places: list[Place] = [low.place(label) for label in targets]
    low.emit(ins, "brx.idx", [low.read(index, "u32", ins), Raw(len(places)), *places], [], unit="control")


def build_return(low: Lowering, ins: Instruction, f: Fields) -> None:
    """``ret``: the end of the thread, or of an inlined call."""
    after = low.frame[1]
    if after is None:
        low.emit(ins, "exit", [], [], unit="control")
    else:
        low.emit(ins, "bra", [], [], target=after, aux=(0,), unit="control")


def build_call(low: Lowering, ins: Instruction, f: Fields) -> None:
    """``call (ret), name, (args)``: inlined, its parameters standing for the caller's variables."""
    names = [operand for operand in ins.operands if isinstance(operand, FunctionName)]
    function = low.module.functions.get(names[0].name) if names else None
    if function is None:
        name = names[0].name if names else "a register"
        raise low.error(ins, f"a call of {name}, which this module does not define")
    if ins.guard is not None:
        raise low.error(ins, "a call under a guard")
    at = ins.operands.index(names[0])
    results = _arguments(ins.operands[:at])
    arguments = _arguments(ins.operands[at + 1 :])
    if len(results) != len(function.returns) or len(arguments) != len(function.params):
        raise low.error(ins, f"{function.name} is called with other parameters than it has")
    for formal, actual in zip((*function.returns, *function.params), (*results, *arguments), strict=True):
        if not isinstance(formal, Variable) or not isinstance(actual, Variable):
            raise low.error(ins, "a call with parameters in registers")
        low.bind(formal, actual)
    after = Place(f"after {function.name}")
    saved = low.enter_copy(function)
    low.lower_function(function, after)
    low.leave_copy(saved)
    low.kernel.code.append(after)


def _arguments(operands: tuple[Operand, ...]) -> list[Operand]:
    return [element for operand in operands if isinstance(operand, Group) for element in operand.elements]


def build_barrier(low: Lowering, ins: Instruction, f: Fields) -> None:
    """``bar.sync id, n``, ``bar.arrive id, n``, ``bar.red.op d, id, n, p``."""
    operands = list(ins.operands)
    reduction = f.get("barred", "")
    slots: list[Slot] = []
    negated = 0
    if reduction:
        need(low, ins, 3, 4)
        to, p = operands.pop(0), operands.pop()
        slots = [low.write(to, "u32" if reduction == "popc" else "pred", ins), low.read(p, "pred", ins)]
        negated = int(isinstance(p, Negated))
    else:
        need(low, ins, 1, 2)
    low.kernel.partial_barriers |= len(operands) > 1
    slots.append(low.read(operands[0], "u32", ins))
    slots.append(low.read(operands[1], "u32", ins) if len(operands) > 1 else Const(0, 32))
    aux = (int(f["way"] != "arrive"), code("barred", {"barred": reduction}), negated, int(len(operands) > 1))
    low.emit(ins, "bar", slots, [0] if reduction else [], aux=aux, unit="barrier")


def build_nothing(low: Lowering, ins: Instruction, f: Fields) -> None:
    """Instructions that change nothing that can be seen here."""
    low.emit(ins, "nop", [], [], unit="control")
