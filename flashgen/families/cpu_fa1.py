"""`cpu_fa1`: Algorithm 1 of FlashAttention as printed, for one thread per (batch, head).

K/V blocks in the outer loop, Q blocks in the inner one; O, l and m live in memory and are updated block
by block (lines 11 to 13). It is here to be read and to be right; `cpu_fa2` is the fast one.
"""

from __future__ import annotations

from typing import Any

from flashgen.families.cpu_common import PlainCpuFamily
from flashgen.spec import AttentionSpec
from flashgen.tile_plan import Footprint, TilePlan


class CpuFa1(PlainCpuFamily):
    """Algorithm 1 on the CPU."""

    name = "cpu_fa1"
    algorithm = "fa1"
    priority = 1

    def footprint(self, spec: AttentionSpec, br: int, bc: int, knobs: Any) -> Footprint:
        """Q_i, K_j, V_j, O_i, S_ij, l_i and m_i, all in the compute type (lines 6, 8 and 9)."""
        size = spec.dtype.compute_size
        return Footprint((
            ("Q", br * spec.head_dim * size),
            ("K", bc * spec.head_dim * size),
            ("V", bc * spec.head_dim_v * size),
            ("O", br * spec.head_dim_v * size),
            ("S", br * bc * size),
            ("l,m", 2 * br * size),
        ))  # fmt: skip

    def workspace_bytes(self, spec: AttentionSpec, plan: TilePlan, seqlen_q: int, seqlen_k: int) -> int:
        """The tiles, and O, l and m of one head in memory (line 2)."""
        return plan.footprint.total + seqlen_q * (spec.head_dim_v + 2) * spec.dtype.compute_size
