"""bf16 near 2^-126: what CPUs that multiply bf16 as it is make of subnormal numbers, and what others make of them."""

from __future__ import annotations

import numpy as np
import pytest

import flashgen
from flashgen.reference import attention_reference
from flashgen.runtime.device import runs_here
from flashgen.target import parse_target

D = 16
SMALLEST_NORMAL = 2.0**-126
NATIVE, WIDENED = "cpu:x86-64-v4-bf16", "cpu:x86-64-v4"

pytestmark = pytest.mark.skipif(not runs_here(parse_target(NATIVE)), reason="this CPU has no bf16 products")


def out_of(target, q, k, v, **options):
    return flashgen.build(D, "bf16", target=target)(q, k, v, **options).astype(np.float64)


@pytest.fixture
def inputs(draw):
    return draw((1, 1, 1, 33, 70), D, dtype="bf16")


def scaled(x, exponent):
    return (x.astype(np.float64) * 2.0**exponent).astype(x.dtype)


def test_values_down_to_the_smallest_normal_number_count_in_full(inputs):
    q, k, v = inputs
    v = np.copysign(np.maximum(abs(scaled(v, -110)), SMALLEST_NORMAL).astype(v.dtype), v)
    want, _ = attention_reference(q, k, v.astype(np.float64))
    error = abs(out_of(NATIVE, q, k, v) - want).max()
    assert error <= 2.0**-8 * abs(v.astype(np.float64)).max() + v.shape[2] * SMALLEST_NORMAL


def test_subnormal_values_are_lost_by_at_most_the_smallest_normal_number(inputs):
    q, k, v = inputs
    v = scaled(v, -130)
    assert 0 < abs(v.astype(np.float64)).max() < SMALLEST_NORMAL
    assert abs(out_of(NATIVE, q, k, v)).max() == 0
    assert abs(out_of(WIDENED, q, k, v)).max() > 0


def test_subnormal_queries_and_keys_are_zeros_whatever_the_scale(inputs):
    """A scale that would bring their products back finds nothing: every key weighs the same."""
    q, k, v = inputs
    q, k, scale = scaled(q, -131), scaled(k, 100), 2.0**31
    want, _ = attention_reference(q, k, v.astype(np.float64), softmax_scale=scale)
    mean = v.astype(np.float64).mean(axis=2, keepdims=True)
    assert abs(want - mean).max() > 0.1
    assert abs(out_of(WIDENED, q, k, v, softmax_scale=scale) - want).max() < 0.02
    assert abs(out_of(NATIVE, q, k, v, softmax_scale=scale) - mean).max() < 0.02
