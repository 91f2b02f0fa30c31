"""`out=`: written in full and nowhere else where it fits, refused with a reason where it does not."""

from __future__ import annotations

import numpy as np
import pytest

from flashgen.errors import ArgumentError

D, DV = 16, 24
SHAPE = (2, 4, 2, 33, 70)
OUT = (2, 4, 33, DV)


def poisoned(shape, dtype):
    return np.full(shape, np.nan, dtype)


# Each takes the dtype and returns a NaN buffer, and the view of it that is handed over as `out`.
def contiguous(dtype):
    buffer = poisoned(OUT, dtype)
    return buffer, buffer


def rows_before_heads(dtype):
    buffer = poisoned((2, 33, 4, DV), dtype)
    return buffer, buffer.swapaxes(1, 2)


def embedded(dtype):
    buffer = poisoned((4, 6, 35, DV + 5), dtype)
    return buffer, buffer[1:3, 1:5, 1:34, 3 : 3 + DV]


def every_other(dtype):
    buffer = poisoned((4, 8, 66, DV), dtype)
    return buffer, buffer[::2, ::2, ::2]


def backwards(dtype):
    buffer = poisoned(OUT, dtype)
    return buffer, buffer[::-1, ::-1, ::-1]


def offset_by_one(dtype):
    buffer = poisoned(np.prod(OUT) + 2, dtype)
    return buffer, buffer[1:-1].reshape(OUT)


PLACES = [contiguous, rows_before_heads, embedded, every_other, backwards, offset_by_one]


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.__name__)
def test_out_is_written_in_full_and_nothing_else_is(cpu_backend, dtype, place, draw):
    kernel = cpu_backend.build(D, dtype, "bottom_right", DV)
    inputs = draw(SHAPE, D, DV, dtype=dtype)
    want, want_lse = kernel(*inputs, return_lse=True, seqlens_k=[0, 69])
    buffer, out = place(kernel.spec.dtype.numpy())
    got, lse = kernel(*inputs, return_lse=True, seqlens_k=[0, 69], out=out)
    assert got is out
    assert out.tobytes() == want.tobytes()
    assert lse.tobytes() == want_lse.tobytes()
    out[...] = np.nan
    assert np.isnan(buffer).all()


def test_out_of_nothing_and_for_no_keys(backend, two_dtypes, draw):
    kernel = backend.build(D, two_dtypes, "bottom_right", DV)
    storage = kernel.spec.dtype.numpy()
    out = poisoned((2, 2, 5, DV), storage)
    got = kernel(*draw((2, 2, 1, 5, 0), D, DV, dtype=two_dtypes), out=out)
    assert got is out
    assert (out == 0).all()
    empty = poisoned((2, 2, 0, DV), storage)
    assert kernel(*draw((2, 2, 1, 0, 5), D, DV, dtype=two_dtypes), out=empty) is empty


def test_out_of_lower_rank_and_other_layout(backend, draw):
    kernel = backend.build(D, "fp32", "bottom_right", DV)
    q, k, v = draw((1, 2, 1, 6, 8), D, DV)
    want = kernel(q, k, v)
    three = poisoned((2, 6, DV), np.float32)
    kernel(q[0], k[0], v[0], out=three)
    assert three.tobytes() == want.tobytes()
    rows_first = poisoned((1, 6, 2, DV), np.float32)
    kernel(*(x.swapaxes(1, 2) for x in (q, k, v)), out=rows_first, layout="bshd")
    assert rows_first.swapaxes(1, 2).tobytes() == want.tobytes()


def read_only():
    out = poisoned(OUT, np.float32)
    out.flags.writeable = False
    return out


def strided(steps):
    """`OUT` in a buffer as large as it would need, with these steps in elements."""
    return np.lib.stride_tricks.as_strided(poisoned(OUT, np.float32), OUT, [4 * step for step in steps])


UNFIT = {
    "another shape": (lambda: poisoned((2, 4, 33, DV + 1), np.float32), f"({', '.join(map(str, OUT))})"),
    "fewer rows": (lambda: poisoned((2, 4, 32, DV), np.float32), "shape"),
    "another rank": (lambda: poisoned(OUT[1:], np.float32), "4-dimensional"),
    "another type": (lambda: poisoned(OUT, np.float64), "fp32"),
    "another layout": (lambda: poisoned((2, 33, 4, DV), np.float32), "shape"),
    "last axis strided": (lambda: poisoned((*OUT[:3], 2 * DV), np.float32)[..., ::2], "contiguous"),
    "unaligned": (lambda: np.zeros(4 * np.prod(OUT) + 1, np.uint8)[1:].view(np.float32).reshape(OUT), "aligned"),
    "read-only": (read_only, "writable"),
    "expanded": (lambda: strided((0, 33 * DV, DV, 1)), "overlapping"),
    "rows overlap": (lambda: strided((4 * 33 * DV, 33 * DV, 8, 1)), "overlapping"),
    "heads overlap": (lambda: strided((4 * 33 * DV, DV, DV, 1)), "overlapping"),
    "no array": (lambda: [0.0], "numpy"),
}


@pytest.mark.parametrize("why", UNFIT)
def test_out_that_does_not_fit_is_refused_with_the_reason(cpu_backend, why, draw):
    kernel = cpu_backend.build(D, "fp32", "bottom_right", DV)
    make, mentions = UNFIT[why]
    with pytest.raises(ArgumentError) as caught:
        kernel(*draw(SHAPE, D, DV), out=make())
    assert caught.value.tensor == "out"
    assert mentions in str(caught.value)


@pytest.mark.parametrize("name", ["q", "k", "v"])
def test_out_may_not_overlap_an_input(cpu_backend, name, draw):
    kernel = cpu_backend.build(D, "fp32", "bottom_right")
    arrays = dict(zip("qkv", draw((1, 1, 1, 8, 8), D), strict=True))
    memory = np.zeros((1, 1, 12, D), np.float32)
    arrays[name] = memory[:, :, :8]
    with pytest.raises(ArgumentError, match=f"overlap.* {name}"):
        kernel(*arrays.values(), out=memory[:, :, 4:])
    assert not memory.any()


def test_out_may_be_interleaved_with_an_input(cpu_backend, draw):
    """One buffer, rows of q and of out taking turns: they share a range of memory but no element."""
    kernel = cpu_backend.build(D, "fp32", "bottom_right")
    q, k, v = draw((1, 1, 1, 8, 8), D)
    memory = np.empty((1, 1, 16, D), np.float32)
    memory[:, :, ::2] = q
    try:
        got = kernel(memory[:, :, ::2], k, v, out=memory[:, :, 1::2])
    except ArgumentError as refused:
        assert refused.tensor == "out"
    else:
        assert got.tobytes() == kernel(q, k, v).tobytes()
    assert memory[:, :, ::2].tobytes() == q.tobytes()
