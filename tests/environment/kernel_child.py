"""What the child processes of these tests run: one small kernel, built, called and checked."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

import flashgen
from flashgen.reference import attention_reference

Array = NDArray[np.float32]


def build(**changes: Any) -> flashgen.Attention:
    """A kernel that compiles fast."""
    request = {"d": 8, "dtype": "fp32", "algorithm": "standard", "br": 8, "bc": 16}
    return flashgen.build(**request | changes)  # type: ignore[arg-type]


def inputs(head_dim: int) -> tuple[Array, Array, Array]:
    """Enough heads for every thread to get some."""
    rng = np.random.default_rng(7)
    q, k, v = (rng.standard_normal((2, 4, 19, head_dim), dtype=np.float32) for _ in range(3))
    return q, k, v


def digest(attn: flashgen.Attention) -> str:
    """The bits of the result."""
    return hashlib.sha256(attn(*inputs(attn.spec.head_dim)).tobytes()).hexdigest()


def check(attn: flashgen.Attention) -> None:
    """Raises AssertionError unless the kernel computes attention."""
    q, k, v = inputs(attn.spec.head_dim)
    expected, _ = attention_reference(q, k, v)
    np.testing.assert_allclose(attn(q, k, v), expected, rtol=0, atol=4e-6)
