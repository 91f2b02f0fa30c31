"""Module: PTX that can be launched on NumPy arrays."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any

from flashgen.emulator.arena import Arena
from flashgen.emulator.arguments import Buffer, NDArray, buffers_of, pack
from flashgen.emulator.errors import PtxError
from flashgen.emulator.findings import Narrator, Sites
from flashgen.emulator.isa.table import lookup
from flashgen.emulator.launch import (
    LoadedProgram,
    Program,
    Raw,
    Schedule,
    check_launch,
    executed_per_instruction,
    instructions_by_unit,
    line_counts,
    shared_counts,
    traffic_by_array,
)
from flashgen.emulator.native import machine
from flashgen.emulator.program.encode import encode
from flashgen.emulator.program.layout import ModuleLayout
from flashgen.emulator.program.lower import Lowering
from flashgen.emulator.program.ops import LoweredKernel
from flashgen.emulator.ptx.ast import Instruction, Variable
from flashgen.emulator.ptx.parser import parse
from flashgen.emulator.report import Finding, Report
from flashgen.errors import ArgumentError, LaunchError

Dim = int | tuple[int, ...]


class Module:
    """A PTX module, read and checked whole: an opcode that the emulator lacks is an error here.

    Attributes:
        ptx: the parsed text.
        entries: names of its kernels.

    Raises:
        PtxError: the text is malformed or uses an opcode that is not emulated; it names the line.
    """

    def __init__(self, ptx: str | bytes, *, source: str = "", executor: str = "") -> None:
        """Reads PTX.

        Args:
            ptx: the text.
            source: the CUDA text that it came from, for excerpts in findings.
            executor: ``machine`` (C++, the default) or ``numpy`` (slower, needs no compiler; see lockstep/).
        """
        self._load = _loader(executor or DEFAULT_EXECUTOR)
        text = ptx.decode().rstrip("\0") if isinstance(ptx, bytes) else ptx
        self.ptx = parse(text)
        self._source = source
        self._layout = ModuleLayout.of(self.ptx)
        self._globals = bytearray(self._layout.image("global"))
        self._kernels = self._lower_all()
        self._params = {name: self._kernel_params(name) for name in self._kernels}
        self._programs: dict[str, Program] = {}
        self.entries = tuple(self._kernels)

    def _lower_all(self) -> dict[str, LoweredKernel]:
        for function in self.ptx.functions.values():
            for item in function.body:
                if isinstance(item, Instruction):
                    self._check_opcode(item)
        entries = [function for function in self.ptx.functions.values() if function.is_entry]
        lowered = {}
        self._offsets = {}
        for entry in entries:
            lowering = Lowering(self.ptx, self._layout, entry)
            lowered[entry.name] = lowering.kernel
            self._offsets[entry.name] = lowering.layout.param_offsets
        return lowered

    def _check_opcode(self, ins: Instruction) -> None:
        found = lookup(ins.opcode, len(ins.operands))
        if found is None:
            raise PtxError(f"unknown opcode {ins.opcode!r}", line=ins.line, statement=ins.text)
        digits = re.search(r"\d+", self.ptx.target)
        if digits and int(digits[0]) < found[0].since:
            message = f"{ins.opcode} needs sm_{found[0].since}; this module is for {self.ptx.target}"
            raise PtxError(message, line=ins.line, statement=ins.text)

    def _kernel_params(self, name: str) -> list[Variable]:
        return [param for param in self.ptx.functions[name].params if isinstance(param, Variable)]

    def _program(self, name: str) -> Program:
        program = self._programs.get(name)
        if program is None:
            program = self._programs[name] = self._load(self._kernels[name], self._layout.image("const"))
        return program

    def memory(self, *arrays: NDArray | Buffer) -> Arena:
        """Global memory for several launches in a row: what one of them writes the next one finds.

        Outputs reach the caller's arrays, and outputs left unwritten are told, at its `finish`.
        """
        names = tuple(f"array {k}" for k in range(len(arrays)))
        return Arena(buffers_of(arrays, names), self._globals)

    def launch(
        self,
        entry: str,
        grid: Dim,
        block: Dim,
        args: tuple[Any, ...] | list[Any],
        *,
        shared: int = 0,
        checked: bool = True,
        schedule: Schedule | None = None,
        memory: Arena | None = None,
    ) -> Report:
        """Runs a kernel and waits for it.

        Args:
            entry: the kernel's name.
            grid: blocks, 1 to 3 numbers.
            block: threads of a block, 1 to 3 numbers.
            args: one for each parameter: a NumPy array (or `In`, `Out`, `InOut` of one), a number, bytes,
                a `Struct`, or None for a null pointer. Arrays are updated in place.
            shared: bytes of dynamic shared memory.
            checked: with every check and counter; without, only accesses outside all memory are found.
            schedule: how to interleave; round robin if None.
            memory: of several launches (see `memory`); None: the arguments' own, for this launch alone.

        Raises:
            ArgumentError: arguments that do not fit the parameters.
            LaunchError: no such kernel, or sizes that no GPU takes.
            ToolchainError: the first launch compiles the machine, and there is no C++ compiler.
        """
        if entry not in self._kernels:
            raise LaunchError(f"There is no kernel {entry!r}; the module has {', '.join(self.entries) or 'none'}.")
        params, schedule = self._params[entry], schedule or Schedule()
        if len(args) != len(params):
            raise ArgumentError(f"{entry} takes {len(params)} arguments, not {len(args)}.")
        grid3, block3 = _three(grid), _three(block)
        program = self._program(entry)
        check_launch(program.encoded, grid3, block3, shared, self.ptx.functions[entry].max_threads)
        names = tuple(param.name for param in params)
        arena = memory or Arena(buffers_of(tuple(args), names), self._globals)
        size = program.encoded.kernel.param_bytes
        data = pack(params, self._offsets[entry], size, tuple(args), arena.address)
        raw = program.run(grid3, block3, data, arena, shared, checked, schedule)
        last = [] if memory else arena.finish(entry)
        return self._report(program, raw, arena, grid3, block3, shared, last if checked else [])

    def _report(
        self,
        program: Program,
        raw: Raw,
        arena: Arena,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        shared: int,
        last: list[Finding],
    ) -> Report:
        encoded = program.encoded
        sites = Sites(self.ptx, encoded, self._source)
        narrator = Narrator(sites, arena, grid)
        findings = [*(narrator.tell(record) for record in raw.findings), *last]
        executed, lanes = executed_per_instruction(encoded, raw.counts)
        total = int(executed.sum())
        return Report(
            kernel=encoded.kernel.name,
            grid=grid,
            block=block,
            shared_bytes=encoded.kernel.static_shared + shared,
            findings=tuple(findings),
            instructions=instructions_by_unit(encoded, executed),
            warp_instructions=total,
            lane_use=float(lanes.sum()) / (32 * total) if total else 0.0,
            traffic=traffic_by_array(arena, raw.traffic),
            shared=shared_counts(encoded, raw.counts),
            barriers=raw.barriers,
            seconds=raw.seconds,
            tell_lines=partial(line_counts, sites, raw.counts),
        )


def _load_on_machine(kernel: LoweredKernel, constants: bytes) -> Program:
    host = machine()
    return LoadedProgram.load(host, encode(kernel, host.handlers), constants)


def _load_in_lockstep(kernel: LoweredKernel, constants: bytes) -> Program:
    from flashgen.emulator.lockstep import LockstepProgram

    return LockstepProgram.load(kernel, constants)


EXECUTORS: dict[str, Callable[[LoweredKernel, bytes], Program]] = {
    "machine": _load_on_machine,
    "numpy": _load_in_lockstep,
}
DEFAULT_EXECUTOR = "machine"


def _loader(executor: str) -> Callable[[LoweredKernel, bytes], Program]:
    if executor not in EXECUTORS:
        raise LaunchError(f"There is no executor {executor!r}; choose one of {', '.join(EXECUTORS)}.")
    return EXECUTORS[executor]


def _three(dim: Dim) -> tuple[int, int, int]:
    sizes = (dim,) if isinstance(dim, int) else tuple(int(size) for size in dim)
    if not 1 <= len(sizes) <= 3:
        raise LaunchError(f"A grid or block has 1 to 3 sizes, not {sizes}.")
    x, y, z = (*sizes, 1, 1)[:3]
    return x, y, z
