"""What the CPU families share: tile grids and the bytes of tiles in their compute type."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flashgen.families.base import Family, TileGrid
from flashgen.spec import AttentionSpec
from flashgen.target import PRESETS, DeviceLimits, Target
from flashgen.tile_plan import TilePlan

MAX_TILE = 2048


def multiples(step: int, largest: int = MAX_TILE) -> tuple[int, ...]:
    """Powers of two below ``step``, then its multiples: 1, 2, 4, 8, 16, 32, 48, ... for 16."""
    return (*(1 << n for n in range(step.bit_length()) if 1 << n < step), *range(step, largest + 1, step))


def lanes(spec: AttentionSpec, target: Target) -> int:
    """Elements of the compute type in one vector register of the target."""
    return PRESETS[target].simd_bytes // spec.dtype.compute_size


class PlainCpuFamily(Family):
    """A CPU family written as plain loops: it can have any tile, and prefers whole vectors."""

    kind = "cpu"
    language = "c++"

    def grid(self, spec: AttentionSpec, target: Target) -> TileGrid:
        """Whole vectors of keys where there is room for one, so that SIMD loops have no rest."""
        step = lanes(spec, target)
        return TileGrid(br=multiples(8), bc=multiples(step))

    def tile_refusal(self, spec: AttentionSpec, target: Target, br: int, bc: int) -> str | None:
        """Any size up to MAX_TILE is honoured."""
        for name, value in (("br", br), ("bc", bc)):
            if value > MAX_TILE:
                return f"{name}={value} is more than {self.name} takes, {MAX_TILE}."
        return None

    def default_tile(self, spec: AttentionSpec, target: Target) -> tuple[int, int]:
        """64 x 64 keeps the tiles of usual head dims within L2."""
        return 64, 64

    def candidates(self, spec: AttentionSpec, target: Target, limits: DeviceLimits) -> tuple[tuple[int, int], ...]:
        """Tiles of moderate size: tiny ones are all overhead, huge ones leave the cache."""
        tiles = super().candidates(spec, target, limits)
        return tuple((br, bc) for br, bc in tiles if 16 <= br <= 256 and 16 <= bc <= 512)

    def constants(self, spec: AttentionSpec, plan: TilePlan, target: Target) -> Mapping[str, Any]:
        """Nothing beyond spec and plan."""
        return {}
