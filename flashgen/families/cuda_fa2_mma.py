"""`cuda_fa2_mma`: FlashAttention-2 on tensor cores, by mma.sync, for every GPU since Turing.

A warp owns 16 or 32 query rows and meets whole tiles of K and V, so that a row's softmax stays in four
lanes; S, P and O are registers. Head dims are taken as they are: nothing is padded, neither in global nor
in shared memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flashgen.families.base import TileGrid
from flashgen.families.cuda_common import LANES
from flashgen.families.cuda_mma_common import MmaFamily, has_cp_async, mma_constants, row_bytes
from flashgen.families.cuda_mma_tiles import MmaKnobs, choices, default_tile, most_keys, thrifty_knobs, usual_knobs
from flashgen.launch_plan import LaunchPlan, LaunchStep
from flashgen.spec import AttentionSpec
from flashgen.target import DeviceLimits, Target
from flashgen.tile_plan import Footprint, TilePlan


class CudaFa2Mma(MmaFamily):
    """FlashAttention-2 on tensor cores."""

    name = "cuda_fa2_mma"
    algorithm = "fa2"
    priority = 10

    def footprint(self, spec: AttentionSpec, br: int, bc: int, knobs: MmaKnobs) -> Footprint:
        """Q_i and each stage's K_j and V_j in the dtype, rows in whole chunks of 16 bytes.

        At the end O_i lies over them, and where Q_i goes on into registers, K and V lie over it: what is larger
        counts.
        """
        row, row_v = row_bytes(spec, spec.head_dim), row_bytes(spec, spec.head_dim_v)
        q, o = br * row, br * row_v
        blocks = (("K", knobs.stages * bc * row), ("V", knobs.stages * bc * row_v))
        tiles = blocks if knobs.q_in_registers else (("Q", q), *blocks)
        largest, name = max((q, "Q"), (o, "O"))
        overhang = max(largest - sum(size for _, size in tiles), 0)
        return Footprint((*tiles, (name, overhang)) if overhang else tiles)

    def grid(self, spec: AttentionSpec, target: Target) -> TileGrid:
        """Warps in powers of two, and as many keys as S fits registers for."""
        return TileGrid(br=(16, 32, 64, 128), bc=tuple(range(16, most_keys(spec, target) + 1, 16)))

    def default_tile(self, spec: AttentionSpec, target: Target) -> tuple[int, int]:
        """From the table of published and modelled tiles."""
        return default_tile(spec, target)

    def small_tile(self, spec: AttentionSpec, target: Target) -> tuple[int, int]:
        """For few query rows: more CTAs, and less of a tile idle."""
        br, bc = default_tile(spec, target)
        return min(br, 64), bc

    def knobs(self, spec: AttentionSpec, target: Target, br: int, bc: int) -> MmaKnobs:
        """The table's, for its tiles; for others what registers allow."""
        return usual_knobs(spec, target, br, bc)

    def thrifty_knobs(self, spec: AttentionSpec, target: Target, br: int, bc: int) -> MmaKnobs:
        """One stage."""
        return thrifty_knobs(spec, target, br, bc)

    def knob_choices(self, spec: AttentionSpec, target: Target, br: int, bc: int) -> tuple[MmaKnobs, ...]:
        """16 or 32 rows for a warp, Q in registers or not, one stage or two: whatever registers may hold."""
        return choices(spec, target, br, bc)

    def candidates(self, spec: AttentionSpec, target: Target, limits: DeviceLimits) -> tuple[tuple[int, int], ...]:
        """Without the smallest tiles, which small budgets get: their knobs alone would be a third of all plans."""
        tiles = super().candidates(spec, target, limits)
        return tuple((br, bc) for br, bc in tiles if min(br, bc) >= 32)

    def describe_knobs(self, knobs: MmaKnobs) -> str:
        """Rows in warps, where Q is, and stages if there are more than one."""
        queries = "registers" if knobs.q_in_registers else "shared memory"
        stages = f", {knobs.stages} stages" if knobs.stages > 1 else ""
        warps = "1 warp" if knobs.warps == 1 else f"{knobs.warps} warps"
        return f"{warps} of {knobs.rows} rows, Q in {queries}{stages}"

    def launch_plan(self, spec: AttentionSpec, plan: TilePlan) -> LaunchPlan:
        """One CTA for each tile of query rows."""
        grid = f"batch * num_heads * ceil_div(seqlen_q, {plan.br})"
        return LaunchPlan((LaunchStep(self.entry, (grid, "1", "1"), plan.knobs.warps * LANES, plan.footprint.total),))

    def constants(self, spec: AttentionSpec, plan: TilePlan, target: Target) -> Mapping[str, Any]:
        """Which instructions the architecture has, where Q is, and how K and V come."""
        return {
            **mma_constants(target),
            "copies": "async" if has_cp_async(target) else "registers",
            "queries": "registers" if plan.knobs.q_in_registers else "shared",
            "stream": "two_stages" if plan.knobs.stages == 2 else "one_stage",
        }
