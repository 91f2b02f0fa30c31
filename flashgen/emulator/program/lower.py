"""Instructions to operations: each is matched against the table, its operands become slots.

Calls are inlined: the callee's registers and variables are made anew for each call.
"""

from __future__ import annotations

import struct
from functools import cache

from flashgen.emulator.errors import PtxError
from flashgen.emulator.isa.entry import Entry, Fields, code, expand
from flashgen.emulator.isa.specials import SPECIALS
from flashgen.emulator.isa.table import lookup
from flashgen.emulator.program.layout import KernelLayout, ModuleLayout, align_up
from flashgen.emulator.program.ops import Const, LoweredKernel, Op, Place, Slot, SpecialSlot, VReg
from flashgen.emulator.ptx.ast import (
    Address,
    Function,
    Imm,
    Instruction,
    Label,
    Negated,
    Operand,
    Pair,
    PtxModule,
    Register,
    Sink,
    Special,
    Variable,
)
from flashgen.emulator.ptx.types import FLOATS, register_width

_ALL_LANES = 0xFFFFFFFF


class Lowering:
    """Lowers one kernel.

    Attributes:
        kernel: what has been lowered so far.
        layout: addresses of its variables.
    """

    def __init__(self, module: PtxModule, shared_by_all: ModuleLayout, entry: Function) -> None:
        self.module = module
        self.kernel = LoweredKernel(entry.name)
        self.layout = KernelLayout(module, shared_by_all, entry.params)
        self._registers: dict[Register, VReg] = {}
        self._places: dict[Label, Place] = {}
        self._frames: list[tuple[Function, Place | None]] = []
        self._aliases: dict[Variable, Variable] = {}
        self._names_shared(entry)
        self.lower_function(entry, None)
        self.kernel.param_bytes = self.layout.param.size
        self.kernel.static_shared = align_up(self.layout.shared.size, self.layout.dynamic_align)
        self.kernel.local_bytes = align_up(self.layout.local.size, 16)

    def _names_shared(self, entry: Function) -> None:
        """Lays out static shared memory before anything asks where the dynamic one starts."""
        pending, seen = [entry], {entry.name}
        while pending:
            function = pending.pop()
            for variable in function.variables:
                if variable.space == "shared":
                    self.layout.declare(variable)
            for item in function.body:
                for name in _names_in(item):
                    if isinstance(name, Variable):
                        self.layout.use_module_shared(name)
                    elif name in self.module.functions and name not in seen:
                        seen.add(name)
                        pending.append(self.module.functions[name])

    def lower_function(self, function: Function, after: Place | None) -> None:
        """Appends a function's operations; ``ret`` goes to ``after``, or ends the thread."""
        if any(frame is function for frame, _ in self._frames):
            raise PtxError(f"{function.name} calls itself: recursion is not emulated")
        self._frames.append((function, after))
        for variable in function.variables:
            if variable.space != "shared":
                self.layout.declare(variable)
        for item in function.body:
            if isinstance(item, Label):
                if item not in function.branch_targets:
                    self.kernel.code.append(self.place(item))
            else:
                self.instruction(item)
        self._frames.pop()
        if after is None:
            self.kernel.code.append(Op("exit", unit="control"))

    @property
    def frame(self) -> tuple[Function, Place | None]:
        """The function being lowered, and where its ``ret`` goes."""
        return self._frames[-1]

    def instruction(self, ins: Instruction) -> None:
        """Appends one instruction's operations."""
        found = lookup(ins.opcode, len(ins.operands))
        if found is None:
            raise PtxError(f"unknown opcode {ins.opcode!r}", line=ins.line, statement=ins.text)
        entry, fields = found
        if entry.build is not None:
            entry.build(self, ins, fields)
        else:
            self._by_table(ins, entry, fields)

    def _by_table(self, ins: Instruction, entry: Entry, fields: Fields) -> None:
        slots: list[Slot] = []
        writes: list[int] = []
        operands: dict[str, Operand | None] = {}
        given = list(ins.operands)
        for name, type_name, written, optional in operand_specs(entry.operands):
            operand = given.pop(0) if given else None
            operands[name] = operand
            if operand is None:
                if not optional:
                    raise self.error(ins, f"{ins.opcode} lacks operand {name}")
                continue
            if written:
                writes.append(len(slots))
            wanted = expand(type_name, fields)
            slots.append(self.write(operand, wanted, ins) if written else self.read(operand, wanted, ins))
        if given:
            raise self.error(ins, f"{ins.opcode} has {len(given)} operands too many")
        aux = tuple(_aux(item, fields, operands) for item in entry.aux)
        self.emit(ins, expand(entry.handler, fields), slots, writes, aux=aux, unit=entry.unit)

    def emit(
        self,
        ins: Instruction,
        handler: str,
        slots: list[Slot],
        writes: list[int],
        *,
        imm: int = 0,
        target: Place | None = None,
        aux: tuple[int, ...] = (),
        unit: str = "int",
    ) -> None:
        """Appends one operation under the instruction's guard."""
        guard = self.register(ins.guard) if ins.guard is not None else None
        op = Op(handler, tuple(slots), tuple(writes), imm, target, guard, ins.guard_negated, aux, unit, ins)
        self.kernel.code.append(op)

    def place(self, label: Label) -> Place:
        """The place of a label, in the current copy of its function."""
        return self._places.setdefault(label, Place(label.name))

    def register(self, register: Register) -> VReg:
        """The virtual register of a register, in the current copy of its function."""
        vreg = self._registers.get(register)
        if vreg is None:
            vreg = self._registers[register] = VReg(register.width, register.name)
        return vreg

    def scratch(self, width: int) -> VReg:
        """A register for a value that only the emulator needs."""
        return VReg(width, "_")

    def read(self, operand: Operand, type_name: str, ins: Instruction) -> Slot:
        """The slot of a source operand; ``~`` before the type allows a wider register."""
        loose, type_name = type_name.startswith("~"), type_name.lstrip("~")
        if isinstance(operand, Negated):
            operand = operand.register
        if isinstance(operand, Register):
            self._check_width(operand, type_name, loose, ins)
            return self.register(operand)
        if isinstance(operand, Imm):
            return constant(operand, type_name)
        if isinstance(operand, Special) and operand.name in SPECIALS:
            return SpecialSlot(SPECIALS[operand.name])
        if isinstance(operand, Variable | Address):
            return Const(self.address_value(operand, ins), register_width(type_name))
        raise self.error(ins, f"{ins.opcode}: an operand of a kind that it does not take")

    def write(self, operand: Operand, type_name: str, ins: Instruction) -> VReg:
        """The register of a destination."""
        loose, type_name = type_name.startswith("~"), type_name.lstrip("~")
        if isinstance(operand, Sink):
            return self.scratch(register_width(type_name))
        if not isinstance(operand, Register):
            raise self.error(ins, f"{ins.opcode} writes something that is not a register")
        self._check_width(operand, type_name, loose, ins)
        return self.register(operand)

    def pair(self, operand: Operand) -> tuple[Operand, Operand | None]:
        """Both halves of ``p|q``; None for the second if there is only one."""
        return (operand.first, operand.second) if isinstance(operand, Pair) else (operand, None)

    def bind(self, formal: Variable, actual: Variable) -> None:
        """Lets a callee's parameter stand for the caller's variable."""
        self._aliases[formal] = actual

    def address_of(self, variable: Variable) -> tuple[str, int]:
        """(space, address) of a variable."""
        while variable in self._aliases:
            variable = self._aliases[variable]
        return self.layout.address(variable)

    def address_value(self, operand: Variable | Address, ins: Instruction) -> int:
        """A variable's address as a number."""
        if isinstance(operand, Variable):
            return self.address_of(operand)[1]
        if not isinstance(operand.base, Variable):
            raise self.error(ins, "a sum that is not a constant")
        return self.address_of(operand.base)[1] + operand.offset

    def enter_copy(self, function: Function) -> tuple[dict[Register, VReg], dict[Label, Place]]:
        """Starts a fresh copy of a callee: its registers and labels are its own. Returns what to restore."""
        saved = (self._registers, self._places)
        self._registers, self._places = dict(self._registers), {}
        for item in function.body:
            if isinstance(item, Instruction):
                for operand in (*item.operands, item.guard):
                    self._forget(operand)
        return saved

    def leave_copy(self, saved: tuple[dict[Register, VReg], dict[Label, Place]]) -> None:
        """Ends a copy."""
        self._registers, self._places = saved

    def _forget(self, operand: object) -> None:
        if isinstance(operand, Register):
            self._registers.pop(operand, None)
        elif isinstance(operand, tuple):
            for part in operand:
                self._forget(part)

    def _check_width(self, register: Register, type_name: str, loose: bool, ins: Instruction) -> None:
        wanted = register_width(type_name)
        wide_enough = loose and register.width >= wanted > 1
        if register.width != wanted and not wide_enough:
            raise self.error(ins, f"{register.name} holds {register.width} bits, {ins.opcode} takes {wanted} there")

    @staticmethod
    def error(ins: Instruction, message: str) -> PtxError:
        """The error for an instruction."""
        return PtxError(message, line=ins.line, statement=ins.text)


