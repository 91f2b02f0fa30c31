"""Right values everywhere: kernels against the float64 oracle on the shapes and hostile values of `verify`."""

from __future__ import annotations

import numpy as np
import pytest

from flashgen.errors import BudgetError
from flashgen.families import serving
from flashgen.verification import cases_for, verify

# d, d_v, dtype, causal: small, odd, unequal and largest head dims; masks and types take turns.
HEAD_DIMS = [
    (1, 1, "fp32", "top_left"),
    (1, 7, "bf16", False),
    (2, 3, "fp16", "bottom_right"),
    (7, 13, "bf16", "bottom_right"),
    (13, 7, "fp32", False),
    (17, 16, "bf16", "top_left"),
    (31, 33, "fp64", "bottom_right"),
    (40, 40, "fp16", False),
    (72, 72, "bf16", "bottom_right"),
    (80, 128, "fp32", "bottom_right"),
    (96, 1, "fp16", "top_left"),
    (128, 128, "bf16", False),
    (192, 128, "bf16", "bottom_right"),
    (256, 256, "fp32", "bottom_right"),
    (512, 512, "bf16", "bottom_right"),
    (512, 512, "fp32", False),
    (511, 5, "fp16", False),
    (3, 512, "fp32", "bottom_right"),
]
MOST_PAIRS = 33 * 333  # of query and key, where the head dims are large enough without more


def small_cases(spec):
    return [case for case in cases_for(spec) if case.seqlen_q * case.seqlen_k <= MOST_PAIRS]


def test_head_dim_64(backend, dtype, causal):
    kernel = backend.build(64, dtype, causal)
    report = verify(kernel, kernel.spec)
    assert report.passed, report.summary()


@pytest.mark.parametrize(("d", "d_v", "dtype", "causal"), HEAD_DIMS)
def test_other_head_dims(backend, d, d_v, dtype, causal):
    kernel = backend.build(d, dtype, causal, d_v)
    report = verify(kernel, kernel.spec, cases=small_cases(kernel.spec))
    assert report.passed, report.summary()


@pytest.mark.parametrize("logit", [0.0, 1e-30, 1.0, -1e5, 1e10, 1e30, -1e30])
def test_one_key_gives_its_value_whatever_the_logit(backend, dtype, logit, draw):
    """Up to one rounding of P, which is 1, and one of the result."""
    kernel = backend.build(16, dtype, "top_left")
    q, k, v = draw((1, 2, 2, 70, 70), dtype=dtype)
    q[...], k[...] = 0, 0
    q[..., 3], k[..., 3] = 2, 4
    out, lse = kernel(q[:, :, :1], k, v, return_lse=True, softmax_scale=logit / 8)
    allowed = 2.0**-kernel.spec.dtype.mantissa_bits
    np.testing.assert_allclose(out.astype(np.float64), v[:, :, :1].astype(np.float64), rtol=allowed, atol=0)
    np.testing.assert_allclose(lse, logit, rtol=3e-7, atol=1e-30)


@pytest.mark.parametrize(
    ("rows", "keys", "longest"),
    # Algorithm 1 normalises O once a tile, so hundreds of tiles of one key would round hundreds of times.
    [(1, 1, 127), (16, 256, 333), (128, 16, 333), (256, 512, 333)],
)
def test_tiles_of_every_shape(backend, two_dtypes, rows, keys, longest):
    """Rows beyond a tile's last key, keys beyond its last row, and everything in one tile."""
    spec = backend.build(24, two_dtypes, "bottom_right").spec
    grid = serving(spec, backend.target, backend.algorithm)[0].grid(spec, backend.target)
    br, bc = (min(legal, key=lambda size: abs(size - wanted)) for legal, wanted in ((grid.br, rows), (grid.bc, keys)))
    try:
        kernel = backend.build(24, two_dtypes, "bottom_right", br=br, bc=bc)
    except BudgetError as too_much:
        pytest.skip(str(too_much))
    assert (kernel.attention.plan.br, kernel.attention.plan.bc) == (br, bc)
    report = verify(kernel, kernel.spec, cases=[case for case in cases_for(spec) if case.seqlen_k <= longest])
    assert report.passed, report.summary()


@pytest.mark.parametrize(
    ("dtype", "causal"), [("fp16", False), ("bf16", "bottom_right"), ("fp32", "top_left"), ("fp64", False)]
)
def test_lower_instruction_sets(lower_level, dtype, causal):
    kernel = lower_level.build(40, dtype, causal)
    report = verify(kernel, kernel.spec, cases=small_cases(kernel.spec))
    assert report.passed, report.summary()


def test_the_best_algorithm_that_auto_chooses(two_dtypes, causal):
    import flashgen

    kernel = flashgen.build(64, two_dtypes, causal=causal)
    report = verify(kernel, kernel.spec, seed=1)
    assert report.passed, report.summary()
