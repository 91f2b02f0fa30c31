"""Memory: any strides and any offset give the bits of contiguous arrays, and only elements are read."""

from __future__ import annotations

import itertools
import subprocess
import sys

import numpy as np
import pytest

D = 16
SHAPE = (2, 4, 2, 33, 70)

# ---- Views: each builder returns an array equal to x, laid out in its own way, surrounded by NaN. ----


def nan_like(x, shape):
    return np.full(shape, np.nan, x.dtype)


def axes_swapped(x, order):
    """Contiguous in another order of axes."""
    inverse = np.argsort(order)
    return np.ascontiguousarray(x.transpose(order)).transpose(inverse)


def embedded(x, margin=3):
    """In the middle of a larger array."""
    inner = nan_like(x, tuple(size + 2 * margin for size in x.shape))[(slice(margin, -margin),) * x.ndim]
    inner[...] = x
    return inner


def every_other(x):
    """Every second batch, head and row of a larger array."""
    view = nan_like(x, (*(2 * size for size in x.shape[:-1]), x.shape[-1]))[::2, ::2, ::2]
    view[...] = x
    return view


def reversed_axes(x):
    """Strides of batch, head and row are negative."""
    return np.ascontiguousarray(x[::-1, ::-1, ::-1])[::-1, ::-1, ::-1]


def offset_by_one(x):
    """Starts one element into its buffer, so it is aligned to an element and to nothing more."""
    flat = nan_like(x, x.size + 2)[1:-1]
    flat[...] = x.ravel()
    return flat.reshape(x.shape)


def unaligned(x):
    """Not even aligned to an element."""
    flat = np.zeros(x.nbytes + 1, np.uint8)[1:].view(x.dtype)
    flat[...] = x.ravel()
    assert not flat.flags.aligned
    return flat.reshape(x.shape)


def wide_rows(x):
    """Rows are part of longer ones, and the row stride is odd."""
    view = nan_like(x, (*x.shape[:-1], x.shape[-1] + 7))[..., 5 : 5 + x.shape[-1]]
    view[...] = x
    return view


def last_stride_two(x):
    view = nan_like(x, (*x.shape[:-1], 2 * x.shape[-1]))[..., ::2]
    view[...] = x
    return view


def last_axis_reversed(x):
    return np.ascontiguousarray(x[..., ::-1])[..., ::-1]


VIEWS = {
    "rows before heads": lambda x: axes_swapped(x, (0, 2, 1, 3)),
    "batch innermost of three": lambda x: axes_swapped(x, (1, 2, 0, 3)),
    "rows outermost": lambda x: axes_swapped(x, (2, 1, 0, 3)),
    "last axis outermost": lambda x: axes_swapped(x, (3, 0, 1, 2)),
    "Fortran order": np.asfortranarray,
    "embedded": embedded,
    "every other": every_other,
    "reversed": reversed_axes,
    "offset by one": offset_by_one,
    "unaligned": unaligned,
    "wide rows": wide_rows,
    "last stride two": last_stride_two,
    "last axis reversed": last_axis_reversed,
}


@pytest.mark.parametrize("view", VIEWS)
def test_strided_inputs_give_the_bits_of_contiguous_ones(backend, dtype, view, draw, check):
    kernel = backend.build(D, dtype, "bottom_right")
    inputs = draw(SHAPE, D, dtype=dtype)
    want, want_lse = kernel(*inputs, return_lse=True)
    check(kernel.spec, inputs, want, want_lse)
    strided = [VIEWS[view](x) for x in inputs]
    assert [x.tobytes() for x in strided] == [x.tobytes() for x in inputs]
    for chosen in ((0,), (1,), (2,), (0, 1, 2)):
        mixed = [strided[i] if i in chosen else inputs[i] for i in range(3)]
        out, lse = kernel(*mixed, return_lse=True)
        assert out.tobytes() == want.tobytes()
        assert lse.tobytes() == want_lse.tobytes()


