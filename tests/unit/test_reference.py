"""The oracle against hand-computed results, against torch in float64, and against its own laws."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flashgen.dtypes import BF16, FP16, FP32, FP64
from flashgen.reference import attention_reference, math_path, merge, visible_keys
from flashgen.spec import Causal

NONE, TOP_LEFT, BOTTOM_RIGHT = Causal.NONE, Causal.TOP_LEFT, Causal.BOTTOM_RIGHT


def draw(batch, heads, heads_kv, seqlen_q, seqlen_k, d, dv=None, seed=0):
    rng = np.random.default_rng(seed)
    q = rng.standard_normal((batch, heads, seqlen_q, d))
    k = rng.standard_normal((batch, heads_kv, seqlen_k, d))
    return q, k, rng.standard_normal((batch, heads_kv, seqlen_k, d if dv is None else dv))


def one_head(rows):
    return np.array(rows, dtype=np.float64)[None, None]


# ---- The mask ----


@pytest.mark.parametrize(
    ("seqlen_q", "seqlen_k", "causal", "num_valid", "picture"),
    [
        (2, 3, NONE, None, ["111", "111"]),
        (2, 3, NONE, 2, ["110", "110"]),
        (3, 3, TOP_LEFT, None, ["100", "110", "111"]),
        (2, 4, TOP_LEFT, None, ["1000", "1100"]),
        (4, 2, TOP_LEFT, None, ["10", "11", "11", "11"]),
        (3, 3, TOP_LEFT, 2, ["100", "110", "110"]),
        (3, 3, BOTTOM_RIGHT, None, ["100", "110", "111"]),
        (2, 4, BOTTOM_RIGHT, None, ["1110", "1111"]),
        (4, 2, BOTTOM_RIGHT, None, ["00", "00", "10", "11"]),
        (2, 4, BOTTOM_RIGHT, 3, ["1100", "1110"]),
        (2, 4, BOTTOM_RIGHT, 1, ["0000", "1000"]),
        (2, 4, BOTTOM_RIGHT, 0, ["0000", "0000"]),
        (1, 0, BOTTOM_RIGHT, None, [""]),
    ],
)
def test_visible_keys(seqlen_q, seqlen_k, causal, num_valid, picture):
    mask = visible_keys(seqlen_q, seqlen_k, causal, num_valid)
    assert ["".join("01"[int(x)] for x in row) for row in mask] == picture


# ---- Values ----


def test_two_keys_by_hand():
    q, k, v = one_head([[1.0]]), one_head([[0.0], [math.log(3)]]), one_head([[0.0, 8.0], [4.0, 0.0]])
    out, lse = attention_reference(q, k, v, softmax_scale=1.0)
    np.testing.assert_allclose(out, one_head([[3.0, 2.0]]), rtol=1e-15)  # weights 1/4 and 3/4
    np.testing.assert_allclose(lse, [[[math.log(4)]]], rtol=1e-15)


def test_the_default_scale_is_one_over_sqrt_d():
    q, k, v = draw(1, 1, 1, 3, 4, 9)
    for got, want in zip(attention_reference(q, k, v), attention_reference(q, k, v, softmax_scale=1 / 3), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-14)


@pytest.mark.parametrize("dtype", [FP16, BF16, FP32, FP64], ids=str)
def test_every_float_type_is_read_exactly(dtype):
    q, k, v = (x.astype(dtype.numpy()) for x in draw(1, 2, 1, 3, 4, 5))
    got = attention_reference(q, k, v)
    want = attention_reference(*(x.astype(np.float64) for x in (q, k, v)))
    for a, b in zip(got, want, strict=True):
        assert a.dtype == np.float64
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("causal", [NONE, TOP_LEFT])
@pytest.mark.parametrize(("heads", "heads_kv"), [(2, 2), (6, 2), (4, 1)])
@pytest.mark.parametrize(("seqlen_q", "seqlen_k"), [(5, 5), (1, 7), (9, 4)])
def test_agrees_with_torch(causal, heads, heads_kv, seqlen_q, seqlen_k):
    torch = pytest.importorskip("torch")
    q, k, v = draw(2, heads, heads_kv, seqlen_q, seqlen_k, 8, 3)
    want = torch.nn.functional.scaled_dot_product_attention(
        *map(torch.from_numpy, (q, k, v)), is_causal=causal is TOP_LEFT, enable_gqa=True, scale=0.3
    )
    out, _ = attention_reference(q, k, v, causal=causal, softmax_scale=0.3)
    np.testing.assert_allclose(out, want.numpy(), rtol=0, atol=1e-14)


def test_lse_agrees_with_torch():
    torch = pytest.importorskip("torch")
    q, k, v = draw(2, 2, 2, 5, 7, 8)
    scores = torch.from_numpy(q) @ torch.from_numpy(k).transpose(-1, -2) * 8**-0.5
    _, lse = attention_reference(q, k, v)
    np.testing.assert_allclose(lse, torch.logsumexp(scores, -1).numpy(), rtol=1e-14)


def test_seqlens_k_is_the_same_as_shorter_keys():
    q, k, v = draw(3, 2, 2, 4, 6, 5)
    for causal in (NONE, TOP_LEFT, BOTTOM_RIGHT):
        got = attention_reference(q, k, v, causal=causal, seqlens_k=[0, 3, 6])
        for b, length in enumerate((0, 3, 6)):
            part = (x[b : b + 1] for x in (q, k[:, :, :length], v[:, :, :length]))
            for whole, want in zip(got, attention_reference(*part, causal=causal), strict=True):
                np.testing.assert_allclose(whole[b : b + 1], want, rtol=1e-13)


@pytest.mark.parametrize("sign", [1, -1])
def test_huge_logits(sign):
    q, k = one_head([[2.0**50]]), one_head([[sign * 2.0**50], [sign * 2.0**50], [0.0]])
    v = one_head([[1.0], [3.0], [10.0]])
    out, lse = attention_reference(q, k, v, softmax_scale=1.0)
    assert out.item() == (2.0 if sign > 0 else 10.0)
    assert lse.item() == (2.0**100 if sign > 0 else 0.0)


def test_rows_without_keys_are_zero():
    q, k, v = draw(1, 1, 1, 5, 2, 3)
    out, lse = attention_reference(q, k, v, causal=BOTTOM_RIGHT)
    assert not out[0, 0, :3].any()
    assert (lse[0, 0, :3] == -np.inf).all()
    assert np.isfinite(lse[0, 0, 3:]).all()
    out, lse = attention_reference(q, k[:, :, :0], v[:, :, :0])
    assert not out.any()
    assert (lse == -np.inf).all()


# ---- NaN and inf ----


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_a_row_does_not_see_does_not_reach_it(bad):
    q, k, v = draw(1, 1, 1, 4, 4, 3)
    clean = attention_reference(q, k, v, causal=TOP_LEFT)
    k[0, 0, 2] = v[0, 0, 2] = bad
    out, lse = attention_reference(q, k, v, causal=TOP_LEFT)
    np.testing.assert_array_equal(out[0, 0, :2], clean[0][0, 0, :2])
    np.testing.assert_array_equal(lse[0, 0, :2], clean[1][0, 0, :2])
    assert not np.isfinite(out[0, 0, 2:]).any()


def test_a_nan_in_v_stays_in_its_column_and_leaves_lse_alone():
    q, k, v = draw(1, 1, 1, 2, 4, 3)
    clean = attention_reference(q, k, v)
    v[0, 0, 1, 2] = np.nan
    out, lse = attention_reference(q, k, v)
    assert np.isnan(out[..., 2]).all()
    np.testing.assert_allclose(out[..., :2], clean[0][..., :2], rtol=1e-13)
    np.testing.assert_array_equal(lse, clean[1])


# ---- Merging ----


@given(
    cut=st.integers(0, 7), causal=st.sampled_from([NONE, BOTTOM_RIGHT]), scale=st.sampled_from([0.0, 0.5, -2.0, 1e8])
)
def test_merging_two_sets_of_keys_is_attention_over_both(cut, causal, scale):
    q, k, v = draw(1, 2, 2, 7, 7, 4)
    whole = attention_reference(q, k, v, causal=causal, softmax_scale=scale)
    # Row i sees i + 1 keys, so it sees min(i + 1, cut) of the first part and the rest of the second.
    visible = np.broadcast_to(np.arange(7) < 7 if causal is NONE else np.tri(7, dtype=bool), (7, 7))
    parts = []
    for keep in (np.arange(7) < cut, np.arange(7) >= cut):
        rows = [
            attention_reference(q[:, :, i : i + 1], k[:, :, seen], v[:, :, seen], softmax_scale=scale)
            for i, seen in enumerate(visible & keep)
        ]
        parts.append([np.concatenate(arrays, axis=2) for arrays in zip(*rows, strict=True)])
    for got, want in zip(merge(*parts[0], *parts[1]), whole, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-14)


def test_merging_with_nothing_changes_nothing():
    out, lse = attention_reference(*draw(1, 2, 2, 3, 4, 5))
    lse[0, 0, 0] = 1e300
    nothing = np.zeros_like(out), np.full_like(lse, -np.inf)
    for got in (merge(out, lse, *nothing), merge(*nothing, out, lse)):
        np.testing.assert_array_equal(got[0], out)
        np.testing.assert_array_equal(got[1], lse)


def test_merging_nothing_with_nothing_is_nothing():
    nothing = np.zeros((2, 3)), np.full(2, -np.inf)
    out, lse = merge(*nothing, *nothing)
    assert not out.any()
    assert (lse == -np.inf).all()


# ---- The math path ----


@pytest.mark.parametrize("intermediates", ["fp32", "storage"])
@pytest.mark.parametrize("dtype", [FP16, BF16], ids=str)
@pytest.mark.parametrize("shape", [(64, 64, 64), (100, 333, 64), (333, 17, 80), (17, 500, 128)])
def test_math_path_errs_as_torchs_does(intermediates, dtype, shape):
    torch = pytest.importorskip("torch")
    from torch.nn.attention import SDPBackend, sdpa_kernel

    seqlen_q, seqlen_k, d = shape
    q, k, v = (x.astype(dtype.numpy()) for x in draw(1, 4, 4, seqlen_q, seqlen_k, d))
    tensors = [torch.from_numpy(x.astype(np.float32)).to(getattr(torch, dtype.numpy_name)) for x in (q, k, v)]
    allowed = torch.backends.cuda.fp16_bf16_reduction_math_sdp_allowed()
    try:
        torch.backends.cuda.allow_fp16_bf16_reduction_math_sdp(intermediates == "storage")
        with sdpa_kernel(SDPBackend.MATH):
            theirs = torch.nn.functional.scaled_dot_product_attention(*tensors).double().numpy()
    finally:
        torch.backends.cuda.allow_fp16_bf16_reduction_math_sdp(allowed)
    ours = math_path(q, k, v, dtype, intermediates=intermediates).astype(np.float64)
    exact, _ = attention_reference(q, k, v)
    for size in (np.max, lambda x: np.sqrt(np.mean(x**2))):
        assert size(abs(ours - exact)) == pytest.approx(size(abs(theirs - exact)), rel=0.1)


def test_math_path_knows_masks_groups_padding_and_signs():
    q, k, v = (x.astype(np.float32) for x in draw(2, 4, 2, 6, 9, 8, 3))
    k[0, :, 4:] = v[0, :, 4:] = np.nan
    for causal in (NONE, TOP_LEFT, BOTTOM_RIGHT):
        for scale in (None, -0.5, 0.0):
            options = {"causal": causal, "softmax_scale": scale, "seqlens_k": [4, 9]}
            exact, _ = attention_reference(q, k, v, **options)
            got = math_path(q, k, v, FP32, **options)
            assert got.dtype == np.float32
            np.testing.assert_allclose(got, exact, rtol=0, atol=2e-6)


def test_storage_intermediates_err_more_than_fp32_ones():
    q, k, v = (x.astype(BF16.numpy()) for x in draw(1, 2, 2, 64, 64, 64))
    exact, _ = attention_reference(q, k, v)
    errors = [
        np.abs(math_path(q, k, v, BF16, intermediates=kept).astype(np.float64) - exact).max()
        for kept in ("fp32", "storage")
    ]
    assert errors[0] < errors[1] / 1.5
