"""CUDA kernels without a GPU: the artifact's own PTX, run by the emulator on NumPy arrays.

Slow, but it sees what a GPU hides: a call whose kernel reads beyond its tensors, races, or leaves part of
its output unwritten is a LaunchError that names the line, even if the numbers came out right.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from flashgen.compilation.artifact import Artifact
from flashgen.dtypes import DType
from flashgen.emulator import In, Module, Out, Report, Scratch, Struct
from flashgen.errors import LaunchError
from flashgen.families import family_named
from flashgen.launch_plan import ARGUMENT_FORMAT, Geometry, resolve
from flashgen.runtime.kernel import Executable, Launch, Problem, Strides
from flashgen.source import KernelSource
from flashgen.target import PRESETS

Array = np.ndarray[Any, Any]


@dataclass(slots=True)
class Totals:
    """What all calls of a kernel did so far.

    Attributes:
        launches: of kernels.
        warp_instructions: executed.
        load_bytes, store_bytes: of global memory, as the lanes asked for them.
        conflicts: wavefronts of shared memory that bank conflicts cost.
    """

    launches: int = 0
    warp_instructions: int = 0
    load_bytes: int = 0
    store_bytes: int = 0
    conflicts: int = 0

    def add(self, report: Report) -> None:
        """Counts one launch."""
        self.launches += 1
        self.warp_instructions += report.warp_instructions
        self.load_bytes += sum(traffic.load_bytes for traffic in report.traffic.values())
        self.store_bytes += sum(traffic.store_bytes for traffic in report.traffic.values())
        self.conflicts += report.shared.conflicts


class EmulatorLoader:
    """Loads PTX into the emulator."""

    name: ClassVar[str] = "emulator"
    device_kind: ClassVar[str] = "cpu"

    def load(self, artifact: Artifact, source: KernelSource) -> Executable:
        """Reads the PTX; every opcode is checked before anything runs."""
        if "ptx" not in artifact.paths:
            raise LaunchError(f"There is no PTX of {source.filename} to emulate. Build it for a CUDA target.")
        return EmulatorExecutable(Module(artifact.paths["ptx"].read_bytes(), source=source.text), source)


class EmulatorExecutable:
    """A kernel in the emulator.

    Attributes:
        reports: of the last call's launches: instructions, bytes moved by array, bank conflicts.
        totals: of all calls.
    """

    def __init__(self, module: Module, source: KernelSource) -> None:
        """Takes a module whose entries are the source's."""
        self.reports: tuple[Report, ...] = ()
        self.totals = Totals()
        self._module = module
        self._source = source
        self._plan = family_named(source.plan.family).launch_plan(source.spec, source.plan)
        self._sm_count = PRESETS[source.target].cores

    def prepare(self, problem: Problem) -> Launch:
        """Works out the grids for the preset's number of SMs."""
        p = problem
        sizes = (p.batch, p.num_heads, p.num_heads_kv, p.seqlen_q, p.seqlen_k)
        strides = (p.q_strides, p.k_strides, p.v_strides, p.out_strides)
        geometry = resolve(self._plan, sizes, strides, self._sm_count)

        def launch(q: int, k: int, v: int, out: int, lse: int, seqlens_k: int, scale: float) -> None:
            self._run(problem, geometry, (q, k, v, out, lse, seqlens_k), scale)

        return launch

    def _run(self, problem: Problem, geometry: Geometry, pointers: tuple[int, ...], scale: float) -> None:
        workspace = np.empty(max(geometry.workspace_bytes, 1), np.uint8)
        buffers = (*self._tensors(problem, pointers), Scratch(workspace, "workspace"))
        sizes = np.frombuffer(geometry.sizes, np.int64).tolist()
        argument = Struct(ARGUMENT_FORMAT, *buffers[:6], *sizes, scale, buffers[6], geometry.row_ranges)
        memory = self._module.memory(*(buffer for buffer in buffers if buffer is not None and buffer != 0))
        reports = []
        for step, grid in geometry.launches(self._plan):
            report = self._module.launch(
                step.entry, grid, step.block, [argument], shared=step.shared_bytes, memory=memory
            )
            reports.append(report)
            report.raise_for_findings()
            self.totals.add(report)
        unwritten = memory.finish(self._source.entry)
        self.reports = tuple(reports)
        if unwritten:
            raise LaunchError("\n".join(str(finding) for finding in unwritten))

    def _tensors(self, problem: Problem, pointers: tuple[int, ...]) -> tuple[Any, ...]:
        """Q, k, v, out, lse and seqlens_k as the emulator takes them; 0 for what is absent."""
        p, spec = problem, self._source.spec
        q, k, v, out, lse, seqlens_k = pointers
        dtype, d, d_v = spec.dtype, spec.head_dim, spec.head_dim_v
        rows, keys = (p.batch, p.num_heads, p.seqlen_q), (p.batch, p.num_heads_kv, p.seqlen_k)
        compute = np.dtype(np.float64 if dtype.compute_size == 8 else np.float32)
        return (
            In(_array(q, (*rows, d), p.q_strides, dtype), "q"),
            In(_array(k, (*keys, d), p.k_strides, dtype), "k"),
            In(_array(v, (*keys, d_v), p.v_strides, dtype), "v"),
            Out(_array(out, (*rows, d_v), p.out_strides, dtype), "out"),
            Out(_at(lse, rows, _contiguous(rows, compute), compute), "lse") if lse else 0,
            In(_at(seqlens_k, (p.batch,), (8,), np.dtype(np.int64)), "seqlens_k") if seqlens_k else 0,
        )


def _array(address: int, shape: tuple[int, ...], strides: Strides, dtype: DType) -> Array:
    """The tensor at an address: strides of batch, head and row count elements, the last axis is contiguous."""
    return _at(address, shape, tuple(stride * dtype.size for stride in (*strides, 1)), dtype.numpy())


def _at(address: int, shape: tuple[int, ...], strides: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    reach = [(size - 1) * stride for size, stride in zip(shape, strides, strict=True)]
    low, high = sum(min(step, 0) for step in reach), sum(max(step, 0) for step in reach) + dtype.itemsize
    memory = (ctypes.c_char * (high - low)).from_address(address + low)
    return np.ndarray(shape, dtype, memoryview(memory), -low, strides)


def _contiguous(shape: tuple[int, ...], dtype: np.dtype[Any]) -> tuple[int, ...]:
    steps = [dtype.itemsize]
    for size in reversed(shape[1:]):
        steps.append(steps[-1] * size)
    return tuple(reversed(steps))
