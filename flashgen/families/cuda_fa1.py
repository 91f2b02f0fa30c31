"""`cuda_fa1`: Algorithm 1 of FlashAttention as printed, on a GPU.

K/V blocks in the outer loop, Q blocks in the inner one; O, l and m live in HBM and are updated block by
block (lines 11 to 13). One CTA works on one (batch, head), as in the paper, or on one of several ranges
of its query rows; a row meets the K/V blocks in the same order either way, so the bits are the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flashgen.families.cuda_common import (
    LANES,
    WarpRowFamily,
    conflict_free_stride,
    padded_stride,
    strip_constants,
)
from flashgen.launch_plan import LaunchPlan, LaunchStep
from flashgen.spec import AttentionSpec
from flashgen.target import Target
from flashgen.tile_plan import Footprint, TilePlan


class CudaFa1(WarpRowFamily):
    """Algorithm 1 on a GPU."""

    name = "cuda_fa1"
    algorithm = "fa1"
    priority = 1

    def footprint(self, spec: AttentionSpec, br: int, bc: int, knobs: Any) -> Footprint:
        """Q_i, K_j, V_j in the dtype, O_i, S_ij, l_i, m_i in the compute type (lines 6, 8 and 9)."""
        size, compute = spec.dtype.size, spec.dtype.compute_size
        return Footprint((
            ("Q", br * padded_stride(spec, spec.head_dim) * size),
            ("K", bc * conflict_free_stride(spec, spec.head_dim) * size),
            ("V", bc * spec.head_dim_v * size),
            ("O", br * spec.head_dim_v * compute),
            ("S", br * bc * compute),
            ("l,m", 2 * br * compute),
        ))  # fmt: skip

    def launch_plan(self, spec: AttentionSpec, plan: TilePlan) -> LaunchPlan:
        """One CTA for each (batch, head) and range of query rows; enough ranges to give every SM one.

        The workspace holds O, l and m of every row between the K/V blocks.
        """
        step = LaunchStep(
            self.entry, ("batch * num_heads * row_ranges", "1", "1"), plan.knobs.warps * LANES, plan.footprint.total
        )
        row_bytes = (spec.head_dim_v + 2) * spec.dtype.compute_size
        return LaunchPlan(
            (step,),
            workspace_bytes=f"batch * num_heads * seqlen_q * {row_bytes}",
            row_ranges=f"min(ceil_div(seqlen_q, {plan.br}), ceil_div(sm_count, batch * num_heads))",
        )

    def constants(self, spec: AttentionSpec, plan: TilePlan, target: Target) -> Mapping[str, Any]:
        """Strides in shared memory, and how many values a lane holds in registers."""
        return strip_constants(spec, plan.br, plan.bc, plan.knobs.warps)
