"""Default tiles of the tensor-core kernels, by architecture and head dim.

How many rows a warp has follows from shared memory: what a warp reads of K and V serves all its rows, so
rows >= F / 32 * (128 / bytes per clock), F being the tensor cores' FMAs per clock and SM. The large chips
need 32 rows for that; the others are content with 16, and take 32 where registers allow.
"""

from __future__ import annotations

from flashgen.spec import AttentionSpec
from flashgen.target import Target, capability

# (largest head dim, br, bc), for architectures that share limits and balance.
_TILES = {
    "turing": ((64, 128, 64), (128, 64, 64), (256, 64, 32)),
    "large": ((64, 128, 64), (128, 128, 64), (192, 128, 64), (256, 128, 64)),
    "small": ((64, 128, 64), (96, 128, 64), (128, 128, 32), (256, 64, 64)),
}


def default_tile(spec: AttentionSpec, target: Target) -> tuple[int, int]:
    """(br, bc) for the larger of the two head dims."""
    dim = max(spec.head_dim, spec.head_dim_v)
    return next((br, bc) for largest, br, bc in _TILES[_kind(target)] if dim <= largest)


def rows_per_warp(spec: AttentionSpec, target: Target, br: int) -> int:
    """Query rows of a warp: 32 where four warps have so many, and O and S leave registers for it."""
    return 32 if br >= 128 and max(spec.head_dim, spec.head_dim_v) <= 128 else 16


def _kind(target: Target) -> str:
    if capability(target) < 80:
        return "turing"
    return "small" if capability(target) in (86, 89, 120, 121) else "large"