@pytest.mark.parametrize("pages", [1, 2])
def test_rows_whole_pages_apart_give_the_bits_of_contiguous_ones(backend, dtype, pages, draw):
    """A kernel may copy rows that collide in the cache, once enough queries read them."""
    kernel = backend.build(D, dtype, "bottom_right")
    inputs = draw((1, 2, 2, 200, 210), D, dtype=dtype)
    want = [x.tobytes() for x in kernel(*inputs, return_lse=True)]
    for chosen in ((1,), (2,), (0, 1, 2)):
        mixed = list(inputs)
        for i in chosen:
            rows = nan_like(inputs[i], (*inputs[i].shape[:-1], pages * 4096 // inputs[i].itemsize))
            mixed[i] = rows[..., 1 : 1 + D]
            mixed[i][...] = inputs[i]
        assert [x.tobytes() for x in kernel(*mixed, return_lse=True)] == want


@pytest.mark.parametrize("axes", [(0,), (1,), (2,), (3,), (0, 1), (0, 1, 2)], ids=str)
def test_expanded_inputs(backend, two_dtypes, axes, draw, check):
    """Stride 0: one batch entry, head, row or element stands for all."""
    kernel = backend.build(D, two_dtypes)
    arrays = draw(SHAPE, D, dtype=two_dtypes)
    first = tuple(slice(0, 1) if axis in axes else slice(None) for axis in range(4))
    expanded = tuple(np.broadcast_to(x[first], x.shape) for x in arrays)
    out, lse = kernel(*expanded, return_lse=True)
    check(kernel.spec, expanded, out, lse)
    assert out.tobytes() == kernel(*(x.copy() for x in expanded)).tobytes()


def test_windows_that_overlap(backend, two_dtypes, draw, check):
    """Row i + 1 starts inside row i."""
    kernel = backend.build(D, two_dtypes)
    flat = draw((1, 1, 1, 1, 400), 1, dtype=two_dtypes)[1].ravel()
    rows = np.lib.stride_tricks.sliding_window_view(flat, D)[None, None, ::3]
    out, lse = kernel(rows, rows, rows, return_lse=True)
    check(kernel.spec, (rows, rows, rows), out, lse)


@pytest.mark.parametrize("d", [1, 7])
@pytest.mark.parametrize("layout", ["bhsd", "bshd"])
def test_both_layouts_at_every_rank(backend, two_dtypes, d, layout, draw, check):
    kernel = backend.build(d, two_dtypes, "top_left", 5)
    inputs = draw((2, 6, 2, 9, 11), d, 5, dtype=two_dtypes)
    stored = [x if layout == "bhsd" else np.ascontiguousarray(x.swapaxes(1, 2)) for x in inputs]
    out, lse = kernel(*stored, return_lse=True, layout=layout)
    assert out.shape == ((2, 6, 9, 5) if layout == "bhsd" else (2, 9, 6, 5))
    check(kernel.spec, inputs, out if layout == "bhsd" else out.swapaxes(1, 2), lse)

    three, three_lse = kernel(*(x[1] for x in stored), return_lse=True, layout=layout)
    assert three.tobytes() == out[1].tobytes()
    assert (three.shape, three_lse.shape) == (out.shape[1:], (6, 9))
    two, two_lse = kernel(*(x[1, 0] for x in inputs), return_lse=True, layout=layout)
    assert (two.shape, two_lse.shape) == ((9, 5), (9,))
    check(kernel.spec, tuple(x[1:, :1] for x in inputs), two[None, None], two_lse[None, None])


def test_one_array_read_in_two_layouts(backend, draw, check):
    """As many heads as rows: only `layout` tells which axis is which."""
    kernel = backend.build(D, "fp32", "bottom_right")
    inputs = draw((2, 6, 6, 6, 6), D)
    swapped = tuple(x.swapaxes(1, 2) for x in inputs)
    for _ in range(2):
        check(kernel.spec, inputs, *kernel(*inputs, return_lse=True, layout="bhsd"))
        out, lse = kernel(*inputs, return_lse=True, layout="bshd")
        check(kernel.spec, swapped, out.swapaxes(1, 2), lse)


def test_sizes_of_one_may_have_any_stride(backend, draw, check):
    """An axis of one element is never stepped along, whatever its stride says."""
    kernel = backend.build(D, "fp32")
    inputs = draw((1, 1, 1, 1, 1), D)
    odd = tuple(np.lib.stride_tricks.as_strided(x, strides=(4 * 12345, -4 * 999, 4 * 77, 4)) for x in inputs)
    check(kernel.spec, inputs, *kernel(*odd, return_lse=True))
    narrow = backend.build(1, "fp32", d_v=1)
    inputs = draw((2, 2, 2, 5, 6), 1)
    odd = tuple(np.lib.stride_tricks.as_strided(x, strides=(*x.strides[:3], 4 * 31)) for x in inputs)
    check(narrow.spec, inputs, *narrow(*odd, return_lse=True))


def test_inputs_are_not_written_and_may_be_read_only(backend, dtype, draw):
    kernel = backend.build(D, dtype, "bottom_right")
    inputs = draw(SHAPE, D, dtype=dtype)
    before = [x.tobytes() for x in inputs]
    for x in inputs:
        x.flags.writeable = False
    lengths = np.array([5, 70])
    lengths.flags.writeable = False
    kernel(*inputs, return_lse=True, seqlens_k=lengths)
    assert [x.tobytes() for x in inputs] == before


# ---- Nothing outside the arrays is touched: each array ends, or begins, at a page that may not be. ----

GUARDED = """
import ctypes, itertools, mmap, sys
import numpy as np
import flashgen
from flashgen.dtypes import parse_dtype

algorithm, target = sys.argv[1:]
PAGE = mmap.PAGESIZE
libc = ctypes.CDLL(None, use_errno=True)
keep = []

def guarded(x, at_end):
    pages = -(-x.nbytes // PAGE)
    memory = mmap.mmap(-1, (pages + 2) * PAGE)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    keep.append(memory)
    first = PAGE + (pages * PAGE - x.nbytes if at_end else 0)
    copy = np.frombuffer(memory, x.dtype, x.size, first).reshape(x.shape)
    copy[...] = x
    for page in (0, pages + 1):
        assert libc.mprotect(ctypes.c_void_p(start + page * PAGE), PAGE, 0) == 0
    return copy

rng = np.random.default_rng(0)
for d, d_v, dtype, causal in (
    (1, 1, "fp32", "top_left"),
    (1, 7, "bf16", False),
    (2, 3, "fp16", "bottom_right"),
    (7, 13, "bf16", "bottom_right"),
    (13, 7, "fp32", False),
    (31, 33, "fp64", "bottom_right"),
    (64, 64, "fp16", False),
    (64, 64, "bf16", "bottom_right"),
    (64, 64, "fp32", "bottom_right"),
):
    attn = flashgen.build(d, dtype, causal=causal, d_v=d_v, target=target, algorithm=algorithm)
    storage = parse_dtype(dtype).numpy()
    for seqlen_q, seqlen_k, at_end in itertools.product((1, 15, 65), (1, 17, 130), (False, True)):
        shapes = (1, 2, seqlen_q, d), (1, 1, seqlen_k, d), (1, 1, seqlen_k, d_v)
        q, k, v = (guarded(rng.standard_normal(shape).astype(storage), at_end) for shape in shapes)
        out = guarded(np.full((1, 2, seqlen_q, d_v), np.nan, storage), at_end)
        attn(q, k, v, out=out)
        assert np.isfinite(out.astype(np.float64)).all()
        lengths = guarded(np.array([seqlen_k]), at_end)
        attn(q, k, v, out=out, seqlens_k=lengths)
print("untouched")
"""


def test_nothing_beyond_the_arrays_is_touched(cpu_backend):
    done = subprocess.run(
        [sys.executable, "-c", GUARDED, cpu_backend.algorithm, str(cpu_backend.target)],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert (done.returncode, done.stdout) == (0, "untouched\n"), done.stderr


def test_views_cover_every_axis_and_sign():
    """The grid above is worth what it claims: some stride of every kind is in it."""
    x = np.zeros((2, 3, 4, 5), np.float32)
    strides = [view(x).strides for view in VIEWS.values()]
    for axis, sign in itertools.product(range(4), (1, -1)):
        assert any(stride[axis] * sign > 0 for stride in strides)
    assert any(stride[3] > 4 for stride in strides)
    assert any(abs(stride[2]) < abs(stride[3]) for stride in strides)
