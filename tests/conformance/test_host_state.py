"""A kernel leaves the host process as it found it: rounding, subnormal numbers, NumPy's and torch's results."""

from __future__ import annotations

import ctypes
import platform
import sys

import numpy as np
import pytest

D = 16


FLUSHES = 0x8040  # MXCSR's bits for "subnormal results become 0" and "subnormal operands are 0"


def subnormals_live():
    """Compares bits: where subnormal operands count as 0, they are equal to anything small."""
    tiny = np.full(1000, 2.0**-140, np.float32)
    same, twice = (tiny * np.float32(1.0)).view(np.uint32), (tiny + tiny).view(np.uint32)
    return bool((same == 1 << 9).all() and (twice == 1 << 10).all())


def float_environment():
    """glibc's fenv_t: on x86-64 its last word is MXCSR, whose low 6 bits are flags of past operations."""
    words = (ctypes.c_uint32 * 8)()
    assert ctypes.CDLL(None).fegetenv(words) == 0
    return words[7] & ~0x3F


ONE_TASK = (1, 1, 1, 10, 130)  # small enough that the calling thread does it alone


def test_subnormal_numbers_live_on(cpu_backend, dtype, draw):
    kernel = cpu_backend.build(D, dtype, "bottom_right")
    assert subnormals_live()
    kernel(*draw(ONE_TASK, D, dtype=dtype))
    assert subnormals_live()


@pytest.mark.skipif(
    platform.machine() != "x86_64" or not sys.platform.startswith("linux"), reason="reads glibc's fenv_t of x86-64"
)
def test_control_words_are_untouched(cpu_backend, dtype, draw):
    kernel = cpu_backend.build(D, dtype)
    before = float_environment()
    assert not before & FLUSHES
    kernel(*draw(ONE_TASK, D, dtype=dtype))
    assert float_environment() == before


def test_threads_of_the_shared_pool_keep_subnormal_numbers(cpu_backend, dtype, draw):
    """torch computes on the same threads that the kernel ran on."""
    torch = pytest.importorskip("torch")
    kernel = cpu_backend.build(D, dtype)
    tiny = torch.full((1_000_000,), 2.0**-140)
    for _ in range(5):
        kernel(*draw((8, 8, 8, 71, 131), D, dtype=dtype))
        assert bool(((tiny * 1.0).view(torch.int32) == 1 << 9).all())


def test_hostile_values_raise_no_warning_and_stay_inside(cpu_backend, two_dtypes, draw):
    """filterwarnings = error makes any warning of NumPy's a failure."""
    kernel = cpu_backend.build(D, two_dtypes)
    q, k, v = draw((1, 2, 2, 40, 70), D, dtype=two_dtypes)
    want = kernel(q, k, v).tobytes()
    k[0, 0, 3], v[0, 1, 5] = np.nan, np.inf
    kernel(q * q.dtype.type(1e30), k, v, return_lse=True)
    q, k, v = draw((1, 2, 2, 40, 70), D, dtype=two_dtypes)
    assert kernel(q, k, v).tobytes() == want
