"""Running a compiled CUDA kernel: one sequence of steps, whichever library owns the tensors.

A `Host` is that library, as far as a launch needs it: its current stream, its device guard, its allocator
and its way to load a module. torch and CuPy each have one.
"""

from __future__ import annotations

import os
import threading
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from flashgen.compilation.artifact import Artifact
from flashgen.errors import LaunchError
from flashgen.families import family_named
from flashgen.launch_plan import Geometry, LaunchPlan, resolve
from flashgen.runtime.cuda_driver import DeviceFacts
from flashgen.runtime.kernel import Launch, Problem
from flashgen.source import KernelSource
from flashgen.target import Target, capability
from flashgen.units import format_bytes

_MAX_GRID = (2**31 - 1, 65535, 65535)


class Function(Protocol):
    """A kernel on a device."""

    @property
    def max_threads(self) -> int:
        """The largest CTA that its registers allow."""
        ...

    def allow_shared(self, shared_bytes: int) -> None:
        """Opts in to that much dynamic shared memory."""
        ...

    def launch(self, grid: tuple[int, int, int], block: int, shared: int, stream: int, args: bytes) -> None:
        """Launches it; the arguments are one struct by value."""
        ...


class Host(Protocol):
    """The library whose tensors a kernel works on."""

    def facts(self, ordinal: int) -> DeviceFacts:
        """Describes a device."""
        ...

    def guard(self, ordinal: int) -> AbstractContextManager[Any]:
        """Makes a device current, and the one before it again at the end."""
        ...

    def stream(self, ordinal: int) -> int:
        """Handle of the library's current stream on the (current) device."""
        ...

    def capturing(self, ordinal: int) -> bool:
        """Whether that stream is being captured into a graph."""
        ...

    def allocate(self, size: int, ordinal: int) -> tuple[Any, int]:
        """Device memory for work on the current stream: what keeps it alive, and its address.

        It may be let go once the work is launched; a graph that was captured meanwhile still owns it.
        """
        ...

    def load(self, image: Path, entries: tuple[str, ...], ordinal: int) -> tuple[Function, ...]:
        """Loads a CUBIN or PTX file on the (current) device."""
        ...


@dataclass(frozen=True, slots=True)
class _Loaded:
    """A kernel's functions on one device."""

    facts: DeviceFacts
    functions: tuple[Function, ...]


class CudaExecutable:
    """A compiled kernel that runs on any device of a host library; it is loaded there on first use."""

    def __init__(self, host: Host, artifact: Artifact, source: KernelSource) -> None:
        """Takes an artifact; nothing is loaded yet."""
        self._host = host
        self._artifact = artifact
        self._source = source
        self._plan: LaunchPlan = family_named(source.plan.family).launch_plan(source.spec, source.plan)
        self._loaded: dict[int, _Loaded] = {}
        self._lock = threading.Lock()
        self._pid = os.getpid()

    def prepare(self, problem: Problem, row_ranges: int | None = None) -> Launch:
        """Loads the kernel on the problem's device, and works out everything but addresses and scale.

        Args:
            problem: the call.
            row_ranges: overrides the launch plan's choice; any number gives the same bits.

        Raises:
            LaunchError: the device cannot run the kernel.
        """
        ordinal = int(problem.device.partition(":")[2] or 0)
        loaded = self._on(ordinal)
        p = problem
        geometry = resolve(
            self._plan,
            (p.batch, p.num_heads, p.num_heads_kv, p.seqlen_q, p.seqlen_k),
            (p.q_strides, p.k_strides, p.v_strides, p.out_strides),
            loaded.facts.sm_count,
            row_ranges,
        )
        for grid in geometry.grids:
            if any(size > most for size, most in zip(grid, _MAX_GRID, strict=True)):
                raise LaunchError(f"{self._source.entry} would need a grid of {grid}; CUDA allows {_MAX_GRID}.")
        functions = dict(zip(self._plan.steps, loaded.functions, strict=True))
        steps = tuple((functions[step], grid, step) for step, grid in geometry.launches(self._plan))
        host = self._host

        def launch(q: int, k: int, v: int, out: int, lse: int, seqlens_k: int, scale: float) -> None:
            self._refuse_fork()
            with host.guard(ordinal):
                _alive, address = self._workspace(geometry, ordinal)  # until all is launched
                args = geometry.pack((q, k, v, out, lse, seqlens_k), scale, address)
                stream = host.stream(ordinal)
                for function, grid, step in steps:
                    function.launch(grid, step.block, step.shared_bytes, stream, args)

        return launch

    def _workspace(self, geometry: Geometry, ordinal: int) -> tuple[Any, int]:
        size = geometry.workspace_bytes
        if not size:
            return None, 0
        try:
            return self._host.allocate(size, ordinal)
        except (RuntimeError, MemoryError) as error:
            raise LaunchError(
                f"{self._source.entry} needs {format_bytes(size)} of device memory to work in, which could not be "
                f"had: {error}. Use shorter sequences, fewer heads at a time, or another --algorithm."
            ) from error

    def _on(self, ordinal: int) -> _Loaded:
        self._refuse_fork()
        with self._lock:
            loaded = self._loaded.get(ordinal)
            if loaded is None:
                with self._host.guard(ordinal):
                    loaded = self._loaded[ordinal] = self._load(ordinal)
            return loaded

    def _load(self, ordinal: int) -> _Loaded:
        if self._host.capturing(ordinal):
            raise LaunchError(
                f"{self._source.entry} was never called on device {ordinal}, and a CUDA graph is being captured: "
                "loading a kernel cannot be part of a graph. Call it once before the capture."
            )
        facts = self._host.facts(ordinal)
        image = _image_for(facts, self._source.target, self._artifact)
        functions = self._host.load(image, tuple(step.entry for step in self._plan.steps), ordinal)
        for function, step in zip(functions, self._plan.steps, strict=True):
            if step.shared_bytes > facts.shared_bytes:
                raise LaunchError(
                    f"{step.entry} needs {format_bytes(step.shared_bytes)} of shared memory, but {facts.name} has "
                    f"{format_bytes(facts.shared_bytes)}. Build with --sram {facts.shared_bytes} or less."
                )
            if step.shared_bytes:
                function.allow_shared(step.shared_bytes)
            if function.max_threads < step.block:
                raise LaunchError(
                    f"{step.entry} has {step.block} threads, but its registers allow {function.max_threads} "
                    f"on {facts.name}."
                )
        return _Loaded(facts, functions)

    def _refuse_fork(self) -> None:
        if os.getpid() != self._pid:
            raise LaunchError(
                "CUDA does not survive a fork, and this process was forked after the kernel was built. "
                "Start processes with the 'spawn' method, or build the kernel in the child."
            )


def _image_for(facts: DeviceFacts, target: Target, artifact: Artifact) -> Path:
    """The CUBIN if the device runs its architecture; else the PTX, which newer devices can translate."""
    built_for = capability(target)
    exact = target.arch.endswith("a")  # such code runs on that one architecture
    same = facts.capability == built_for
    runs_cubin = same or (not exact and facts.capability // 10 == built_for // 10 and facts.capability > built_for)
    if "cubin" in artifact.paths and runs_cubin:
        return artifact.paths["cubin"]
    if "ptx" in artifact.paths and (same or (not exact and facts.capability > built_for)):
        return artifact.paths["ptx"]
    raise LaunchError(
        f"A kernel for {target} cannot run on {facts.name}, which is sm_{facts.capability}. "
        f"Build with --target sm_{facts.capability}."
    )