def constant(imm: Imm, type_name: str) -> Const:
    """A literal as a constant of a type."""
    width = register_width(type_name)
    if width == 1:
        return Const(_ALL_LANES if imm.value else 0, 1)
    value = imm.value
    if type_name in FLOATS and imm.float_width != width:
        number = struct.unpack("<d", struct.pack("<Q", value))[0] if imm.float_width == 64 else float(value)
        if type_name == "f32":
            value = int.from_bytes(struct.pack("<f", number), "little")
        elif type_name == "f64":
            value = int.from_bytes(struct.pack("<d", number), "little")
    return Const(value & ((1 << width) - 1), width)


@cache
def operand_specs(operands: str) -> tuple[tuple[str, str, bool, bool], ...]:
    """(name, type, written, optional) of each operand that an entry lists."""
    specs = []
    for piece in operands.split():
        name, _, type_name = piece.partition(":")
        specs.append((name.lstrip("*"), type_name.rstrip("?"), name.startswith("*"), type_name.endswith("?")))
    return tuple(specs)


def _aux(item: str | int, fields: Fields, operands: dict[str, Operand | None]) -> int:
    if isinstance(item, int):
        return item
    if item.startswith("!"):
        return int(isinstance(operands[item[1:]], Negated))
    if item.startswith("?"):
        return int(operands[item[1:]] is not None)
    if item.startswith("@"):
        return int(fields[item[1:]].startswith("s"))
    if item == "#finish":
        return int(bool(fields["relu"])) + 2 * int(bool(fields["satfinite"]))
    return code(item, fields)


def _names_in(item: object) -> list[Variable | str]:
    if isinstance(item, Instruction):
        return [name for operand in item.operands for name in _names_in(operand)]
    if isinstance(item, Variable):
        return [item]
    if type(item).__name__ == "FunctionName":
        return [item.name]  # type: ignore[attr-defined]
    if isinstance(item, tuple) and not isinstance(item, Imm | Special):
        return [name for part in item for name in _names_in(part)]
    return []
