"""Wrong input gets an ArgumentError that names the tensor, what was expected and what came."""

from __future__ import annotations

import math

import numpy as np
import pytest

import flashgen
from flashgen.errors import ArgumentError, FlashgenError

D, DV = 16, 24
SHAPE = (2, 4, 2, 5, 7)


@pytest.fixture(scope="module")
def kernel(cpu_backend):
    return cpu_backend.build(D, "fp32", "bottom_right", DV)


def big_endian(x):
    return x.astype(x.dtype.newbyteorder(">"))


# What is done to one tensor of a call that was right, and what the message must say was expected and came.
WRONG = {
    "k of another type": ("k", lambda x: x.astype(np.float16), "fp32", "float16"),
    "v of another type": ("v", lambda x: x.astype(np.float64), "fp32", "float64"),
    "q of whole numbers": ("q", lambda x: x.astype(np.int32), "fp32", "int32"),
    "q of bools": ("q", lambda x: x > 0, "fp32", "bool"),
    "k of complex numbers": ("k", lambda x: x.astype(np.complex64), "fp32", "complex64"),
    "v of objects": ("v", lambda x: x.astype(object), "fp32", "object"),
    "q of text": ("q", lambda x: np.full(x.shape, "a"), "fp32", "str"),
    "q of foreign byte order": ("q", big_endian, "fp32", "byte order"),
    "q masked": ("q", np.ma.masked_invalid, "plain", "masked"),
    "q a list": ("q", lambda x: x.tolist(), "NumPy array or torch tensor", "list"),
    "k a list": ("k", lambda x: x.tolist(), "NumPy array or torch tensor", "list"),
    "v missing": ("v", lambda x: None, "NumPy array or torch tensor", "NoneType"),
    "q a number": ("q", lambda x: 3.0, "NumPy array or torch tensor", "float"),
    "q of one dimension": ("q", lambda x: x[0, 0, 0], "B, H, S, d", "(16,)"),
    "q of five dimensions": ("q", lambda x: x[None], "B, H, S, d", "(1, 2, 4, 5, 16)"),
    "q of no dimension": ("q", lambda x: x[0, 0, 0, 0, ...], "B, H, S, d", "()"),
    "k of another rank": ("k", lambda x: x[0], "4-dimensional", "(2, 7, 16)"),
    "q of another rank": ("q", lambda x: x[0], "3-dimensional", "(2, 2, 7, 16)", "k"),
    "q of another head dim": ("q", lambda x: x[..., :15], "16", "15"),
    "k of another head dim": ("k", lambda x: x[..., :8], "16", "8"),
    "v of another head dim": ("v", lambda x: x[..., :16], "24", "16"),
    "k of another batch": ("k", lambda x: x[:1], "batch 2", "batch 1"),
    "v of another batch": ("v", lambda x: np.concatenate([x, x]), "batch 2", "batch 4"),
    "v of other heads": ("v", lambda x: x[:, :1], "2 heads", "1 heads"),
    "v of other rows": ("v", lambda x: x[:, :, :6], "7 rows", "6 rows"),
    "k and v of heads that do not divide": ("q", lambda x: x[:, :3], "3", "2", "k"),
    "q of fewer heads than k": ("q", lambda x: x[:, :1], "1", "2", "k"),
    "k without heads": ("k", lambda x: x[:, :0], "0 heads", "2 heads", "v"),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_tensor_is_named_with_what_was_expected_and_what_came(kernel, what, draw):
    name, change, expected, got, *blamed = WRONG[what]
    arrays = dict(zip("qkv", draw(SHAPE, D, DV), strict=True))
    kernel.attention(**arrays)  # what is remembered of a right call must not let a wrong one pass
    arrays[name] = change(arrays[name])
    with pytest.raises(ArgumentError) as caught:
        kernel.attention(**arrays)
    error, text = caught.value, str(caught.value)
    assert error.tensor == (blamed[0] if blamed else name)
    assert text.startswith(f"{error.tensor} must be ")
    assert expected in error.expected
    assert got in error.got
    assert all(word in text for word in error.expected.split())
    assert error.got in text


WRONG_LENGTHS = {
    "of fractions": ([1.0, 2.0], "whole numbers", "float64"),
    "of bools": ([True, False], "whole numbers", "bool"),
    "of text": (["a", "b"], "whole numbers", "str"),
    "too few": ([1], "(2,)", "(1,)"),
    "too many": ([1, 2, 3], "(2,)", "(3,)"),
    "one for all": (3, "(2,)", "()"),
    "of two dimensions": ([[1, 2]], "(2,)", "(1, 2)"),
    "negative": ([-1, 2], "between 0 and 7", "-1"),
    "too long": ([0, 8], "between 0 and 7", "8"),
    "too long for 63 bits": (np.array([0, 2**63], np.uint64), "between 0 and 7", ""),
}


@pytest.mark.parametrize("what", WRONG_LENGTHS)
def test_wrong_seqlens_k(kernel, what, draw):
    lengths, expected, got = WRONG_LENGTHS[what]
    with pytest.raises(ArgumentError) as caught:
        kernel.attention(*draw(SHAPE, D, DV), seqlens_k=lengths)
    assert caught.value.tensor == "seqlens_k"
    assert expected in caught.value.expected
    assert got in caught.value.got


@pytest.mark.parametrize("lengths", [[3, 7], (3, 7), np.array([3, 7], np.int32), np.array([3, 7], np.uint8)], ids=repr)
def test_any_whole_numbers_will_do_for_seqlens_k(backend, lengths, draw, check):
    kernel = backend.build(D, "fp32", "bottom_right", DV)
    inputs = draw(SHAPE, D, DV)
    check(kernel.spec, inputs, *kernel(*inputs, return_lse=True, seqlens_k=lengths), seqlens_k=[3, 7])


def test_no_lengths_for_no_batch(backend, draw):
    kernel = backend.build(D, "fp32", "bottom_right", DV)
    assert kernel(*draw((0, 2, 1, 5, 7), D, DV), seqlens_k=[]).shape == (0, 2, 5, DV)


def test_seqlens_k_may_be_strided_and_are_not_written(cpu_backend, draw, check):
    kernel = cpu_backend.build(D, "fp32", "bottom_right", DV)
    inputs, buffer = draw(SHAPE, D, DV), np.array([7, 99, 3, 99], np.int64)
    check(kernel.spec, inputs, *kernel(*inputs, return_lse=True, seqlens_k=buffer[2::-2]), seqlens_k=[3, 7])
    assert buffer.tolist() == [7, 99, 3, 99]


@pytest.mark.parametrize("scale", [math.nan, math.inf, -math.inf, "big", [1.0], 1 + 1j], ids=repr)
def test_a_scale_that_is_no_finite_number(kernel, scale, draw):
    with pytest.raises(ArgumentError) as caught:
        kernel.attention(*draw(SHAPE, D, DV), softmax_scale=scale)
    assert caught.value.tensor == "softmax_scale"
    assert "finite" in caught.value.expected


@pytest.mark.parametrize("scale", [1, np.float32(0.5), np.float64(0.25), np.int64(2)], ids=repr)
def test_any_finite_number_will_do_for_a_scale(backend, scale, draw, check):
    kernel = backend.build(D, "fp64", "bottom_right", DV)
    inputs = draw(SHAPE, D, DV, dtype="fp64")
    check(kernel.spec, inputs, *kernel(*inputs, return_lse=True, softmax_scale=scale), softmax_scale=float(scale))


@pytest.mark.parametrize("layout", ["bhds", "BHSD", "", None, 3])
def test_an_unknown_layout(kernel, layout, draw):
    with pytest.raises(ArgumentError, match="layout"):
        kernel.attention(*draw(SHAPE, D, DV), layout=layout)


def test_a_wrong_call_leaves_the_kernel_as_it_was(kernel, draw, check):
    inputs = draw(SHAPE, D, DV)
    want = kernel(*inputs).tobytes()
    for _, change, *_ in WRONG.values():
        with pytest.raises(ArgumentError):
            kernel.attention(change(inputs[0]), change(inputs[1]), change(inputs[2]), layout="none")
    assert kernel(*inputs).tobytes() == want


# ---- flashgen.attention: dtype and head dims follow the tensors ----


@pytest.mark.parametrize(
    ("dtype", "causal"), [("fp16", False), ("bf16", True), ("fp32", "top_left"), ("fp64", "bottom_right")]
)
def test_attention_builds_what_the_tensors_ask_for(dtype, causal, draw):
    q, k, v = draw((2, 4, 2, 9, 11), 8, 5, dtype=dtype)
    options = {"return_lse": True, "softmax_scale": 0.3, "seqlens_k": [11, 4]}
    out, lse = flashgen.attention(q, k, v, causal=causal, **options)
    built = flashgen.build(8, dtype, causal=causal, d_v=5)
    for got, want in zip((out, lse), built(q, k, v, **options), strict=True):
        assert got.tobytes() == want.tobytes()
        assert got.dtype == want.dtype
    rows_first = (x.swapaxes(1, 2) for x in (q, k, v))
    other = flashgen.attention(*rows_first, causal=causal, layout="bshd", seqlens_k=[11, 4], softmax_scale=0.3)
    assert other.swapaxes(1, 2).tobytes() == out.tobytes()


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("q", lambda x: x.astype(np.int8)),
        ("q", lambda x: x.tolist()),
        ("q", lambda x: x[0, 0, 0]),
        ("k", lambda x: x.astype(np.float16)),
        ("v", lambda x: x[0]),
        ("v", lambda x: None),
        ("k", lambda x: x[..., :3]),
    ],
)
def test_attention_names_a_wrong_tensor_too(name, change, draw):
    arrays = dict(zip("qkv", draw((1, 1, 1, 2, 3), 8), strict=True))
    arrays[name] = change(arrays[name])
    with pytest.raises(ArgumentError) as caught:
        flashgen.attention(**arrays)
    assert caught.value.tensor == name


def test_a_head_dim_of_zero_is_an_error_of_this_package(draw):
    with pytest.raises(FlashgenError):
        flashgen.attention(*draw((1, 1, 1, 2, 3), 0))
