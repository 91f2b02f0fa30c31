"""LSE: the natural logarithm, in the accumulator's type, good enough to join partial results."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from flashgen.reference import attention_reference, merge

D = 16


def test_lse_of_equal_logits_by_hand(backend, dtype):
    """n keys of logit x: x + ln n."""
    kernel = backend.build(D, dtype)
    for n in (1, 2, 100, 300):
        q, k = (np.zeros((1, 1, rows, D), kernel.spec.dtype.numpy()) for rows in (1, n))
        q[..., 0], k[..., 0] = 3, 2
        _, lse = kernel(q, k, k, return_lse=True, softmax_scale=0.5)
        assert lse.dtype == (np.float64 if dtype == "fp64" else np.float32)
        assert lse.item() == pytest.approx(3 + np.log(n), rel=1e-13 if dtype == "fp64" else 5e-7)


def test_lse_has_heads_before_rows_in_either_layout(backend, two_dtypes, draw):
    kernel = backend.build(D, two_dtypes, "bottom_right")
    q, k, v = draw((2, 4, 2, 7, 9), D, dtype=two_dtypes)
    _, lse = kernel(q, k, v, return_lse=True)
    assert lse.shape == (2, 4, 7)
    _, other = kernel(*(x.swapaxes(1, 2) for x in (q, k, v)), return_lse=True, layout="bshd")
    assert other.tobytes() == lse.tobytes()
    _, three = kernel(q[0], k[0], v[0], return_lse=True)
    _, two = kernel(q[0, 0], k[0, 0], v[0, 0], return_lse=True)
    assert (three.shape, two.shape) == ((4, 7), (7,))
    np.testing.assert_array_equal(three[0], two)


def test_asking_for_lse_does_not_change_out(backend, dtype, causal, draw):
    kernel = backend.build(D, dtype, causal)
    inputs = draw((1, 2, 1, 70, 66), D, dtype=dtype)
    assert kernel(*inputs).tobytes() == kernel(*inputs, return_lse=True)[0].tobytes()


@pytest.mark.parametrize("dtype", ["fp32", "fp64"])
@pytest.mark.parametrize("cuts", [(0, 50, 150), (0, 64, 150), (0, 1, 149, 150), (0, 0, 150, 150), (0, 30, 30, 90, 150)])
def test_partial_results_join_to_the_whole(backend, dtype, cuts, draw, check):
    kernel = backend.build(D, dtype)
    q, k, v = draw((2, 2, 1, 40, 150), D, dtype=dtype)
    parts = [
        kernel(q, k[:, :, begin:end], v[:, :, begin:end], return_lse=True) for begin, end in itertools.pairwise(cuts)
    ]
    out, lse = parts[0]
    for part in parts[1:]:
        out, lse = merge(out, lse, *part)
    storage = kernel.spec.dtype.numpy()
    check(kernel.spec, (q, k, v), out.astype(storage), lse.astype(storage))


def test_partial_results_of_16_bits_join_within_their_rounding(backend, draw):
    """Each part was rounded once, so the joint result may be off by that much more."""
    kernel = backend.build(D, "bf16")
    q, k, v = draw((1, 2, 2, 40, 150), D, dtype="bf16")
    parts = [kernel(q, k[:, :, rows], v[:, :, rows], return_lse=True) for rows in (slice(0, 70), slice(70, 150))]
    out, lse = merge(*parts[0], *parts[1])
    exact, exact_lse = attention_reference(q, k, v)
    spread, _ = attention_reference(q, k, abs(v))
    assert (abs(out - exact) <= 2 * 2.0**-8 * spread).all()
    assert (abs(lse - exact_lse) <= 2e-6 * np.maximum(1, abs(exact_lse))).all()


def test_an_empty_part_changes_nothing(backend, dtype, draw):
    kernel = backend.build(D, dtype)
    q, k, v = draw((2, 2, 1, 9, 20), D, dtype=dtype)
    out, lse = kernel(q, k, v, return_lse=True)
    for empty in (
        kernel(q, k[:, :, :0], v[:, :, :0], return_lse=True),
        kernel(q, k, v, return_lse=True, seqlens_k=[0, 0]),
    ):
        for joined in (merge(out, lse, *empty), merge(*empty, out, lse)):
            np.testing.assert_array_equal(joined[0], out.astype(np.float64))
            np.testing.assert_array_equal(joined[1], lse.astype(np.float64))
        nothing, nothing_lse = merge(*empty, *empty)
        assert not nothing.any()
        assert (nothing_lse == -np.inf).all()
