"""Tiles and knobs of the tensor-core kernels, by architecture, head dim and mask.

How many rows a warp has follows from shared memory: what a warp reads of K and V serves all its rows, so
rows >= F / 32 * (128 / bytes per clock), F being the tensor cores' FMAs per clock and SM. The large chips
need 32 rows for that; the others are content with 16, and take 32 where registers allow.
"""

from __future__ import annotations

from dataclasses import dataclass

from flashgen.families.cuda_common import ceil_div
from flashgen.families.cuda_mma_common import has_cp_async
from flashgen.spec import AttentionSpec
from flashgen.target import Target, capability

_MOST_VALUES = 192  # registers of a lane for S and O
_MOST_VALUES_WITH_Q = 176
_MOST_KEYS = 128
_MOST_WARPS = 8

# (largest head dim, br, bc), for architectures that share limits and balance.
_TILES = {
    "turing": ((64, 128, 64), (128, 64, 64), (256, 64, 32)),
    "large": ((64, 128, 64), (128, 128, 64), (192, 128, 64), (256, 128, 64)),
    "small": ((64, 128, 64), (96, 128, 64), (128, 128, 32), (256, 64, 64)),
}


@dataclass(frozen=True, slots=True)
class MmaKnobs:
    """How a tile is dealt out.

    Attributes:
        warps: of a CTA.
        rows: query rows of a warp, 16 or 32.
        q_in_registers: whether a warp keeps its rows of Q in registers instead of reading them again for
            each block of keys.
        stages: blocks of keys in shared memory: with two, the next one comes while one is at work.
    """

    warps: int
    rows: int
    q_in_registers: bool
    stages: int = 1


def default_tile(spec: AttentionSpec, target: Target) -> tuple[int, int]:
    """(br, bc) for the larger of the two head dims."""
    dim = max(spec.head_dim, spec.head_dim_v)
    return next((br, bc) for largest, br, bc in _TILES[_kind(target)] if dim <= largest)


def usual_knobs(spec: AttentionSpec, target: Target, br: int, bc: int) -> MmaKnobs:
    """32 rows for a warp where shared memory would otherwise hold the tensor cores up."""
    rows = min(_rows_per_warp(spec, br), br)
    return MmaKnobs(br // rows, rows, values(spec, rows, bc, True) <= _MOST_VALUES_WITH_Q)


def choices(spec: AttentionSpec, target: Target, br: int, bc: int) -> tuple[MmaKnobs, ...]:
    """All knobs of a tile that registers may hold, the usual ones first."""
    usual = usual_knobs(spec, target, br, bc)
    found = [
        MmaKnobs(br // rows, rows, q_in_registers, stages)
        for rows in (16, 32)
        for q_in_registers in (True, False)
        for stages in ((1, 2) if has_cp_async(target) else (1,))
        if br % rows == 0 and br // rows <= _MOST_WARPS and values(spec, rows, bc, q_in_registers) <= _MOST_VALUES
    ]
    return (usual, *(knobs for knobs in found if knobs != usual))


def values(spec: AttentionSpec, rows: int, bc: int, with_q: bool) -> int:
    """Registers of a lane for S and O, and for Q."""
    columns = bc + ceil_div(spec.head_dim_v, 8) * 8 + (ceil_div(spec.head_dim, 8) * 4 if with_q else 0)
    return rows // 16 * columns // 2


def most_keys(spec: AttentionSpec) -> int:
    """Of a tile, so that S and O fit registers."""
    room = _MOST_VALUES // (_rows_per_warp(spec, 128) // 16) * 2 - ceil_div(spec.head_dim_v, 8) * 8
    return min(room, _MOST_KEYS)


def _rows_per_warp(spec: AttentionSpec, br: int) -> int:
    """Query rows of a warp: 32 where four warps have so many, and O and S leave registers for it."""
    return 32 if br >= 128 and max(spec.head_dim, spec.head_dim_v) <= 128 else 16


def _kind(target: Target) -> str:
    if capability(target) < 80:
        return "turing"
    return "small" if capability(target) in (86, 89, 120, 121) else "large"
