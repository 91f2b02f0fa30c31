"""`cuda_fa2_simt`: FlashAttention-2's loop order on the plain FMA units of any GPU.

A tile of br queries stays while the keys stream past it in slices; S and O are registers. It is the fast
path of fp32 and fp64, and serves 16-bit types where there are no tensor cores for them. Only Q, one slice
of K or V and 32 columns of P are in shared memory, so that the head dim may be large where that is small.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from flashgen.families.base import Family, TileGrid
from flashgen.families.cuda_common import LANES, ceil_div, head_dim_refusal
from flashgen.launch_plan import LaunchPlan, LaunchStep
from flashgen.spec import AttentionSpec
from flashgen.target import PRESETS, Target
from flashgen.tile_plan import Footprint, TilePlan

HALF_WARP = 16
P_KEYS = 32  # keys of P that are in shared memory at a time
_SLICE_DIMS = 32
_VECTOR_BYTES = 16
_MOST_WARPS = 8
_FETCHED = 16  # elements of a slice that a thread holds until it is staged


@dataclass(frozen=True, slots=True)
class FmaKnobs:
    """How a tile is dealt out.

    Attributes:
        warps: of a CTA.
        rows: query rows of a half warp; each of its lanes works on all of them.
        slice_dims: dims of K in a slice, for all keys of the block.
        slice_keys: keys of V in a slice, with all dims.
    """

    warps: int
    rows: int
    slice_dims: int
    slice_keys: int


class CudaFa2Simt(Family):
    """FlashAttention-2 on FMA units."""

    name = "cuda_fa2_simt"
    algorithm = "fa2"
    kind = "cuda"
    language = "cuda"
    priority = 5

    def refusal(self, spec: AttentionSpec, target: Target) -> str | None:
        """Head dims up to 256, on any architecture."""
        return super().refusal(spec, target) or head_dim_refusal(spec)

    def footprint(self, spec: AttentionSpec, br: int, bc: int, knobs: FmaKnobs) -> Footprint:
        """Q_i, the slice of K_j or V_j at work, and 32 columns of P_ij, all in the compute type."""
        size = spec.dtype.compute_size
        k_slice = bc * _conflict_free(knobs.slice_dims, size)
        v_slice = knobs.slice_keys * HALF_WARP * _columns(spec)
        return Footprint((
            ("Q", br * _q_dims(spec, knobs) * size),
            ("K,V", max(k_slice, v_slice) * size),
            ("P", br * P_KEYS * size),
        ))  # fmt: skip

    def grid(self, spec: AttentionSpec, target: Target) -> TileGrid:
        """As many rows and keys as S and O fit registers for."""
        most = 2 * _MOST_WARPS * _most_rows(spec)
        return TileGrid(br=tuple(br for br in (16, 32, 64, 128) if br <= most), bc=(32, 64))

    def default_tile(self, spec: AttentionSpec, target: Target) -> tuple[int, int]:
        """The most rows that fit beside 64 keys: each of them serves what is loaded of K and V."""
        fitting = [
            br
            for br in self.grid(spec, target).br
            if self.footprint(spec, br, 64, self.knobs(spec, target, br, 64)).total <= PRESETS[target].onchip_bytes
        ]
        return max(fitting), 64

    def small_tile(self, spec: AttentionSpec, target: Target) -> tuple[int, int]:
        """For few query rows: less of a tile idle, and more CTAs."""
        return min(32, self.default_tile(spec, target)[0]), 64

    def knobs(self, spec: AttentionSpec, target: Target, br: int, bc: int) -> FmaKnobs:
        """As many rows for each half warp as registers allow, where that makes four warps or more.

        A slice of K has at most 32 dims, the slices being equal. One of V takes at most 256 bytes for each
        key of the block and 16 registers of a thread, but has at least a key for each warp.
        """
        warps = max(br // (2 * _most_rows(spec)), 4)
        vector = _VECTOR_BYTES // spec.dtype.compute_size
        dims = ceil_div(ceil_div(spec.head_dim, ceil_div(spec.head_dim, _SLICE_DIMS)), vector) * vector
        key_bytes = HALF_WARP * _columns(spec) * spec.dtype.compute_size
        room = min(bc * 256 // key_bytes, _FETCHED * LANES * warps // (HALF_WARP * _columns(spec)))
        keys = next(keys for keys in (P_KEYS, 16, 8, 4) if keys <= max(room, warps))
        return FmaKnobs(warps, br // (2 * warps), dims, keys)

    def launch_plan(self, spec: AttentionSpec, plan: TilePlan) -> LaunchPlan:
        """One CTA for each tile of query rows."""
        grid = f"batch * num_heads * ceil_div(seqlen_q, {plan.br})"
        return LaunchPlan((LaunchStep(self.entry, (grid, "1", "1"), plan.knobs.warps * LANES, plan.footprint.total),))

    def constants(self, spec: AttentionSpec, plan: TilePlan, target: Target) -> Mapping[str, Any]:
        """Vector widths, and strides in shared memory."""
        size, columns = spec.dtype.compute_size, _columns(spec)
        widest = _VECTOR_BYTES // size
        return {
            "q_dims": _q_dims(spec, plan.knobs),
            "k_stride": _conflict_free(plan.knobs.slice_dims, size),
            "columns": columns,
            "column_vector": next(width for width in (4, 2, 1) if width <= widest and columns % width == 0),
        }


def _most_rows(spec: AttentionSpec) -> int:
    """Query rows of a half warp that leave registers for S: what is loaded of K and V serves all of them."""
    words = spec.dtype.compute_size // 4
    return next(rows for rows in (8, 4, 2) if rows * words <= 8 and rows * words * _columns(spec) <= 64)


def _columns(spec: AttentionSpec) -> int:
    """Columns of O that a lane owns; its half warp has all of them."""
    return ceil_div(spec.head_dim_v, HALF_WARP)


def _q_dims(spec: AttentionSpec, knobs: FmaKnobs) -> int:
    """Elements of a row of Q in shared memory: whole slices."""
    return ceil_div(spec.head_dim, knobs.slice_dims) * knobs.slice_dims


def _conflict_free(dims: int, size: int) -> int:
    """The least stride at which 8 lanes that read 16 bytes of 8 rows hit all banks: an odd number of vectors."""
    vector = _VECTOR_BYTES // size
    return (ceil_div(dims, vector) | 1) * vector
