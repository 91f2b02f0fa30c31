"""The rate at which this machine reads memory right now: the yardstick of decoding, and a load meter."""

from __future__ import annotations

import ctypes
import time
from functools import cache

import numpy as np

from flashgen.compilation.builder import build
from flashgen.compilation.toolchains.host import HostToolchain
from flashgen.render.environment import environment, templates_dir
from flashgen.runtime.device import host_target
from flashgen.runtime.openmp import thread_pool
from flashgen.source import HostSource
from flashgen.target import PRESETS

COLD_BYTES = 192 << 20  # what no usual cache holds, so that by the time it has been read its beginning is gone
_PIECE_BYTES = 64 << 10
_FIRST_READINGS = 8
_PAUSE_SECONDS = 0.01


class ReadProbe:
    """Measures GB/s of nothing but reading, on as many threads as kernels use.

    Attributes:
        best: the best rate read so far; a few readings are taken at the start.
    """

    def __init__(self, size: int = COLD_BYTES) -> None:
        """Builds the probe.

        Args:
            size: bytes of the buffer that it reads, half of them untimed.
        """
        self._function = _library().flashgen_read_probe
        self._function.restype = ctypes.c_int64
        self._function.argtypes = [ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p]
        self._half = max(size // 2, _PIECE_BYTES)
        self._buffer = np.ones(2 * self._half + _PIECE_BYTES, np.uint8)  # written, or all pages would be one
        self.best = 0.0
        for _ in range(_FIRST_READINGS):
            time.sleep(_PAUSE_SECONDS)
            self.measure()

    def measure(self) -> float:
        """GB/s of all threads together; half the buffer goes untimed, to wake and spread the threads."""
        pool = thread_pool()
        first = -(-self._buffer.ctypes.data // _PIECE_BYTES) * _PIECE_BYTES
        threads = (pool.max_threads(), pool.parallel)
        self._function(first, self._half, *threads)
        start = time.perf_counter()
        size = self._function(first + self._half // _PIECE_BYTES * _PIECE_BYTES, self._half, *threads)
        rate = float(size / (time.perf_counter() - start) / 1e9)
        self.best = max(self.best, rate)
        return rate


@cache
def _library() -> ctypes.CDLL:
    target = host_target()
    template = environment(templates_dir()).get_template("cpu/read_probe.cpp.j2")
    text = template.render(target=target, simd_bytes=PRESETS[target].simd_bytes, piece_bytes=_PIECE_BYTES)
    source = HostSource(text, "flashgen_read_probe", target, f"read_probe_{target.arch}.cpp")
    return ctypes.CDLL(str(build(source, HostToolchain()).path))
