"""Which keys a row sees: empty rows, both alignments, and what NaN and inf do on either side of the mask."""

from __future__ import annotations

import numpy as np
import pytest

from flashgen.reference import visible_keys
from flashgen.spec import Causal, parse_causal

D = 16


def test_rows_without_a_key_are_zero_wherever_they_stand(backend, dtype, draw, check):
    """First rows, a whole tile, a whole head, and a single row in the last tile's company."""
    kernel = backend.build(D, dtype, "bottom_right")
    for seqlen_q, seqlen_k, lengths in (
        (5, 3, None),
        (200, 3, None),
        (200, 199, None),
        (65, 64, None),
        (129, 40, (0, 1, 40)),
        (1, 40, (0, 1, 40)),
        (70, 70, (70, 0, 69)),
    ):
        inputs = draw((3, 2, 1, seqlen_q, seqlen_k), D, dtype=dtype)
        out, lse = kernel(*inputs, return_lse=True, seqlens_k=lengths)
        for b, valid in enumerate(lengths or (seqlen_k,) * 3):
            empty = ~visible_keys(seqlen_q, seqlen_k, Causal.BOTTOM_RIGHT, valid).any(axis=1)
            assert np.count_nonzero(empty) == max(seqlen_q - valid, 0)
            assert (out[b][:, empty] == 0).all()
            assert (lse[b][:, empty] == -np.inf).all()
            assert np.isfinite(lse[b][:, ~empty]).all()
        check(kernel.spec, inputs, out, lse, seqlens_k=lengths)


def test_rows_without_a_key_are_zero_without_a_mask(backend, dtype, causal, draw):
    kernel = backend.build(D, dtype, causal)
    out, lse = kernel(*draw((2, 2, 2, 70, 80), D, dtype=dtype), return_lse=True, seqlens_k=[0, 0])
    assert (out == 0).all()
    assert (lse == -np.inf).all()


def test_an_empty_row_is_zero_even_if_its_query_is_nan(backend, two_dtypes, draw):
    kernel = backend.build(D, two_dtypes, "bottom_right")
    q, k, v = draw((1, 1, 1, 70, 66), D, dtype=two_dtypes)
    q[:, :, :4] = np.nan
    out, lse = kernel(q, k, v, return_lse=True)
    assert (out[0, 0, :4] == 0).all()
    assert (lse[0, 0, :4] == -np.inf).all()
    assert np.isfinite(out[0, 0, 4:]).all()


@pytest.mark.parametrize("alignment", ["top_left", "bottom_right"])
@pytest.mark.parametrize(("seqlen_q", "seqlen_k"), [(70, 70), (30, 90), (90, 30), (1, 80)])
def test_a_causal_row_is_unmasked_attention_over_its_keys(backend, alignment, seqlen_q, seqlen_k, draw, check):
    """Another way to the same numbers, which shares no mask with the oracle."""
    masked, plain = backend.build(D, "fp32", alignment), backend.build(D, "fp32")
    q, k, v = draw((1, 2, 2, seqlen_q, seqlen_k), D)
    out, lse = masked(q, k, v, return_lse=True)
    for i in range(0, seqlen_q, 7):
        seen = min(i + 1 + (seqlen_k - seqlen_q if alignment == "bottom_right" else 0), seqlen_k)
        if seen > 0:
            alone = q[:, :, i : i + 1], k[:, :, :seen], v[:, :, :seen]
            check(plain.spec, alone, out[:, :, i : i + 1], lse[:, :, i : i + 1])
            check(plain.spec, alone, *plain(*alone, return_lse=True))


def test_true_means_bottom_right(backend, draw):
    inputs = draw((1, 1, 1, 20, 50), D)
    named = backend.build(D, "fp32", "bottom_right")(*inputs)
    assert backend.build(D, "fp32", True)(*inputs).tobytes() == named.tobytes()
    assert backend.build(D, "fp32", "top_left")(*inputs).tobytes() != named.tobytes()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_masked_in_k_never_leaks(backend, dtype, bad, draw, check):
    """Every row before the hostile key is right, and every row from it on shows it."""
    kernel = backend.build(D, dtype, "top_left")
    q, k, v = draw((1, 1, 1, 100, 130), D, dtype=dtype)
    for j in (1, 15, 63, 64, 65, 99, 100, 129):
        hostile = k.copy()
        hostile[0, 0, j] = bad
        out, lse = kernel(q, hostile, v, return_lse=True)
        assert np.isfinite(out[0, 0, :j]).all()
        assert np.isnan(out[0, 0, j:]).all()
        check(kernel.spec, (q, hostile, v), out, lse)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("more_keys", [10, 11])
def test_what_is_masked_in_v_stays_within_its_tile(backend, dtype, more_keys, bad, draw):
    """0 * NaN may reach rows of a tile that visits the key for another row's sake, but no other row."""
    kernel = backend.build(D, dtype, "bottom_right")
    q, k, v = draw((1, 1, 1, 300, 300 + more_keys), D, dtype=dtype)
    clean, clean_lse = kernel(q, k, v, return_lse=True)
    br = kernel.attention.plan.br
    beyond_a_tile = br + more_keys  # the key after the last that the first tile sees
    for j in {11, 74, 200, 309, min(beyond_a_tile, 309)}:
        hostile = v.copy()
        hostile[0, 0, j] = bad
        out, lse = kernel(q, k, hostile, return_lse=True)
        first_row = max(j - more_keys, 0)  # the first that sees key j
        first_of_tile = first_row // br * br
        assert out[0, 0, :first_of_tile].tobytes() == clean[0, 0, :first_of_tile].tobytes()
        assert not np.isfinite(out[0, 0, first_row:]).any()
        assert lse.tobytes() == clean_lse.tobytes()


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_lies_beyond_all_keys_never_leaks(backend, dtype, causal, bad, draw):
    """Padding after seqlens_k, and keys that no row of the call may see."""
    kernel = backend.build(D, dtype, causal)
    q, k, v = draw((3, 2, 1, 40, 150), D, dtype=dtype)
    lengths = [0, 65, 149]
    clean = kernel(q, k, v, return_lse=True, seqlens_k=lengths)
    for b, valid in enumerate(lengths):
        end = min(valid, 40) if parse_causal(causal) is Causal.TOP_LEFT else valid
        k[b, :, end:] = v[b, :, end:] = bad
    hostile = kernel(q, k, v, return_lse=True, seqlens_k=lengths)
    for got, want in zip(hostile, clean, strict=True):
        assert got.tobytes() == want.tobytes()


def test_a_visible_nan_or_inf_shows_in_every_row_that_sees_it(backend, dtype, draw):
    kernel = backend.build(D, dtype)
    q, k, v = draw((2, 2, 2, 70, 90), D, dtype=dtype)
    q[0, 0, 3, 5] = np.nan
    v[0, 1, 80] = np.inf
    k[1, 0, 7, 0] = np.nan
    out, lse = kernel(q, k, v, return_lse=True)
    shows = np.zeros((2, 2, 70), bool)
    shows[0, 0, 3] = shows[0, 1] = shows[1, 0] = True
    np.testing.assert_array_equal(~np.isfinite(out).any(axis=-1), shows)
    shows[0, 1] = False  # V is no part of lse
    np.testing.assert_array_equal(np.isnan(lse), shows)
