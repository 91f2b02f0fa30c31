"""What the CUDA families share: head dims, tile grids, and the shape of warp-owned tiles.

In these families a row of a tile belongs to one warp, and its elements to the warp's lanes in turn. A
warp works on a strip of rows at a time, so that an operand that it loads serves every row of the strip.
"""

from __future__ import annotations

from dataclasses import dataclass

from flashgen.families.base import Family, TileGrid
from flashgen.spec import AttentionSpec
from flashgen.target import DeviceLimits, Target

MAX_HEAD_DIM = 256
LANES = 32
BANK_BYTES = 4
MAX_STRIP = {4: 8, 8: 4}  # by bytes of the compute type: accumulators are registers
_KEYS_PER_LANE = 4


@dataclass(frozen=True, slots=True)
class WarpKnobs:
    """Warps of a CTA. Rows of a tile are dealt out to them evenly."""

    warps: int = 8


def strip_constants(spec: AttentionSpec, br: int, bc: int, warps: int) -> dict[str, int]:
    """What templates/cuda/strip_constants.j2 needs."""
    return {
        "strip": strip_rows(spec, br // warps),
        "keys_per_lane": keys_per_lane(bc),
        "columns_per_lane": ceil_div(spec.head_dim_v, LANES),
        "q_stride": padded_stride(spec, spec.head_dim),
        "k_stride": conflict_free_stride(spec, spec.head_dim),
    }


def strip_rows(spec: AttentionSpec, rows_per_warp: int) -> int:
    """Rows that a warp works on at a time: the most that divides its share and fits registers."""
    most = MAX_STRIP[spec.dtype.compute_size]
    return max(rows for rows in range(1, most + 1) if rows_per_warp % rows == 0)


def keys_per_lane(bc: int) -> int:
    """Keys of a row that a lane holds in registers at a time: at most 4, spread evenly over the rounds."""
    slots = ceil_div(bc, LANES)
    return ceil_div(slots, ceil_div(slots, _KEYS_PER_LANE))


def padded_stride(spec: AttentionSpec, dim: int) -> int:
    """``dim`` rounded up to whole 4-byte banks, in elements."""
    per_bank = max(BANK_BYTES // spec.dtype.size, 1)
    return ceil_div(dim, per_bank) * per_bank


def conflict_free_stride(spec: AttentionSpec, dim: int) -> int:
    """The least stride, in elements, at which 32 lanes that read 32 rows hit 32 different banks.

    That is an odd number of banks (for fp64, of pairs of banks).
    """
    per_unit = max(BANK_BYTES // spec.dtype.size, 1)
    return (ceil_div(dim, per_unit) | 1) * per_unit


def head_dim_refusal(spec: AttentionSpec) -> str | None:
    """Why a CUDA family does not take these head dims, or None if it does."""
    too_large = max(spec.head_dim, spec.head_dim_v) > MAX_HEAD_DIM
    return f"takes head dims up to {MAX_HEAD_DIM}" if too_large else None


def ceil_div(a: int, b: int) -> int:
    """Quotient, rounded up."""
    return -(-a // b)


class WarpRowFamily(Family):
    """A CUDA family of plain FMAs whose tile rows belong to warps."""

    kind = "cuda"
    language = "cuda"

    def refusal(self, spec: AttentionSpec, target: Target) -> str | None:
        """Head dims up to 256, on any architecture."""
        return super().refusal(spec, target) or head_dim_refusal(spec)

    def grid(self, spec: AttentionSpec, target: Target) -> TileGrid:
        """Rows in eights, one for each warp; keys in half warps where there is room."""
        small = (4, 8) if spec.dtype.size >= BANK_BYTES else (8,)
        return TileGrid(br=tuple(range(8, 257, 8)), bc=(*small, *range(16, 1025, 16)))

    def knobs(self, spec: AttentionSpec, target: Target, br: int, bc: int) -> WarpKnobs:
        """Eight warps: 256 threads."""
        return WarpKnobs()

    def knob_choices(self, spec: AttentionSpec, target: Target, br: int, bc: int) -> tuple[WarpKnobs, ...]:
        """Eight warps, and four or sixteen where each has as many rows."""
        usual = self.knobs(spec, target, br, bc)
        others = (WarpKnobs(warps) for warps in (4, 16) if br % warps == 0)
        return (usual, *others)

    def candidates(self, spec: AttentionSpec, target: Target, limits: DeviceLimits) -> tuple[tuple[int, int], ...]:
        """Tiles of moderate size: beyond, registers or shared memory leave an SM too few warps."""
        tiles = super().candidates(spec, target, limits)
        return tuple((br, bc) for br, bc in tiles if 16 <= br <= 128 and 16 <= bc <= 256)

    def default_tile(self, spec: AttentionSpec, target: Target) -> tuple[int, int]:
        """64 x 64; the planner takes less where shared memory is short."""
        return 64, 64
