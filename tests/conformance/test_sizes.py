"""Sizes: nothing, one, many heads, storages beyond 2^31 elements, and whatever hypothesis thinks of."""

from __future__ import annotations

import mmap

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

D = 16


@pytest.mark.parametrize("layout", ["bhsd", "bshd"])
@pytest.mark.parametrize(
    "shape",
    [
        (0, 2, 1, 5, 7),
        (2, 0, 0, 5, 7),
        (2, 0, 1, 5, 7),
        (2, 2, 1, 0, 7),
        (2, 2, 1, 5, 0),
        (2, 2, 1, 0, 0),
        (0, 0, 0, 0, 0),
    ],
    ids=str,
)
def test_sizes_of_zero(backend, two_dtypes, shape, layout, draw):
    kernel = backend.build(D, two_dtypes, "bottom_right", 24)
    batch, heads, _, seqlen_q, _ = shape
    arrays = draw(shape, D, 24, dtype=two_dtypes)
    if layout == "bshd":
        arrays = tuple(x.swapaxes(1, 2) for x in arrays)
    for lengths in (None, np.zeros(batch, np.int64)):
        out, lse = kernel(*arrays, return_lse=True, seqlens_k=lengths, layout=layout)
        assert out.shape == ((batch, heads, seqlen_q, 24) if layout == "bhsd" else (batch, seqlen_q, heads, 24))
        assert lse.shape == (batch, heads, seqlen_q)
        assert out.dtype == kernel.spec.dtype.numpy()
        assert (out == 0).all()
        assert (lse == -np.inf).all()


@pytest.mark.parametrize(
    ("batch", "heads", "heads_kv"), [(40_000, 2, 1), (1, 70_000, 70_000), (1, 70_000, 1), (2, 66_000, 33_000)]
)
def test_more_heads_than_65535(backend, two_dtypes, batch, heads, heads_kv, draw, check):
    """Heads repeat with a period that divides no power of two, so that a wrapped index shows."""
    kernel = backend.build(D, two_dtypes, "bottom_right")
    period = 7
    q, k, v = draw((1, period, period, 2, 3), D, dtype=two_dtypes)
    flat_q = np.arange(batch * heads) % period
    flat_kv = np.arange(batch * heads_kv) % period
    big_q = q[0][flat_q].reshape(batch, heads, 2, D)
    big_k, big_v = (x[0][flat_kv].reshape(batch, heads_kv, 3, D) for x in (k, v))
    out, lse = kernel(big_q, big_k, big_v, return_lse=True)
    group = heads // heads_kv
    kv_of = flat_kv.reshape(batch, heads_kv)[:, np.arange(heads) // group].ravel()
    pairs = {(i, j) for i, j in zip(flat_q, kv_of, strict=True)}
    for i, j in pairs:
        same = (flat_q == i) & (kv_of == j)
        rows, sums = out.reshape(-1, 2, D)[same], lse.reshape(-1, 2)[same]
        assert (rows == rows[0]).all()
        assert (sums == sums[0]).all()
        alone = q[:, i : i + 1], k[:, j : j + 1], v[:, j : j + 1]
        check(kernel.spec, alone, rows[:1][None], sums[:1][None])


def sparse(elements, dtype):
    """A buffer of so many elements, of which only what is touched takes memory."""
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0)
    try:
        memory = mmap.mmap(-1, elements * dtype.itemsize, flags=flags)
    except (OSError, ValueError):
        pytest.skip("this machine does not give that much address space")
    return np.frombuffer(memory, dtype)


FAR = 2**31 + 40  # elements: beyond what 32-bit offsets reach, signed or (doubled) unsigned


@pytest.mark.parametrize("axis", [0, 1, 2], ids=["batch", "head", "row"])
@pytest.mark.parametrize("name", ["q", "k", "v", "out"])
def test_offsets_beyond_32_bits(cpu_backend, two_dtypes, axis, name, draw, check):
    """Three steps along one axis of one array, each of 2^31 elements and more."""
    kernel = cpu_backend.build(D, two_dtypes)
    shape = {0: (3, 1, 1, 2, 2), 1: (1, 3, 3, 2, 2), 2: (1, 1, 1, 3, 3)}[axis]
    inputs = draw(shape, D, dtype=two_dtypes)
    arrays = dict(zip("qkv", inputs, strict=True)) | {"out": np.empty_like(inputs[0])}
    near = arrays[name]
    steps = [128, 64, D]
    steps[axis] = FAR
    far = np.lib.stride_tricks.as_strided(
        sparse(2 * FAR + 1000, near.dtype), near.shape, [step * near.itemsize for step in (*steps, 1)]
    )
    far[...] = near if name != "out" else np.nan
    out, lse = kernel(**(arrays | {name: far}), return_lse=True)
    check(kernel.spec, inputs, np.ascontiguousarray(out), lse)


def test_negative_offsets_beyond_32_bits(cpu_backend, draw, check):
    kernel = cpu_backend.build(D, "bf16")
    q, k, v = draw((3, 1, 1, 2, 2), D, dtype="bf16")
    buffer = sparse(2 * FAR + 1000, k.dtype)
    forwards = np.lib.stride_tricks.as_strided(buffer, k.shape, [step * 2 for step in (FAR, 2 * D, D, 1)])
    forwards[::-1] = k
    check(kernel.spec, (q, k, v), *kernel(q, forwards[::-1], v, return_lse=True))


# d, d_v, dtype, causal: a handful, and all of them kernels that other tests build anyway.
SPECS = [
    (1, 1, "fp32", "top_left"),
    (2, 3, "fp16", "bottom_right"),
    (7, 13, "bf16", "bottom_right"),
    (13, 7, "fp32", False),
    (16, 16, "bf16", "bottom_right"),
    (16, 16, "fp32", "top_left"),
    (16, 16, "fp64", False),
    (17, 16, "bf16", "top_left"),
]
SIZES = st.one_of(st.integers(0, 20), st.sampled_from([31, 32, 33, 63, 64, 65, 95, 96, 97, 127, 128, 129, 130]))


@st.composite
def problems(choose):
    heads_kv = choose(st.integers(1, 3))
    batch, seqlen_k = choose(st.integers(1, 3)), choose(SIZES)
    return {
        "spec": choose(st.sampled_from(SPECS)),
        "shape": (batch, heads_kv * choose(st.integers(1, 4)), heads_kv, choose(SIZES), seqlen_k),
        "layout": choose(st.sampled_from(["bhsd", "bshd"])),
        "scale": choose(st.none() | st.floats(-0.25, 0.25)),
        "lengths": choose(st.none() | st.lists(st.integers(0, seqlen_k), min_size=batch, max_size=batch)),
        "seed": choose(st.integers(0, 2**32)),
    }


@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.differing_executors])
@given(problem=problems())
def test_any_sizes(backend, draw, check, problem):
    d, d_v, dtype, causal = problem["spec"]
    kernel = backend.build(d, dtype, causal, d_v)
    inputs = draw(problem["shape"], d, d_v, dtype=dtype, seed=problem["seed"])
    options = {"softmax_scale": problem["scale"], "seqlens_k": problem["lengths"]}
    swap = problem["layout"] == "bshd"
    arrays = [np.ascontiguousarray(x.swapaxes(1, 2)) if swap else x for x in inputs]
    out, lse = kernel(*arrays, return_lse=True, layout=problem["layout"], **options)
    check(kernel.spec, inputs, out.swapaxes(1, 2) if swap else out, lse, **options)
