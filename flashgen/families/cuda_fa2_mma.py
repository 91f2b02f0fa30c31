"""`cuda_fa2_mma`: FlashAttention-2 on tensor cores, by mma.sync, for every GPU since Turing.

A warp owns 16 or 32 query rows and meets whole tiles of K and V, so that a row's softmax stays in four
lanes; S, P and O are registers. Head dims are taken as they are: nothing is padded, neither in global nor
in shared memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from flashgen.families.base import TileGrid
from flashgen.families.cuda_common import LANES, ceil_div
from flashgen.families.cuda_mma_common import MmaFamily, has_cp_async, mma_constants, row_bytes
from flashgen.families.cuda_mma_tiles import default_tile, rows_per_warp
from flashgen.launch_plan import LaunchPlan, LaunchStep
from flashgen.spec import AttentionSpec
from flashgen.target import Target
from flashgen.tile_plan import Footprint, TilePlan

_MOST_VALUES = 192  # registers of a lane for S and O
_MOST_VALUES_WITH_Q = 176
_MOST_KEYS = 128


@dataclass(frozen=True, slots=True)
class MmaKnobs:
    """How a tile is dealt out.

    Attributes:
        warps: of a CTA.
        rows: query rows of a warp, 16 or 32.
        q_in_registers: whether a warp keeps its rows of Q in registers instead of reading them again for
            each block of keys.
    """

    warps: int
    rows: int
    q_in_registers: bool


class CudaFa2Mma(MmaFamily):
    """FlashAttention-2 on tensor cores."""

    name = "cuda_fa2_mma"
    algorithm = "fa2"
    priority = 10

    def footprint(self, spec: AttentionSpec, br: int, bc: int, knobs: MmaKnobs) -> Footprint:
        """Q_i, K_j and V_j in the dtype, rows in whole chunks of 16 bytes; at the end O_i lies over them."""
        row, row_v = row_bytes(spec, spec.head_dim), row_bytes(spec, spec.head_dim_v)
        inputs = br * row + bc * (row + row_v)
        overhang = max(br * row_v - inputs, 0)
        tiles = (("Q", br * row), ("K", bc * row), ("V", bc * row_v))
        return Footprint((*tiles, ("O", overhang)) if overhang else tiles)

    def grid(self, spec: AttentionSpec, target: Target) -> TileGrid:
        """Warps in powers of two, and as many keys as S fits registers for."""
        room = _MOST_VALUES // (rows_per_warp(spec, target, 128) // 16) * 2 - ceil_div(spec.head_dim_v, 8) * 8
        return TileGrid(br=(16, 32, 64, 128), bc=tuple(range(16, min(room, _MOST_KEYS) + 1, 16)))

    def default_tile(self, spec: AttentionSpec, target: Target) -> tuple[int, int]:
        """From the table of published and modelled tiles."""
        return default_tile(spec, target)

    def small_tile(self, spec: AttentionSpec, target: Target) -> tuple[int, int]:
        """For few query rows: more CTAs, and less of a tile idle."""
        br, bc = default_tile(spec, target)
        return min(br, 64), bc

    def knobs(self, spec: AttentionSpec, target: Target, br: int, bc: int) -> MmaKnobs:
        """32 rows for a warp where shared memory would otherwise hold the tensor cores up."""
        rows = min(rows_per_warp(spec, target, br), br)
        values = rows // 16 * (bc + ceil_div(spec.head_dim_v, 8) * 8 + spec.head_dim // 2) // 2
        return MmaKnobs(br // rows, rows, values <= _MOST_VALUES_WITH_Q)

    def launch_plan(self, spec: AttentionSpec, plan: TilePlan) -> LaunchPlan:
        """One CTA for each tile of query rows."""
        grid = f"batch * num_heads * ceil_div(seqlen_q, {plan.br})"
        return LaunchPlan((LaunchStep(self.entry, (grid, "1", "1"), plan.knobs.warps * LANES, plan.footprint.total),))

    def constants(self, spec: AttentionSpec, plan: TilePlan, target: Target) -> Mapping[str, Any]:
        """Which instructions the architecture has."""
        return {**mma_constants(target), "copies": "async" if has_cp_async(target) else "registers"}
