"""What verification puts into q, k and v: ordinary data, and data that breaks careless kernels.

Every maker returns float64 arrays (B, Hq, Sq, d), (B, Hkv, Sk, d), (B, Hkv, Sk, dv) that are then
rounded to the kernel's dtype. The right answer must be beyond dispute, so the adversarial makers leave
fp32 no room to differ: their dot products are sums of few-bit integers times one power of two, exact in
any order of summation, however large the logits are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from flashgen.dtypes import DType

if TYPE_CHECKING:
    from flashgen.verification.cases import Case

Array = NDArray[Any]
Triple = tuple[Array, Array, Array]
Maker = Callable[[np.random.Generator, "Case", DType], Triple]

# An fp32 sum of multiples of `step` is exact while it stays below 2^24 steps.
_EXACT_BITS = 22
_FEW = 3


def gaussian(rng: np.random.Generator, case: Case, dtype: DType) -> Triple:
    """N(0, 1) everywhere."""
    q_shape, k_shape, v_shape = case.shapes
    return rng.standard_normal(q_shape), rng.standard_normal(k_shape), rng.standard_normal(v_shape)


def lattice(rng: np.random.Generator, case: Case, dtype: DType) -> Triple:
    """Logits that are small integers times a step, around `case.offset`; V is N(0, 1).

    The last dim carries the offset, the others the integers. Where the offset exceeds 2^22 the step
    grows with it, so that q.k stays exact in fp32.
    """
    return _lattice(rng, case, step=max(_exponent(case.offset) - _EXACT_BITS, 0))


def _lattice(rng: np.random.Generator, case: Case, step: int) -> Triple:
    """`lattice` with steps of 2^step."""
    q_shape, k_shape, v_shape = case.shapes
    exponent = _exponent(case.offset)
    v = rng.standard_normal(v_shape)
    if case.head_dim == 1:  # k = +-(128 + {0..3}) * 2^n holds both, exact in the 8 bits of bf16
        base = 128.0 if case.offset else 0.0
        unit = 2.0 ** (exponent - exponent // 2 - 7) if case.offset else 1.0
        k = np.copysign(unit, case.offset) * (base + rng.integers(0, 4, k_shape))
        return np.full(q_shape, 2.0 ** (exponent // 2)), k, v
    q = rng.integers(-1, 2, q_shape) * 2.0 ** (step - step // 2)
    k = rng.integers(-1, 2, k_shape) * 2.0 ** (step // 2)
    q[..., -1] = 2.0 ** (exponent - exponent // 2)
    k[..., -1] = np.copysign(2.0 ** (exponent // 2), case.offset) if case.offset else 0.0
    return q, k, v


def rising(rng: np.random.Generator, case: Case, dtype: DType) -> Triple:
    """Logits that grow with the key: every tile moves the maximum, and q.k is exact."""
    q_shape, k_shape, v_shape = case.shapes
    q, k = np.zeros(q_shape), np.zeros(k_shape)
    q[..., 0] = 1.0
    k[..., 0] = np.arange(case.seqlen_k)
    return q, k, rng.standard_normal(v_shape)


def falling(rng: np.random.Generator, case: Case, dtype: DType) -> Triple:
    """Logits that shrink with the key: the first tile has every maximum."""
    q, k, v = rising(rng, case, dtype)
    return q, k[:, :, ::-1], v


def late_maximum(rng: np.random.Generator, case: Case, dtype: DType) -> Triple:
    """All keys but the last few lie at `case.offset`, far below: what came before must vanish."""
    return _few_above(rng, case, slice(-_FEW, None))


def early_maximum(rng: np.random.Generator, case: Case, dtype: DType) -> Triple:
    """All keys but the first few lie at `case.offset`, far below: what comes after must vanish."""
    return _few_above(rng, case, slice(None, _FEW))


def _few_above(rng: np.random.Generator, case: Case, few: slice) -> Triple:
    """A few keys with small integer logits; all others are equal, so that their logits tie exactly."""
    q, k, v = _lattice(rng, case, step=0)
    above = k[:, :, few].copy()
    above[..., -1] = 0.0
    k[..., :-1] = 0.0
    k[..., -1] = k[..., -1:, -1]
    k[:, :, few] = above
    return q, k, v


def equal_keys(rng: np.random.Generator, case: Case, dtype: DType) -> Triple:
    """One key, repeated: every row is the mean of the V that it sees."""
    q, k, v = gaussian(rng, case, dtype)
    return q, np.broadcast_to(k[:, :, :1], k.shape).copy(), v


def equal_values(rng: np.random.Generator, case: Case, dtype: DType) -> Triple:
    """One row of V, repeated: every row that sees a key returns it."""
    q, k, v = gaussian(rng, case, dtype)
    return q, k, np.broadcast_to(v[:, :, :1], v.shape).copy()


def subnormal_values(rng: np.random.Generator, case: Case, dtype: DType) -> Triple:
    """V below the smallest normal number of the dtype."""
    q, k, v = gaussian(rng, case, dtype)
    return q, k, v * 2.0 ** (_min_exponent(dtype) - 4)


def subnormal_queries(rng: np.random.Generator, case: Case, dtype: DType) -> Triple:
    """Q below the smallest normal number; large keys and a large scale bring the logits back to N(0, 1)."""
    q, k, v = gaussian(rng, case, dtype)
    return q * 2.0 ** (_min_exponent(dtype) - 4), k * 2.0 ** SUBNORMAL_KEY_EXPONENT[dtype.name], v


SUBNORMAL_KEY_EXPONENT = {"fp16": 12, "fp32": 120, "fp64": 1015}


def subnormal_scale(head_dim: int, dtype: DType) -> float:
    """The softmax_scale that makes the logits of `subnormal_queries` N(0, 1)."""
    return float(2.0 ** (4 - _min_exponent(dtype) - SUBNORMAL_KEY_EXPONENT[dtype.name]) / np.sqrt(head_dim))


def nan_query(rng: np.random.Generator, case: Case, dtype: DType) -> Triple:
    """NaN in one query row: that row is NaN, its neighbours are not."""
    q, k, v = gaussian(rng, case, dtype)
    q[0, 0, case.seqlen_q // 2] = np.nan
    return q, k, v


def nan_key(rng: np.random.Generator, case: Case, dtype: DType) -> Triple:
    """NaN in one key: rows that see it are NaN, rows that the mask keeps from it are not."""
    q, k, v = gaussian(rng, case, dtype)
    k[0, 0, case.seqlen_k // 2] = np.nan
    return q, k, v


def nan_value(rng: np.random.Generator, case: Case, dtype: DType) -> Triple:
    """NaN and inf in V's first row of one head: all rows of that head show it, no other head does."""
    q, k, v = gaussian(rng, case, dtype)
    v[0, 0, 0] = np.where(np.arange(case.head_dim_v) % 2, np.inf, np.nan)
    return q, k, v


MAKERS: dict[str, Maker] = {
    maker.__name__: maker
    for maker in (
        gaussian,
        lattice,
        rising,
        falling,
        late_maximum,
        early_maximum,
        equal_keys,
        equal_values,
        subnormal_values,
        subnormal_queries,
        nan_query,
        nan_key,
        nan_value,
    )
}


def _exponent(offset: float) -> int:
    return int(np.log2(abs(offset))) if offset else 0


def _min_exponent(dtype: DType) -> int:
    return {"fp16": -14, "bf16": -126, "fp32": -126, "fp64": -1022}[dtype.name]
