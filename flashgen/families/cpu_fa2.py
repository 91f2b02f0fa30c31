"""`cpu_fa2`: the fast CPU kernel, with queries in the lanes of SIMD vectors.

S^T = K Q^T and O^T = V^T P^T, in register tiles of keys (or dims) x vectors of queries. A tile of br
queries is made of groups, each as many vectors as a register tile has; the groups meet a block of bc keys
one after the other and share one S^T. docs/performance_cpu.md has the measurements behind the choices.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from flashgen.families.base import Family, TileGrid
from flashgen.families.cpu_common import MAX_TILE, lanes, multiples
from flashgen.spec import AttentionSpec
from flashgen.target import PRESETS, DeviceLimits, Target, multiplies_bf16
from flashgen.tile_plan import Footprint, TilePlan


@dataclass(frozen=True, slots=True)
class RegisterTiles:
    """The register tiles of a kernel.

    Attributes:
        lanes: queries in a vector.
        group_vecs: vectors of queries in a group.
        wide_keys, wide_dims: keys of S^T and dims of O^T in a register tile of a whole group.
        narrow_keys, narrow_dims: the same for a single vector: a group that is not full, the causal diagonal.
        depth: products that one instruction sums: 2 where bf16 is multiplied as it is, else 1.
    """

    lanes: int
    group_vecs: int
    wide_keys: int
    wide_dims: int
    narrow_keys: int
    narrow_dims: int
    depth: int


# group_vecs -> (wide_keys, wide_dims), best first. A tile holds its accumulators, a register for each
# vector and the broadcast scalars: one on x86, one for each key or dim on ARM, which multiplies by a lane.
# From 8 accumulators on, the latency of two FMA units is hidden; the more, the fewer loads per FMA.
_AVX512 = {4: (4, 4), 3: (8, 8), 2: (8, 8), 1: (8, 16)}
_AVX2 = {2: (6, 6), 3: (4, 4), 1: (8, 8)}
_NEON = {4: (4, 4), 3: (6, 6), 2: (8, 8), 1: (8, 16)}
_TILES = {
    "x86-64-v2": _AVX2,
    "x86-64-v3": _AVX2,
    "x86-64-v4": _AVX512,
    "x86-64-v4-bf16": _AVX512,
    "aarch64": _NEON,
}

_MOST_KEPT_BYTES = 16 << 20  # of interleaved V, by one thread; longer heads are interleaved a block at a time

_CANDIDATE_BC = (32, 48, 64, 96, 128, 192, 256)

# Template parts that convert fp16; the others have integer arithmetic only.
_FP16_CONVERSION = {"x86-64-v3": "f16c", "x86-64-v4": "avx512", "x86-64-v4-bf16": "avx512"}


class CpuFa2(Family):
    """FlashAttention-2's loop order on the CPU: a tile of queries stays, the keys stream past."""

    name = "cpu_fa2"
    algorithm = "fa2"
    kind = "cpu"
    language = "c++"
    priority = 10

    def footprint(self, spec: AttentionSpec, br: int, bc: int, knobs: Any) -> Footprint:
        """Q^T, O^T, m and l of the tile, S^T of one group, and the block of K and V that meets them.

        Blocks are widened into the workspace, or read in place and then sit in the cache. Where bf16 is multiplied
        as it is, Q^T and V hold pairs of bf16, and an odd one has an empty partner.
        """
        size, depth = spec.dtype.compute_size, knobs.depth
        steps, score_rows = _ceil_div(spec.head_dim, depth), _ceil_div(bc, depth) * depth
        return Footprint((
            ("Q^T", br * steps * size),
            ("O^T", br * spec.head_dim_v * size),
            ("m,l", 2 * br * size),
            ("S^T", knobs.group_vecs * knobs.lanes * score_rows * size),
            ("K", bc * spec.head_dim * size // depth),
            ("V", score_rows * spec.head_dim_v * size // depth),
        ))  # fmt: skip

    def grid(self, spec: AttentionSpec, target: Target) -> TileGrid:
        """Whole vectors of queries, of which 2, 3 or 4 make a group; any number of keys would do."""
        step = lanes(spec, target)
        vectors = (1, 2, 3, *range(4, MAX_TILE // step + 1, 2))
        return TileGrid(br=tuple(step * count for count in vectors), bc=multiples(16))

    def default_tile(self, spec: AttentionSpec, target: Target) -> tuple[int, int]:
        """The middle of a flat optimum: Q^T and O^T within a quarter of L2, more where queries share a conversion.

        A call with few queries for its threads gets smaller tiles by itself, see fa2_tasks.hpp.
        """
        widest = max(spec.head_dim, spec.head_dim_v)
        br = 256 if spec.dtype.size == 2 or widest <= 64 else 128 if widest <= 128 else 64
        wide_keys = self.knobs(spec, target, br, 128).wide_keys
        return br, 128 if 128 % wide_keys == 0 else 96

    def workspace_bytes(self, spec: AttentionSpec, plan: TilePlan, seqlen_q: int, seqlen_k: int) -> int:
        """The tiles, and what blocks of K and V are widened or interleaved into.

        Where rows of K or V are whole pages apart, a block of them is copied, which is not counted here.
        """
        tiles = dict(plan.footprint.tiles)
        own = sum(tiles[name] for name in ("Q^T", "O^T", "m,l", "S^T"))
        if plan.knobs.depth == 1:
            return own + (tiles["K"] + tiles["V"] if spec.dtype.size == 2 else 0)
        whole_v = _ceil_div(seqlen_k, plan.bc) * tiles["V"]  # of a head, kept for its other tiles
        return own + (whole_v if seqlen_q > plan.br and whole_v <= _MOST_KEPT_BYTES else tiles["V"])

    def small_tile(self, spec: AttentionSpec, target: Target) -> tuple[int, int]:
        """For few query rows: fewer of them in a task, so that more threads get one, and a small workspace."""
        return 32, 64

    def knobs(self, spec: AttentionSpec, target: Target, br: int, bc: int) -> RegisterTiles:
        """The best register tile whose groups divide br."""
        return next(_register_tiles(spec, target, br))

    def knob_choices(self, spec: AttentionSpec, target: Target, br: int, bc: int) -> tuple[RegisterTiles, ...]:
        """Every register tile of at least two vectors whose groups divide br; one vector where only that divides."""
        tiles = tuple(_register_tiles(spec, target, br))
        return tuple(tile for tile in tiles if tile.group_vecs > 1) or tiles

    def describe_knobs(self, knobs: RegisterTiles) -> str:
        """The register tile of S^T: keys x vectors of queries."""
        return f"registers {knobs.wide_keys} x {knobs.group_vecs}"

    def candidates(self, spec: AttentionSpec, target: Target, limits: DeviceLimits) -> tuple[tuple[int, int], ...]:
        """Tiles from a fraction to a few times the default; beyond, measurements found nothing."""
        rows = [br for br in self.grid(spec, target).br if 16 <= br <= 256 and br % 16 == 0]
        return tuple((br, bc) for br in rows for bc in _CANDIDATE_BC)

    def constants(self, spec: AttentionSpec, plan: TilePlan, target: Target) -> Mapping[str, Any]:
        """Which parts convert elements to vectors and back, what is multiplied, and how blocks are read."""
        paired, widened = plan.knobs.depth == 2, plan.knobs.depth == 1 and spec.dtype.size == 2
        fp16 = "fp16_" + _FP16_CONVERSION.get(target.arch, "integer")
        compute = f"fp{8 * spec.dtype.compute_size}"
        return {
            "elements": {"fp16": fp16, "bf16": "bf16"}.get(spec.dtype.name, "plain"),
            "factors": "bf16" if paired else "scalar",
            "blocks": "paired" if paired else "widened" if widened else "in_place",
            "fetch": "nothing" if widened else "keys",
            "exp": "fp32_avx512" if compute == "fp32" and PRESETS[target].simd_bytes == 64 else compute,
            "most_kept_bytes": _MOST_KEPT_BYTES,
        }


def _register_tiles(spec: AttentionSpec, target: Target, br: int) -> Iterator[RegisterTiles]:
    """The register tiles whose groups divide br, best first."""
    width, shapes = lanes(spec, target), _TILES[target.arch]
    depth = 2 if spec.dtype.name == "bf16" and multiplies_bf16(target) else 1
    for group, shape in shapes.items():
        if br // width % group == 0:
            yield RegisterTiles(width, group, *shape, *shapes[1], depth)


def _ceil_div(a: int, b: int) -> int:
    return -(-a // b)
