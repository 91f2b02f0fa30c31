"""A toolchain, a loader and a clock with planted faults, for workers: everything here is importable and picklable.

The fake kernel is the oracle itself, run on the addresses that a launch gets.
"""

from __future__ import annotations

import ctypes
import os
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from flashgen.compilation.artifact import Artifact, Compiled
from flashgen.errors import CompileError, LaunchError, ToolchainError
from flashgen.reference import attention_reference
from flashgen.runtime.kernel import Launch, Problem
from flashgen.source import KernelSource, Source
from flashgen.target import Target
from flashgen.tile_plan import TilePlan
from flashgen.tuning.sweep.bench import Tools

Faults = Mapping[tuple[int, int], str]


@dataclass(frozen=True)
class PlantedToolchain:
    """Compiles anything to next to nothing; ``faults`` says which tiles it refuses, hangs on or dies of."""

    name: ClassVar[str] = "planted"
    faults: Faults = field(default_factory=dict)
    log: Path | None = None

    def identity(self) -> tuple[tuple[str, str], ...]:
        return (("compiler", "planted 1.0"),)

    def flags(self, target: Target) -> tuple[str, ...]:
        return ()

    def compile(self, source: Source, workdir: Path) -> Compiled:
        assert isinstance(source, KernelSource)
        note(self.log, f"compile {tile_of(source.plan)}")
        fault = self.faults.get((source.plan.br, source.plan.bc), "")
        if fault == "compile error":
            raise CompileError("The compiler refused it:\n  planted.cpp:1: error: no such register\n", log="")
        if fault == "no compiler":
            raise ToolchainError("The compiler is gone.")
        if fault == "compiler hangs":
            time.sleep(3600)
        if fault == "compiler dies":
            os.kill(os.getpid(), signal.SIGKILL)
        return Compiled({"so": source.text.encode()})


@dataclass(frozen=True)
class PlantedLoader:
    """Loads the oracle."""

    name: ClassVar[str] = "planted"
    device_kind: ClassVar[str] = "cpu"
    faults: Faults = field(default_factory=dict)
    log: Path | None = None

    def load(self, artifact: Artifact, source: KernelSource) -> PlantedExecutable:
        fault = self.faults.get((source.plan.br, source.plan.bc), "")
        note(self.log, f"load {tile_of(source.plan)}")
        if fault == "does not load":
            raise LaunchError("The planted library could not be loaded.")
        return PlantedExecutable(source, fault)


@dataclass
class PlantedExecutable:
    source: KernelSource
    fault: str
    timed_calls: int = 0

    def prepare(self, problem: Problem) -> Launch:
        def launch(q: int, k: int, v: int, out: int, lse: int, seqlens_k: int, scale: float) -> None:
            self.timed_calls += not lse
            self._run(problem, (q, k, v, out, lse, seqlens_k), scale)

        return launch

    def _run(self, p: Problem, addresses: tuple[int, ...], scale: float) -> None:
        spec, (q, k, v, out, lse, seqlens_k) = self.source.spec, addresses
        if self.fault == "hang":
            time.sleep(3600)
        if self.fault == "segfault":
            ctypes.string_at(8)
        if self.fault == "abort":
            os.write(2, b"planted: corrupted double-linked list\n")
            os.abort()
        if self.fault == "launch error":
            raise LaunchError("The device says 700, illegal address.")
        rows, keys = (p.batch, p.num_heads, p.seqlen_q), (p.batch, p.num_heads_kv, p.seqlen_k)
        element = spec.dtype.numpy()
        queries = at(q, (*rows, spec.head_dim), p.q_strides, element)
        arrays = queries, at(k, (*keys, spec.head_dim), p.k_strides, element), at(
            v, (*keys, spec.head_dim_v), p.v_strides, element
        )  # fmt: skip
        lengths = at(seqlens_k, (p.batch,), (), np.dtype(np.int64)) if seqlens_k else None
        result, stats = attention_reference(*arrays, causal=spec.causal, softmax_scale=scale, seqlens_k=lengths)
        target = at(out, (*rows, spec.head_dim_v), p.out_strides, element)
        with np.errstate(over="ignore"):
            target[...] = result
        if self.fault == "wrong" and p.seqlen_q == p.seqlen_k:
            target[-1, -1, -1, -1] += 0.01
        if self.fault == "unwritten":
            target[-1, -1, -1] = np.nan
        if self.fault == "stray":
            beyond = out + (target.size + 3) * element.itemsize
            ctypes.memset(beyond, 0, 8)
        if self.fault == "writes to q":
            queries[-1, -1, -1, -1] += 1
        if self.fault == "fickle" and self.timed_calls > 1:
            target[0, 0, 0, 0] = np.nextafter(target[0, 0, 0, 0], np.float32(9))
        if lse:
            at(lse, rows, None, np.dtype(np.float32))[...] = stats


@dataclass(frozen=True)
class ScriptedClock:
    """Runs the call once, and says what the script says: seconds by tile, turn after turn."""

    script: Mapping[tuple[int, int], tuple[float, ...]]
    log: Path | None = None
    pause: float = 0.0
    played: dict[tuple[int, int], int] = field(default_factory=dict)

    def __call__(self, plan: TilePlan, call: Callable[[], object]) -> float:
        call()
        note(self.log, f"turn {tile_of(plan)}")
        time.sleep(self.pause)
        tile = (plan.br, plan.bc)
        seconds = self.script.get(tile, (1.1,))
        played = self.played[tile] = self.played.get(tile, -1) + 1
        return seconds[played % len(seconds)]


@dataclass(frozen=True)
class MakeClock:
    """What `Tools` takes: makes a clock in each worker."""

    script: Mapping[tuple[int, int], tuple[float, ...]]
    log: Path | None = None
    pause: float = 0.0

    def __call__(self) -> ScriptedClock:
        return ScriptedClock(self.script, self.log, self.pause)


def planted_tools(
    faults: Faults, script: Mapping[tuple[int, int], tuple[float, ...]], log: Path | None = None, pause: float = 0.0
) -> Tools:
    """Tools of which some tiles have faults."""
    toolchain, loader = PlantedToolchain(faults, log), PlantedLoader(faults, log)
    return Tools(toolchain, loader, MakeClock(script, log, pause))


def note(log: Path | None, text: str) -> None:
    """Adds a line to a log, in one write."""
    if log is not None:
        with log.open("a") as stream:
            stream.write(text + "\n")


def tile_of(plan: TilePlan) -> str:
    return f"{plan.br}x{plan.bc}"


def at(address: int, shape: tuple[int, ...], strides: tuple[int, ...] | None, dtype: np.dtype[Any]) -> Any:
    """The array at an address; strides count elements, the last axis is contiguous; None for contiguous ones."""
    if strides is None:
        strides, step = (), 1
        for size in reversed(shape):
            strides, step = (step, *strides), step * size
    else:
        strides = (*strides, 1)
    reach = [(size - 1) * stride for size, stride in zip(shape, strides, strict=True)]
    low, high = sum(min(x, 0) for x in reach), sum(max(x, 0) for x in reach) + 1
    memory = (ctypes.c_char * ((high - low) * dtype.itemsize)).from_address(address + low * dtype.itemsize)
    steps = tuple(stride * dtype.itemsize for stride in strides)
    return np.ndarray(shape, dtype, memoryview(memory), -low * dtype.itemsize, steps)
