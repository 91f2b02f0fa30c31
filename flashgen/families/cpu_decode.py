"""`cpu_decode`: few query rows against many keys; for decoding with a KV cache.

The query rows of all heads that share a K and V are packed into one tile, so that K and V are read once for all
of them. The keys are cut into splits of a fixed size, each a task; partial results are joined. The kernel is as
fast as memory gives K and V. docs/performance_cpu.md has the measurements behind the choices.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from flashgen.families.base import Family, TileGrid
from flashgen.families.cpu_common import lanes, multiples
from flashgen.spec import AttentionSpec
from flashgen.target import PRESETS, DeviceLimits, Target
from flashgen.tile_plan import Footprint, TilePlan


@dataclass(frozen=True, slots=True)
class DecodeTiles:
    """The register tiles of a kernel, and how it splits the keys.

    Attributes:
        lanes: dims in a vector.
        accumulators: vectors that a register tile sums into.
        most_rows: query rows of a register tile.
        split_keys: keys of a split, a multiple of bc.
    """

    lanes: int
    accumulators: int
    most_rows: int
    split_keys: int


_SPLIT_KEYS = 1024  # about: whole blocks. Each start costs time; fewer starts leave cores without work at few heads
_MOST_ROWS = 64
_MOST_QUERIES = 8  # of a head; measured with 4,096 keys: 1.4 times as fast as cpu_fa2 at least
# Worth measuring, when tuning:
_OTHER_SPLITS = (512, 2048, 4096)
_BLOCKS = (32, 64, 128, 256)

# Template parts that convert fp16; the others have integer arithmetic only.
_FP16_CONVERSION = {"x86-64-v3": "f16c", "x86-64-v4": "avx512", "x86-64-v4-bf16": "avx512"}


class CpuDecode(Family):
    """Few rows, many keys."""

    name = "cpu_decode"
    algorithm = "decode"
    kind = "cpu"
    language = "c++"
    priority = 0

    def footprint(self, spec: AttentionSpec, br: int, bc: int, knobs: DecodeTiles) -> Footprint:
        """Q, O, m, l and S in whole vectors and register tiles, and the block of K and V as it lies."""
        size, row_blocks = spec.dtype.compute_size, _ceil_div(br, knobs.most_rows)
        rows = row_blocks * knobs.most_rows
        step = knobs.lanes * (2 if spec.dtype.name == "bf16" else 1)
        return Footprint((
            ("Q", rows * _ceil_div(spec.head_dim, step) * step * size),
            ("O", rows * _ceil_div(spec.head_dim_v, step) * step * size),
            ("m,l", (row_blocks + rows) * knobs.lanes * size),
            ("S", rows * _ceil_div(bc, knobs.accumulators) * knobs.accumulators * size),
            ("K", bc * spec.head_dim * spec.dtype.size),
            ("V", bc * spec.head_dim_v * spec.dtype.size),
        ))  # fmt: skip

    def grid(self, spec: AttentionSpec, target: Target) -> TileGrid:
        """Packed query rows: 1, 2, or whole register tiles; any number of keys would do."""
        return TileGrid(br=multiples(4, _MOST_ROWS), bc=multiples(16))

    def default_tile(self, spec: AttentionSpec, target: Target) -> tuple[int, int]:
        """Rows that are not there cost nothing; 64 keys keep a block of V in L1 while several rows meet it."""
        return 32, 64

    def knobs(self, spec: AttentionSpec, target: Target, br: int, bc: int) -> DecodeTiles:
        """Half the registers sum; a row needs at least one lane in a vector of scores."""
        width = lanes(spec, target)
        accumulators = PRESETS[target].simd_registers // 2
        return DecodeTiles(width, accumulators, min(4, width), _split(_SPLIT_KEYS, bc))

    def knob_choices(self, spec: AttentionSpec, target: Target, br: int, bc: int) -> tuple[DecodeTiles, ...]:
        """Shorter and longer splits, and register tiles of two rows, in which twice as many keys are met at once."""
        usual = self.knobs(spec, target, br, bc)
        rows = dict.fromkeys((usual.most_rows, 2))
        splits = dict.fromkeys(_split(keys, bc) for keys in (_SPLIT_KEYS, *_OTHER_SPLITS))
        return tuple(replace(usual, most_rows=r, split_keys=keys) for r in rows for keys in splits)

    def describe_knobs(self, knobs: DecodeTiles) -> str:
        """Lanes and registers follow from the target."""
        return f"rows {knobs.most_rows}, splits of {knobs.split_keys:,}"

    def candidates(self, spec: AttentionSpec, target: Target, limits: DeviceLimits) -> tuple[tuple[int, int], ...]:
        """Blocks of keys only: rows of the tile that a call does not have cost nothing, and calls have few."""
        br, _ = self.default_tile(spec, target)
        return tuple((br, bc) for bc in _BLOCKS)

    def most_packed_rows(self, spec: AttentionSpec, target: Target, group: int) -> int:
        """So many for each head: both kernels' times grow with the heads that share a K and V."""
        return _MOST_QUERIES * group

    def workspace_bytes(self, spec: AttentionSpec, plan: TilePlan, seqlen_q: int, seqlen_k: int) -> int:
        """The tiles. K and V are read where they lie; the parts of a call's splits lie with the calling thread."""
        tiles = dict(plan.footprint.tiles)
        return sum(tiles[name] for name in ("Q", "O", "m,l", "S"))

    def constants(self, spec: AttentionSpec, plan: TilePlan, target: Target) -> Mapping[str, Any]:
        """Which parts convert elements to vectors and back, and step through rows."""
        fp16 = "fp16_" + _FP16_CONVERSION.get(target.arch, "integer")
        return {
            "elements": {"fp16": fp16, "bf16": "bf16"}.get(spec.dtype.name, "plain"),
            "steps": "bf16" if spec.dtype.name == "bf16" else "plain",
        }


def _split(keys: int, bc: int) -> int:
    """About so many keys, in whole blocks."""
    return bc * max(1, keys // bc)


def _ceil_div(a: int, b: int) -> int:
    return -(-a // b)
