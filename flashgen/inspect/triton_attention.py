"""Attention in Triton: what another compiler makes of the same problem, tile and warps, to hold SASS against.

It is written to Triton's advantage: blocks that all rows see whole are met first, in a loop without masks.
"""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators

from __future__ import annotations

import triton
import triton.language as tl

LOG2_E = tl.constexpr(1.4426950408889634)
LN_2 = tl.constexpr(0.6931471805599453)


@triton.jit
def meet_block(
    q_tile, k, v, k_row, v_row, m, row_sum, acc, rows, first, seqlen_k, scale_log2,
    BC: tl.constexpr, D: tl.constexpr, DV: tl.constexpr, CAUSAL: tl.constexpr, MASKED: tl.constexpr,
):  # fmt: skip
    """One block of keys; returns the rows' maxima (scaled), sums and outputs."""
    keys = first + tl.arange(0, BC)
    k_places = k + keys[None, :] * k_row + tl.arange(0, D)[:, None]
    v_places = v + keys[:, None] * v_row + tl.arange(0, DV)[None, :]
    if MASKED:
        k_tile = tl.load(k_places, mask=keys[None, :] < seqlen_k, other=0.0)
        v_tile = tl.load(v_places, mask=keys[:, None] < seqlen_k, other=0.0)
    else:
        k_tile = tl.load(k_places)
        v_tile = tl.load(v_places)
    s = tl.dot(q_tile, k_tile)
    if MASKED:
        visible = keys[None, :] < seqlen_k
        if CAUSAL:
            visible = visible & (keys[None, :] <= rows[:, None])
        s = tl.where(visible, s, float("-inf"))
    m_new = tl.maximum(m, tl.max(s, 1) * scale_log2)
    p = tl.exp2(s * scale_log2 - m_new[:, None])
    alpha = tl.exp2(m - m_new)
    row_sum = row_sum * alpha + tl.sum(p, 1)
    acc = tl.dot(p.to(v_tile.dtype), v_tile, acc * alpha[:, None])
    return m_new, row_sum, acc


@triton.jit
def attention(
    q, k, v, out, lse, q_row, k_row, v_row, out_row, seqlen_q, seqlen_k, scale,
    BR: tl.constexpr, BC: tl.constexpr, D: tl.constexpr, DV: tl.constexpr, CAUSAL: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """Forward attention of (heads, seqlen, dim) arrays with strides between rows; CAUSAL aligns at the top left."""
    tile, head = tl.program_id(0), tl.program_id(1).to(tl.int64)
    rows = tile * BR + tl.arange(0, BR)
    q += head * seqlen_q * q_row
    k += head * seqlen_k * k_row
    v += head * seqlen_k * v_row
    out += head * seqlen_q * out_row
    inside = rows < seqlen_q
    q_tile = tl.load(q + rows[:, None] * q_row + tl.arange(0, D)[None, :], mask=inside[:, None], other=0.0)
    m = tl.full([BR], float("-inf"), tl.float32)
    row_sum = tl.zeros([BR], tl.float32)
    acc = tl.zeros([BR, DV], tl.float32)
    scale_log2 = scale * LOG2_E
    end = tl.minimum(seqlen_k, (tile + 1) * BR) if CAUSAL else seqlen_k
    seen_by_all = (tl.minimum(seqlen_k, tile * BR) if CAUSAL else seqlen_k) // BC * BC
    for first in tl.range(0, seen_by_all, BC, num_stages=STAGES):
        m, row_sum, acc = meet_block(
            q_tile, k, v, k_row, v_row, m, row_sum, acc, rows, first, seqlen_k, scale_log2, BC, D, DV, CAUSAL, False
        )
    for first in tl.range(seen_by_all, end, BC, num_stages=STAGES):
        m, row_sum, acc = meet_block(
            q_tile, k, v, k_row, v_row, m, row_sum, acc, rows, first, seqlen_k, scale_log2, BC, D, DV, CAUSAL, True
        )
    tl.store(lse + head * seqlen_q + rows, (m + tl.log2(row_sum)) * LN_2, mask=inside)
    places = out + rows[:, None] * out_row + tl.arange(0, DV)[None, :]
    tl.store(places, (acc / row_sum[:, None]).to(out.dtype.element_ty), mask=inside[:, None])
