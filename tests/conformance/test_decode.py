"""Few query rows against many keys: calls that are cut into splits of the keys, and joined."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import flashgen
from flashgen.families import family_named
from flashgen.runtime.device import host_target
from flashgen.spec import make_spec

D = 40


def split_keys(dtype):
    family, spec, target = family_named("cpu_decode"), make_spec(D, dtype), host_target()
    return family.knobs(spec, target, *family.default_tile(spec, target)).split_keys


@pytest.fixture(scope="module", params=["auto", "decode"])
def build(request):
    def built(dtype="fp32", causal=False, **options):
        return flashgen.build(D, dtype, causal=causal, algorithm=request.param, target="cpu", **options)

    return built


def test_calls_with_few_packed_rows_go_to_the_decode_kernel(draw):
    attn = flashgen.build(D, "fp32", target="cpu")
    for heads in (1, 4):
        most = family_named("cpu_decode").most_packed_rows(attn.spec, attn.target, heads) // heads
        for rows, family in ((1, "cpu_decode"), (most, "cpu_decode"), (most + 1, "cpu_fa2")):
            q, k, _ = draw((1, 2 * heads, 2, rows, 70), D)
            assert attn.plan_for(q, k).family == family
    named = flashgen.build(D, "fp32", target="cpu", algorithm="fa2")
    q, k, _ = draw((1, 1, 1, 1, 70), D)
    assert named.plan_for(q, k).family == "cpu_fa2"


@pytest.mark.parametrize(
    ("rows", "heads", "heads_kv"), [(1, 1, 1), (1, 8, 2), (1, 7, 1), (3, 2, 1), (8, 2, 2), (2, 3, 1)]
)
@pytest.mark.parametrize("beyond", [-1, 0, 1])
def test_around_the_ends_of_splits(build, dtype, causal, rows, heads, heads_kv, beyond, draw, check):
    kernel, keys = build(dtype, causal), 2 * split_keys(dtype) + beyond
    inputs = draw((2, heads, heads_kv, rows, keys), D, dtype=dtype)
    check(kernel.spec, inputs, *kernel(*inputs, return_lse=True))
    lengths = [split_keys(dtype) + beyond, 0]
    check(kernel.spec, inputs, *kernel(*inputs, return_lse=True, seqlens_k=lengths), seqlens_k=lengths)


def test_a_sequence_gets_the_same_bits_in_any_company(build, dtype, draw):
    """Batch size, other heads, and room for more keys change nothing."""
    kernel, keys = build(dtype, "bottom_right"), 3 * split_keys(dtype) + 5
    q, k, v = draw((3, 4, 2, 2, keys), D, dtype=dtype)
    out, lse = kernel(q, k, v, return_lse=True)
    for b, h in itertools.product(range(3), range(4)):
        alone = kernel(q[b, h], k[b, h // 2], v[b, h // 2], return_lse=True)
        assert alone[0].tobytes() == out[b, h].tobytes()
        assert alone[1].tobytes() == lse[b, h].tobytes()
    longer_k, longer_v = (np.concatenate([x, np.full_like(x, np.nan)], axis=2) for x in (k, v))
    padded = kernel(q, longer_k, longer_v, return_lse=True, seqlens_k=[keys] * 3)
    assert padded[0].tobytes() == out.tobytes()
    assert padded[1].tobytes() == lse.tobytes()


def test_any_number_of_threads_gives_the_same_bits(build, dtype, draw):
    torch = pytest.importorskip("torch")
    kernel = build(dtype)
    inputs = draw((2, 4, 2, 2, 5 * split_keys(dtype) + 3), D, dtype=dtype)
    before, results = torch.get_num_threads(), set()
    try:
        for threads in (1, 2, 3, 5):
            torch.set_num_threads(threads)
            for _ in range(5):
                out, lse = kernel(*inputs, return_lse=True)
                results.add(out.tobytes() + lse.tobytes())
    finally:
        torch.set_num_threads(before)
    assert len(results) == 1


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_bad_in_one_split_shows_in_the_rows_that_see_it_and_in_no_other(build, dtype, bad, draw):
    kernel, keys = build(dtype, "bottom_right"), 2 * split_keys(dtype)
    q, k, v = draw((1, 2, 2, 4, keys), D, dtype=dtype)
    for j in (0, split_keys(dtype) - 1, split_keys(dtype), keys - 3):
        hostile = k.copy()
        hostile[0, 0, j] = bad
        out, _ = kernel(q, hostile, v, return_lse=True)
        seen = np.arange(4) + keys - 4 >= j
        np.testing.assert_array_equal(np.isnan(out[0, 0]).all(axis=-1), seen)
        assert np.isfinite(out[0, 0][~seen].astype(np.float64)).all()
        assert np.isfinite(out[0, 1].astype(np.float64)).all()


@pytest.mark.parametrize("logit", [1e5, -1e5, 1e10, 1e30, -1e30])
def test_the_largest_logit_wins_in_whatever_split_it_stands(build, two_dtypes, logit, draw):
    kernel, keys = build(two_dtypes), 3 * split_keys(two_dtypes)
    q, k, v = draw((1, 1, 1, 1, keys), D, dtype=two_dtypes)
    q[...], k[...] = 0, 0
    q[..., 0] = 1
    for j in (3, split_keys(two_dtypes) + 7, keys - 1):
        k[..., 0] = logit
        k[:, :, j, 0] = logit + abs(logit) / 2
        out = kernel(q, k, v, softmax_scale=1.0)
        np.testing.assert_array_equal(out[0, 0, 0], v[0, 0, j])


def test_results_are_written_where_they_belong_and_nothing_else_is(build, two_dtypes, draw, check):
    kernel, keys = build(two_dtypes, "bottom_right"), 2 * split_keys(two_dtypes) + 9
    inputs = draw((2, 6, 2, 3, keys), D, dtype=two_dtypes)
    buffer = np.full((2, 5, 8, D + 3), np.nan, inputs[0].dtype)
    out = buffer[:, 1:4, 1:7, 2 : 2 + D].swapaxes(1, 2)
    strided = [np.ascontiguousarray(x.swapaxes(1, 2)).swapaxes(1, 2) for x in inputs]
    _, lse = kernel(*strided, out=out, return_lse=True)
    check(kernel.spec, inputs, np.ascontiguousarray(out), lse)
    out[...] = np.nan
    assert np.isnan(buffer.astype(np.float64)).all()
