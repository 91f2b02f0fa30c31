"""The rate of multiply-adds that this machine reaches right now: the yardstick of every kernel, and a load meter.

The probe runs in every round of a measurement. A round in which it is far below its best was disturbed
by somebody else's work, and its rows are worth nothing.
"""

from __future__ import annotations

import ctypes
import time
from functools import cache

from flashgen.compilation.builder import build
from flashgen.compilation.toolchains.host import HostToolchain
from flashgen.dtypes import BF16, DType
from flashgen.render.environment import environment, templates_dir
from flashgen.runtime.device import host_target
from flashgen.runtime.openmp import thread_pool
from flashgen.source import HostSource
from flashgen.target import PRESETS, multiplies_bf16

_PROBE_SECONDS = 0.01
_FIRST_READINGS = 8


class PeakProbe:
    """Measures GFLOP/s of pure multiply-add work on as many threads as kernels use.

    Attributes:
        best: the best rate read so far; a few readings are taken at the start.
    """

    def __init__(self, precision: str = "fp32") -> None:
        """Builds the probe.

        Args:
            precision: ``fp32``, ``fp64`` or ``bf16``, what the kernels under test multiply; see `precision_of`.
        """
        self._function = getattr(_library(), f"flashgen_peak_probe_{precision}")
        self._function.restype = ctypes.c_int64
        self._function.argtypes = [ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p]
        self._iterations = self._calibrate()
        self.best = 0.0
        for _ in range(_FIRST_READINGS):
            time.sleep(_PROBE_SECONDS)
            self.measure()

    def measure(self) -> float:
        """GFLOP/s of all threads together, over a few milliseconds, after as long a warm-up."""
        pool = thread_pool()
        arguments = (self._iterations, pool.max_threads(), pool.parallel)
        self._function(*arguments)  # until the scheduler has given each thread a core of its own
        start = time.perf_counter()
        flops = self._function(*arguments)
        rate = float(flops / (time.perf_counter() - start) / 1e9)
        self.best = max(self.best, rate)
        return rate

    def _calibrate(self) -> int:
        """Iterations that take about `_PROBE_SECONDS` on one thread."""
        iterations = 1000
        while True:
            start = time.perf_counter()
            self._function(iterations, 1, 0)
            elapsed = time.perf_counter() - start
            if elapsed > _PROBE_SECONDS / 4:
                return max(1, int(iterations * _PROBE_SECONDS / elapsed))
            iterations *= 4


def precision_of(dtype: DType) -> str:
    """What the fastest multiply-adds for a dtype take on this machine: ``bf16``, ``fp32`` or ``fp64``.

    16-bit types are widened to fp32, but for bf16 where the CPU multiplies it as it is.
    """
    if dtype is BF16 and multiplies_bf16(host_target()):
        return "bf16"
    return "fp64" if dtype.compute_size == 8 else "fp32"


@cache
def _library() -> ctypes.CDLL:
    target = host_target()
    limits = PRESETS[target]
    chains = 24 if limits.simd_registers == 32 else 12
    template = environment(templates_dir()).get_template("cpu/peak_probe.cpp.j2")
    text = template.render(target=target, simd_bytes=limits.simd_bytes, chains=chains, bf16=multiplies_bf16(target))
    source = HostSource(text, "flashgen_peak_probe_fp32", target, f"peak_probe_{target.arch}.cpp")
    return ctypes.CDLL(str(build(source, HostToolchain()).path))
