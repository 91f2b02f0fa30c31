"""The oracle: attention in float64 NumPy, written to be read and to be right, not to be fast.

Every array is (batch, heads, length, dim). Query row i and key j of a head meet in the logit
scale * (q_i . k_j); `visible_keys` says which of them count. One head is worked on at a time, so the
memory in use is that of one seqlen_q x seqlen_k matrix.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from flashgen.dtypes import DType
from flashgen.spec import Causal

Array = NDArray[Any]
Float64 = NDArray[np.float64]
Bools = NDArray[np.bool_]

Intermediates = Literal["fp32", "storage"]


def visible_keys(seqlen_q: int, seqlen_k: int, causal: Causal = Causal.NONE, num_valid: int | None = None) -> Bools:
    """Which keys each query row sees, as a (seqlen_q, seqlen_k) mask.

    Args:
        seqlen_q: query rows.
        seqlen_k: rows of K and V.
        causal: the mask.
        num_valid: keys that exist (``seqlens_k[b]``); the rest is padding. None: all of them.
    """
    valid = seqlen_k if num_valid is None else num_valid
    i, j = np.arange(seqlen_q)[:, None], np.arange(seqlen_k)[None, :]
    exists = np.broadcast_to(j < valid, (seqlen_q, seqlen_k))
    if causal is Causal.NONE:
        return exists
    last_visible = i if causal is Causal.TOP_LEFT else i + valid - seqlen_q
    return exists & (j <= last_visible)


def attention_reference(
    q: Array,
    k: Array,
    v: Array,
    *,
    causal: Causal = Causal.NONE,
    softmax_scale: float | None = None,
    seqlens_k: ArrayLike | None = None,
) -> tuple[Float64, Float64]:
    """Attention and its log-sum-exp in float64.

    A row that sees no key gives out 0 and lse -inf. A NaN or inf that a row sees shows in that row as
    IEEE arithmetic has it; one that it does not see, in K or V, leaves it alone.

    Args:
        q: (B, Hq, Sq, d), of any float type.
        k: (B, Hkv, Sk, d); query head h uses key and value head h // (Hq / Hkv).
        v: (B, Hkv, Sk, dv).
        causal: the mask.
        softmax_scale: factor of q.k; None for 1 / sqrt(d).
        seqlens_k: (B,) valid keys of each batch entry; None for all.

    Returns:
        out (B, Hq, Sq, dv) and lse (B, Hq, Sq), the natural log of the sum of exp(scaled logits).
    """
    scale = default_scale(q.shape[-1]) if softmax_scale is None else softmax_scale
    out = np.zeros((*q.shape[:3], v.shape[-1]))
    lse = np.full(q.shape[:3], -np.inf)
    # Non-finite inputs are a legal case here, not something to warn about.
    with np.errstate(invalid="ignore", over="ignore"):
        for head in _heads(q, k, v, causal, seqlens_k):
            q64, k64, v64 = (x.astype(np.float64) for x in (head.q, head.k, head.v))
            p, lse[head.index] = softmax(np.where(head.visible, scale * (q64 @ k64.T), -np.inf))
            out[head.index] = weighted_rows(p, v64, head.visible)
    return out, lse


def softmax(s: Float64) -> tuple[Float64, Float64]:
    """Row softmax of logits and their log-sum-exp; a row of only -inf gives weights 0 and lse -inf."""
    row_max: Array = np.max(s, axis=-1, initial=-np.inf)
    shift = np.where(row_max == -np.inf, 0.0, row_max)  # never (-inf) - (-inf)
    p = np.exp(s - shift[..., None])
    row_sum = p.sum(axis=-1)
    nothing_seen = row_sum == 0
    p /= np.where(nothing_seen, 1.0, row_sum)[..., None]
    return p, np.where(nothing_seen, -np.inf, shift + np.log(np.where(nothing_seen, 1.0, row_sum)))


def weighted_rows(p: Array, v: Array, visible: Bools) -> Array:
    """P V, where a non-finite row of V counts only for the rows of P that see it (no 0 * NaN)."""
    bad: Bools = np.logical_not(np.isfinite(v).all(axis=-1))
    out: Array = p @ np.where(bad[:, None], v.dtype.type(0), v)
    for i in np.flatnonzero((visible & bad).any(axis=-1)):
        out[i] = p[i, visible[i]] @ v[visible[i]]
    return out


def merge(out_a: Array, lse_a: Array, out_b: Array, lse_b: Array) -> tuple[Float64, Float64]:
    """Joins attention over two disjoint sets of keys into attention over both, in float64.

    An empty set (out 0, lse -inf) changes nothing, and two empty sets stay empty.

    Args:
        out_a: (..., dv) output over the first set.
        lse_a: (...) its log-sum-exp.
        out_b: (..., dv) output over the second set.
        lse_b: (...) its log-sum-exp.
    """
    a, b = lse_a.astype(np.float64), lse_b.astype(np.float64)
    larger = np.maximum(a, b)
    shift = np.where(larger == -np.inf, 0.0, larger)  # never (-inf) - (-inf)
    weight_a, weight_b = np.exp(a - shift), np.exp(b - shift)
    total = weight_a + weight_b
    divisor = np.where(total == 0, 1.0, total)
    out = (weight_a[..., None] * out_a + weight_b[..., None] * out_b) / divisor[..., None]
    return out, np.where(total == 0, -np.inf, shift + np.log(divisor))


def math_path(
    q: Array,
    k: Array,
    v: Array,
    dtype: DType,
    *,
    causal: Causal = Causal.NONE,
    softmax_scale: float | None = None,
    seqlens_k: ArrayLike | None = None,
    intermediates: Intermediates = "fp32",
) -> Array:
    """The unfused textbook computation in limited precision: S, then P = softmax(S), then P V.

    It is the yardstick of what a dtype can give. ``intermediates="fp32"`` keeps scaled q and k, S and P
    in float32 and rounds the result once, as torch's math backend does by default; ``"storage"`` rounds
    each of them to ``dtype``, as that backend does with ``allow_fp16_bf16_reduction_math_sdp(True)``.
    Both scale q and k by sqrt(scale) each, and sum products in float32, as torch does.
    """
    storage = dtype.numpy()
    scale = default_scale(q.shape[-1]) if softmax_scale is None else softmax_scale
    root = math.sqrt(abs(scale))

    def kept(x: Array) -> Array:
        return x if intermediates == "fp32" else x.astype(storage).astype(np.float32)

    out = np.zeros((*q.shape[:3], v.shape[-1]), storage)
    with np.errstate(invalid="ignore", over="ignore"):
        for head in _heads(q, k, v, causal, seqlens_k):
            q32, k32, v32 = (x.astype(np.float32) for x in (head.q, head.k, head.v))
            q_scaled = kept(q32 * np.float32(math.copysign(root, scale)))
            s = kept(q_scaled @ kept(k32 * np.float32(root)).T)
            p, _ = softmax(np.where(head.visible, s, np.float32(-np.inf)))
            out[head.index] = weighted_rows(kept(p), v32, head.visible).astype(storage)
    return out


def default_scale(head_dim: int) -> float:
    """1 / sqrt(d)."""
    return 1.0 / math.sqrt(head_dim)


@dataclass(frozen=True, slots=True)
class _Head:
    """One (batch, query head): its matrices and its mask."""

    index: tuple[int, int]
    q: Array
    k: Array
    v: Array
    visible: Bools


def _heads(q: Array, k: Array, v: Array, causal: Causal, seqlens_k: ArrayLike | None) -> Iterator[_Head]:
    batch, num_heads, seqlen_q, _ = q.shape
    seqlen_k = k.shape[2]
    group = num_heads // k.shape[1] if k.shape[1] else 1
    valid = np.full(batch, seqlen_k) if seqlens_k is None else np.asarray(seqlens_k)
    for b in range(batch):
        visible = visible_keys(seqlen_q, seqlen_k, causal, int(valid[b]))
        for h in range(num_heads):
            yield _Head((b, h), q[b, h], k[b, h // group], v[b, h // group], visible)
