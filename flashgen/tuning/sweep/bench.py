"""A bench: what a worker checks and times kernels on. Here the one for CPU kernels."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from flashgen.compilation.artifact import Toolchain
from flashgen.errors import LaunchError
from flashgen.measure.clock import time_call
from flashgen.pipeline import Built, build_and_load, load_kernel
from flashgen.runtime.arguments import check_tensors
from flashgen.runtime.kernel import CompiledKernel, Executable, Launch, Loader, Problem
from flashgen.runtime.numpy_tensors import NUMPY
from flashgen.spec import AttentionSpec
from flashgen.target import Target
from flashgen.tile_plan import TilePlan
from flashgen.tuning.records.plans import key_of
from flashgen.tuning.sweep.checks import Checker, checksum, refuse_stray_writes, surrounded
from flashgen.tuning.sweep.shape import Array, Shape
from flashgen.tuning.sweep.trial import DEVICE, RESOURCES, WRONG, Failure
from flashgen.verification.compare import accumulator

_BATCHES, _BATCH_SECONDS, _LONG_SECONDS = 3, 2e-3, 0.1

Clock = Callable[[TilePlan, Callable[[], object]], float]


class WallClock:
    """Times calls by the hygiene of `measure.clock`: untimed calls first, short ones many at once.

    A turn is the fastest of three batches, unless one takes long. On a shared machine the slower ones mostly tell when
    the scheduler took a core away.
    """

    def __init__(self) -> None:
        self._known: dict[str, tuple[int, int]] = {}  # repeats, batches

    def __call__(self, plan: TilePlan, call: Callable[[], object]) -> float:
        """Seconds of one call."""
        key = key_of(plan)
        if key not in self._known:
            seconds = time_call(call, 1)
            repeats = max(1, round(_BATCH_SECONDS / max(seconds, 1e-7)))
            self._known[key] = repeats, _BATCHES if seconds * repeats < _LONG_SECONDS else 1
        return time_call(call, *self._known[key])


@dataclass(frozen=True, slots=True)
class Tools:
    """What a sweep works with; each None is the target's own. Workers get a copy, so it must be picklable.

    Attributes:
        toolchain: compiles.
        loader: loads.
        clock: makes the clock that times calls on a CPU.
        library: opens the CUDA driver's library.
    """

    toolchain: Toolchain | None = None
    loader: Loader | None = None
    clock: Callable[[], Clock] = WallClock
    library: Callable[[], Any] | None = None


class Bench(Protocol):
    """Checks and times kernels, one at a time."""

    def turn(self, built: Built) -> float | Failure:
        """Seconds of one call. On first sight the kernel is loaded and checked against the oracle."""
        ...


class CpuBench:
    """CPU kernels on NumPy arrays."""

    def __init__(self, spec: AttentionSpec, shape: Shape, target: Target, tools: Tools) -> None:
        """Draws the inputs and makes the buffers that all plans share."""
        self._spec = spec
        self._target = target
        self._tools = tools
        self._clock = tools.clock()
        self._inputs = shape.inputs(spec)
        self._checker = Checker(spec, shape, self._inputs)
        q, k, v = self._inputs
        checked = check_tensors(spec, "cpu", NUMPY, {"q": q, "k": k, "v": v}, "bhsd")
        self._problem = checked.problem
        self._out = np.full(checked.out_shape, np.nan, spec.dtype.numpy())
        self._admitted: dict[str, tuple[Launch, int]] = {}

    def turn(self, built: Built) -> float | Failure:
        """See `Bench`. Also checks that the timed calls gave the bits that the checked one gave."""
        plan = built.source.plan
        key = key_of(plan)
        try:
            if key not in self._admitted:
                admitted = self._admit(built)
                if isinstance(admitted, Failure):
                    return admitted
                self._admitted[key] = admitted
            launch, expected = self._admitted[key]
            self._out.fill(np.nan)
            seconds = self._clock(plan, lambda: self._run(launch))
        except LaunchError as error:
            return Failure(DEVICE, str(error))
        except MemoryError:
            return Failure(RESOURCES, "there is not enough memory for it")
        if checksum(self._out) != expected:
            return Failure(WRONG, "it gave other bits when it was called again")
        return seconds

    def _admit(self, built: Built) -> tuple[Launch, int] | Failure:
        executable = self._load(built).executable
        complaint = self._checker.complaint(_CpuCall(self._spec, executable))
        if complaint:
            return Failure(WRONG, complaint)
        launch = executable.prepare(self._problem)
        self._run(launch)
        return launch, checksum(self._out)

    def _load(self, built: Built) -> CompiledKernel:
        """Loads it; a kernel whose artifact has vanished from the cache meanwhile is built again."""
        try:
            return load_kernel(built, self._tools.loader)
        except LaunchError:
            if built.artifact.path.exists():
                raise
            plan, toolchain = built.source.plan, self._tools.toolchain
            return build_and_load(self._spec, plan, self._target, self._tools.loader, toolchain=toolchain)

    def _run(self, launch: Launch) -> None:
        q, k, v, out = (NUMPY.pointer(x) for x in (*self._inputs, self._out))
        launch(q, k, v, out, 0, 0, 1.0 / math.sqrt(self._spec.head_dim))


class _CpuCall:
    """A kernel as the checks call it; see `checks.Call`."""

    def __init__(self, spec: AttentionSpec, executable: Executable) -> None:
        self._spec = spec
        self._executable = executable

    def __call__(
        self,
        q: Array,
        k: Array,
        v: Array,
        *,
        softmax_scale: float | None,
        seqlens_k: Array | None,
        layout: str,
    ) -> tuple[Array, Array]:
        spec = self._spec
        checked = check_tensors(spec, "cpu", NUMPY, {"q": q, "k": k, "v": v}, layout)
        out_whole, out = surrounded(checked.out_shape, spec.dtype.numpy())
        lse_whole, lse = surrounded(checked.lse_shape, accumulator(spec.dtype).numpy())
        scale = 1.0 / math.sqrt(spec.head_dim) if softmax_scale is None else softmax_scale
        lengths = 0 if seqlens_k is None else NUMPY.pointer(seqlens_k)
        self._launch(checked.problem, (q, k, v, out, lse), lengths, scale)
        refuse_stray_writes("out", out_whole)
        refuse_stray_writes("lse", lse_whole)
        return (out.swapaxes(1, 2) if layout == "bshd" else out), lse

    def _launch(self, problem: Problem, arrays: tuple[Array, ...], lengths: int, scale: float) -> None:
        launch = self._executable.prepare(problem)
        q, k, v, out, lse = (NUMPY.pointer(x) for x in arrays)
        launch(q, k, v, out, lse, lengths, scale)
