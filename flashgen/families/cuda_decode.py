"""`cuda_decode`: a few query rows against many keys, on tensor cores; for decoding with a KV cache.

The query heads that share a kv head are packed into the 16 rows of an mma tile, so that K and V are read once
for all of them. The keys are split among CTAs, and within a CTA among warps; a second launch joins the splits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from flashgen.families.base import TileGrid
from flashgen.families.cuda_common import LANES
from flashgen.families.cuda_mma_common import MmaFamily, has_cp_async, mma_constants, row_bytes
from flashgen.launch_plan import LaunchPlan, LaunchStep
from flashgen.spec import AttentionSpec
from flashgen.target import PRESETS, Target
from flashgen.tile_plan import Footprint, TilePlan

ROWS = 16
_MOST_WARPS = 4
_MOST_STAGES = 4
_BLOCKS_OF_SPLIT = 4  # a split has at least so many blocks of keys: less is not worth the joining
_CTAS_OF_SM = 2


@dataclass(frozen=True, slots=True)
class DecodeKnobs:
    """How the keys are dealt out.

    Attributes:
        warps: of a CTA, each with its share of every block of keys.
        stages: blocks of keys in shared memory, one of them at work.
        ctas: CTAs that fill the device for which the plan was made; splits are counted to get there.
    """

    warps: int
    stages: int
    ctas: int


class CudaDecode(MmaFamily):
    """Few rows, many keys."""

    name = "cuda_decode"
    algorithm = "decode"
    priority = 0

    def footprint(self, spec: AttentionSpec, br: int, bc: int, knobs: DecodeKnobs) -> Footprint:
        """The packed rows of Q, and each stage's K and V; at the end the warps' O, l and m lie over them."""
        row, row_v = row_bytes(spec, spec.head_dim), row_bytes(spec, spec.head_dim_v)
        tiles = (("Q", br * row), ("K", knobs.stages * bc * row), ("V", knobs.stages * bc * row_v))
        columns = row_v // spec.dtype.size
        join = knobs.warps * br * 4 * (columns + (40 - columns % 32) % 32 + 2)
        overhang = max(join - sum(size for _, size in tiles), 0)
        return Footprint((*tiles, ("O,l,m", overhang)) if overhang else tiles)

    def grid(self, spec: AttentionSpec, target: Target) -> TileGrid:
        """16 packed rows; 16 keys for each of up to four warps, or 32."""
        return TileGrid(br=(ROWS,), bc=(16, 32, 64, 128))

    def default_tile(self, spec: AttentionSpec, target: Target) -> tuple[int, int]:
        """Blocks of 64 keys: small ones, with several on their way."""
        return ROWS, 64

    def knobs(self, spec: AttentionSpec, target: Target, br: int, bc: int) -> DecodeKnobs:
        """As many stages as leave room for a second CTA on the SM; two of small blocks, which small budgets get."""
        limits = PRESETS[target]
        block = bc * (row_bytes(spec, spec.head_dim) + row_bytes(spec, spec.head_dim_v))
        room = min(limits.smem_per_sm // _CTAS_OF_SM - 1024, limits.onchip_bytes) - br * row_bytes(spec, spec.head_dim)
        stages = 2 if not has_cp_async(target) or bc < 64 else max(min(room // block, _MOST_STAGES), 2)
        return DecodeKnobs(min(bc // 16, _MOST_WARPS), stages, _CTAS_OF_SM * limits.cores)

    def knob_choices(self, spec: AttentionSpec, target: Target, br: int, bc: int) -> tuple[DecodeKnobs, ...]:
        """Fewer warps that have 32 keys of a block each, fewer stages, and half or twice as many CTAs to fill."""
        usual = self.knobs(spec, target, br, bc)
        warps = dict.fromkeys((usual.warps, *(w for w in (1, 2, 4) if bc // w in (16, 32))))
        stages = dict.fromkeys((usual.stages, *((2, 3) if has_cp_async(target) else ())))
        ctas = (usual.ctas, usual.ctas // 2, usual.ctas * 2)
        choices = (DecodeKnobs(w, s, c) for w in warps for s in stages for c in ctas)
        # More stages than usual would leave no room for a second CTA.
        return tuple(knobs for knobs in choices if knobs.stages <= usual.stages)

    def describe_knobs(self, knobs: DecodeKnobs) -> str:
        """In a phrase."""
        return f"warps {knobs.warps}, stages {knobs.stages}, splits for {knobs.ctas} CTAs"

    def most_packed_rows(self, spec: AttentionSpec, target: Target, group: int) -> int:
        """One tile of packed rows: K and V are then read once. A single query of each head is always one of few."""
        return max(ROWS, group)

    def launch_plan(self, spec: AttentionSpec, plan: TilePlan) -> LaunchPlan:
        """Splits are counted from the sizes, for the device of the plan: enough CTAs to fill it.

        The workspace holds each split's O, l and m, in fp32.
        """
        tiles = f"ceil_div(seqlen_q * ceil_div(num_heads, num_heads_kv), {ROWS})"
        packed = f"batch * num_heads_kv * {tiles}"
        most = f"ceil_div(seqlen_k, {_BLOCKS_OF_SPLIT * plan.bc})"
        splits = f"min({most}, ceil_div({plan.knobs.ctas}, {packed}))"
        threads = plan.knobs.warps * LANES
        rows = "batch * num_heads * seqlen_q"
        return LaunchPlan(
            (
                LaunchStep(f"{self.entry}_split", (packed, "row_ranges", "1"), threads, plan.footprint.total),
                LaunchStep(
                    f"{self.entry}_join",
                    (f"min(row_ranges - 1, 1) * ceil_div({rows}, {plan.knobs.warps})", "1", "1"),
                    threads,
                    0,
                    optional=True,
                ),
            ),
            workspace_bytes=f"{splits} * {rows} * {4 * (spec.head_dim_v + 2)}",
            row_ranges=splits,
        )

    def constants(self, spec: AttentionSpec, plan: TilePlan, target: Target) -> Mapping[str, Any]:
        """Which instructions the architecture has."""
        return {**mma_constants(target), "copies": "async" if has_cp_async(target) else "direct"}
