"""`cpu_standard`: attention as the textbook has it, in three passes with S and P in memory.

The baseline that FlashAttention is measured against: it moves S and P, N x N each, through memory.
"""

from __future__ import annotations

from typing import Any

from flashgen.families.cpu_common import PlainCpuFamily
from flashgen.spec import AttentionSpec
from flashgen.tile_plan import Footprint, TilePlan


class CpuStandard(PlainCpuFamily):
    """Standard attention on the CPU."""

    name = "cpu_standard"
    algorithm = "standard"

    def footprint(self, spec: AttentionSpec, br: int, bc: int, knobs: Any) -> Footprint:
        """The blocks that passes 1 and 3 work on: Q, K and S, then P (in S's place), V and O."""
        size = spec.dtype.compute_size
        return Footprint((
            ("Q", br * spec.head_dim * size),
            ("K", bc * spec.head_dim * size),
            ("V", bc * spec.head_dim_v * size),
            ("O", br * spec.head_dim_v * size),
            ("S", br * bc * size),
        ))  # fmt: skip

    def workspace_bytes(self, spec: AttentionSpec, plan: TilePlan, seqlen_q: int, seqlen_k: int) -> int:
        """The blocks, and S and P of one head in memory."""
        return plan.footprint.total + 2 * seqlen_q * seqlen_k * spec.dtype.compute_size
