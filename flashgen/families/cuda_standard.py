"""`cuda_standard`: attention as the textbook has it, in three passes with S and P in global memory.

The baseline that FlashAttention is measured against: it moves S and P, N x N each, through HBM. Each pass
is a kernel of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flashgen.families.base import TileGrid
from flashgen.families.cuda_common import (
    LANES,
    MAX_STRIP,
    WarpKnobs,
    WarpRowFamily,
    conflict_free_stride,
    padded_stride,
    strip_constants,
)
from flashgen.launch_plan import LaunchPlan, LaunchStep
from flashgen.spec import AttentionSpec
from flashgen.target import Target
from flashgen.tile_plan import Footprint, TilePlan


class CudaStandard(WarpRowFamily):
    """Standard attention on a GPU."""

    name = "cuda_standard"
    algorithm = "standard"

    def footprint(self, spec: AttentionSpec, br: int, bc: int, knobs: Any) -> Footprint:
        """The tiles of the pass that needs more: Q_i and K_j in pass 1, or P_ij and V_j in pass 3."""
        scores, output = _score_tiles(spec, br, bc), _output_tiles(spec, br, bc)
        return scores if scores.total > output.total else output

    def grid(self, spec: AttentionSpec, target: Target) -> TileGrid:
        """As many rows as the warps can hold O for in registers, since pass 3 goes over all keys."""
        grid = super().grid(spec, target)
        most = self.knobs(spec, target, 0, 0).warps * MAX_STRIP[spec.dtype.compute_size]
        return TileGrid(br=tuple(br for br in grid.br if br <= most), bc=grid.bc)

    def knob_choices(self, spec: AttentionSpec, target: Target, br: int, bc: int) -> tuple[WarpKnobs, ...]:
        """As many warps as hold all rows of the tile at once, one strip each."""
        most = MAX_STRIP[spec.dtype.compute_size]
        return tuple(knobs for knobs in super().knob_choices(spec, target, br, bc) if br // knobs.warps <= most)

    def default_tile(self, spec: AttentionSpec, target: Target) -> tuple[int, int]:
        """64 x 64, or the most rows that the grid has."""
        return self.grid(spec, target).br[-1], 64

    def launch_plan(self, spec: AttentionSpec, plan: TilePlan) -> LaunchPlan:
        """Three launches. The workspace holds S and P of every head."""
        threads = plan.knobs.warps * LANES
        row_blocks = f"batch * num_heads * ceil_div(seqlen_q, {plan.br})"
        rows = f"ceil_div(batch * num_heads * seqlen_q, {plan.knobs.warps})"
        scores = _score_tiles(spec, plan.br, plan.bc).total
        output = _output_tiles(spec, plan.br, plan.bc).total
        return LaunchPlan(
            (
                LaunchStep(
                    f"{self.entry}_scores", (row_blocks, f"ceil_div(seqlen_k, {plan.bc})", "1"), threads, scores
                ),
                LaunchStep(f"{self.entry}_softmax", (rows, "1", "1"), threads, 0),
                LaunchStep(f"{self.entry}_output", (row_blocks, "1", "1"), threads, output),
            ),
            workspace_bytes=f"batch * num_heads * seqlen_q * seqlen_k * {2 * spec.dtype.compute_size}",
        )

    def constants(self, spec: AttentionSpec, plan: TilePlan, target: Target) -> Mapping[str, Any]:
        """The strip's constants, and the bytes of each pass."""
        return {
            **strip_constants(spec, plan.br, plan.bc, plan.knobs.warps),
            "score_bytes": _score_tiles(spec, plan.br, plan.bc).total,
            "output_bytes": _output_tiles(spec, plan.br, plan.bc).total,
        }


def _score_tiles(spec: AttentionSpec, br: int, bc: int) -> Footprint:
    size = spec.dtype.size
    return Footprint((
        ("Q", br * padded_stride(spec, spec.head_dim) * size),
        ("K", bc * conflict_free_stride(spec, spec.head_dim) * size),
    ))  # fmt: skip


def _output_tiles(spec: AttentionSpec, br: int, bc: int) -> Footprint:
    return Footprint((
        ("P", br * bc * spec.dtype.compute_size),
        ("V", bc * spec.head_dim_v * spec.dtype.size),
    ))  # fmt: skip
