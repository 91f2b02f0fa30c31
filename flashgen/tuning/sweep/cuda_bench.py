"""The bench for CUDA kernels on a GPU: driver memory, events, and an L2 cache that is overwritten before each call."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence

import numpy as np

from flashgen.errors import LaunchError
from flashgen.pipeline import Built
from flashgen.runtime.cuda_launch import CudaExecutable
from flashgen.runtime.kernel import Launch, Problem, Strides
from flashgen.spec import AttentionSpec
from flashgen.tuning.records.plans import key_of
from flashgen.tuning.sweep.bench import Tools
from flashgen.tuning.sweep.checks import Checker, checksum, refuse_stray_writes, surrounded
from flashgen.tuning.sweep.cuda_memory import ORDINAL, DriverHost, MeasuringDriver, on_device, opened
from flashgen.tuning.sweep.shape import Array, Shape
from flashgen.tuning.sweep.trial import DEVICE, RESOURCES, WRONG, Failure
from flashgen.verification.compare import accumulator

_WARM_UP, _SAMPLES = 2, 5
_FLUSH_LEAST = 1 << 26
_OUT_OF_MEMORY = "CUDA_ERROR_OUT_OF_MEMORY"


class CudaBench:
    """CUDA kernels on the first GPU."""

    def __init__(self, spec: AttentionSpec, shape: Shape, tools: Tools) -> None:
        """Puts the inputs on the device.

        Raises:
            LaunchError: there is no GPU, or it has not enough memory.
        """
        self._spec = spec
        self._driver = opened(tools.library() if tools.library else None)
        self._host = DriverHost(self._driver)
        inputs = shape.inputs(spec)
        self._checker = Checker(spec, shape, inputs)
        self._problem = _problem(spec, inputs)
        rows = (shape.batch, shape.heads, shape.seqlen_q, spec.head_dim_v)
        self._out = np.full(rows, np.nan, spec.dtype.numpy())
        self._admitted: dict[str, tuple[Launch, int]] = {}
        with self._driver.context(ORDINAL):
            self._inputs = [self._driver.allocate(array.nbytes) for array in inputs]
            for address, array in zip(self._inputs, inputs, strict=True):
                self._driver.upload(address, array)
            self._result = self._driver.allocate(self._out.nbytes)
            self._flush_bytes = max(4 * self._driver.l2_bytes(), _FLUSH_LEAST)
            self._flush = self._driver.allocate(self._flush_bytes)
            self._events = self._driver.event(), self._driver.event()

    def turn(self, built: Built) -> float | Failure:
        """See `bench.Bench`. After a failure the device is in any state: the process must be replaced."""
        key = key_of(built.source.plan)
        try:
            with self._driver.context(ORDINAL):
                if key not in self._admitted:
                    admitted = self._admit(built)
                    if isinstance(admitted, Failure):
                        return admitted
                    self._admitted[key] = admitted
                launch, expected = self._admitted[key]
                seconds = self._time(lambda: self._run(launch))
                if self._checksum() != expected:
                    return Failure(WRONG, "it gave other bits when it was called again")
                return seconds
        except LaunchError as error:
            return Failure(RESOURCES if _OUT_OF_MEMORY in str(error) else DEVICE, str(error))

    def _admit(self, built: Built) -> tuple[Launch, int] | Failure:
        executable = CudaExecutable(self._host, built.artifact, built.source)
        complaint = self._checker.complaint(_CudaCall(self._spec, self._driver, executable))
        if complaint:
            return Failure(WRONG, complaint)
        launch = executable.prepare(self._problem)
        self._driver.upload(self._result, np.full_like(self._out, np.nan))
        self._run(launch)
        self._driver.synchronize()
        return launch, self._checksum()

    def _time(self, call: Callable[[], None]) -> float:
        """Median seconds of a few calls, each with a cold L2 cache, after untimed ones."""
        begin, end = self._events
        for _ in range(_WARM_UP):
            call()
        samples = []
        for _ in range(_SAMPLES):
            self._driver.overwrite(self._flush, self._flush_bytes)
            self._driver.record(begin)
            call()
            self._driver.record(end)
            samples.append(self._driver.seconds_between(begin, end))
        self._driver.synchronize()
        return statistics.median(samples)

    def _run(self, launch: Launch) -> None:
        q, k, v = self._inputs
        launch(q, k, v, self._result, 0, 0, 1.0 / math.sqrt(self._spec.head_dim))

    def _checksum(self) -> int:
        self._driver.download(self._out, self._result)
        return checksum(self._out)


class _CudaCall:
    """A kernel as the checks call it; see `checks.Call`. Inputs are copied back and compared, too."""

    def __init__(self, spec: AttentionSpec, driver: MeasuringDriver, executable: CudaExecutable) -> None:
        self._spec = spec
        self._driver = driver
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
        spec, driver = self._spec, self._driver
        given = [np.ascontiguousarray(x.swapaxes(1, 2) if layout == "bshd" else x) for x in (q, k, v)]
        out_whole, out = surrounded((*given[0].shape[:3], spec.head_dim_v), spec.dtype.numpy())
        lse_whole, lse = surrounded(given[0].shape[:3], accumulator(spec.dtype).numpy())
        lengths = None if seqlens_k is None else np.ascontiguousarray(seqlens_k, np.int64)
        scale = 1.0 / math.sqrt(spec.head_dim) if softmax_scale is None else softmax_scale
        launch = self._executable.prepare(_problem(spec, given))
        with on_device(driver, *given, out_whole, lse_whole, lengths) as addresses:
            at_q, at_k, at_v, at_out, at_lse, at_lengths = addresses
            start = at_out + _offset(out_whole, out), at_lse + _offset(lse_whole, lse)
            launch(at_q, at_k, at_v, *start, at_lengths, scale)
            driver.synchronize()
            driver.download(out_whole, at_out)
            driver.download(lse_whole, at_lse)
            for mine, address, theirs in zip(given, addresses, (q, k, v), strict=False):
                driver.download(mine, address)
                if mine.size:  # what the kernel left of its inputs shows in the caller's arrays
                    theirs[...] = mine.swapaxes(1, 2) if layout == "bshd" else mine
        refuse_stray_writes("out", out_whole)
        refuse_stray_writes("lse", lse_whole)
        return out, lse


def _problem(spec: AttentionSpec, arrays: Sequence[Array]) -> Problem:
    """The problem of contiguous arrays, heads before rows."""
    q, k, v = arrays
    batch, heads, rows, _ = q.shape
    at_q, at_k, at_v, at_out = map(_strides, (q.shape, k.shape, v.shape, (*q.shape[:3], spec.head_dim_v)))
    sizes = (batch, heads, k.shape[1], rows, k.shape[2])
    return Problem(*sizes, at_q, at_k, at_v, at_out, device=f"cuda:{ORDINAL}", library="driver")


def _strides(shape: tuple[int, ...]) -> Strides:
    _, heads, rows, dim = shape
    return heads * rows * dim, rows * dim, dim


def _offset(whole: Array, inner: Array) -> int:
    """Bytes from the start of a buffer to the array within it."""
    return int(inner.ctypes.data - whole.ctypes.data)
