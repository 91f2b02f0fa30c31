"""Tiles and knobs of the tensor-core kernels, by architecture, head dim and mask.

How many rows a warp has follows from shared memory: what a warp reads of K and V serves all its rows, so
rows >= F / 32 * (128 / bytes per clock), F being the tensor cores' FMAs per clock and SM. The large chips
need 32 rows for that; the others are content with 16, and take 32 where registers allow.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from flashgen.families.cuda_common import ceil_div
from flashgen.families.cuda_mma_common import has_cp_async
from flashgen.spec import AttentionSpec, Causal
from flashgen.target import Target, capability

_MOST_VALUES = 192  # registers of a lane for S and O
_MOST_VALUES_WITH_Q = 176
_MOST_KEYS = 128
_MOST_WARPS = 8


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


@dataclass(frozen=True, slots=True)
class _Tile:
    """A tile and its knobs; it fits shared memory up to the head dim of its entry."""

    br: int
    bc: int
    rows: int
    q_in_registers: bool = False
    stages: int = 1

    @property
    def knobs(self) -> MmaKnobs:
        return MmaKnobs(self.br // self.rows, self.rows, self.q_in_registers, self.stages)


# Largest head dim -> tile, for architectures that share limits and balance. The seed are the tiles that
# FlashAttention-2 and -3 measured best; between them, and for Q and the stages, which lie differently here, ptxas'
# registers and the model of flashgen/tuning/model decided, since none of this has been timed:
#   * two stages where they cost no CTA of an SM and no register that would have to go to local memory;
#   * dims to 32: 16 rows, since the exponentials are what takes long and want many warps (model: 0.79 of the time);
#   * large, to 192: FlashAttention-3's tile, and 80 keys under a mask, where 96 leave too few registers;
#   * small, to 128, and to 96 under a mask: FlashAttention-2's. The model finds 128 rows 4 % faster under a mask,
#     but does not know latencies, so what was measured counts;
#   * small, to 192: 8 warps of a 128 x 64 tile where FlashAttention-2 has them, too (model: 0.96 of 64 x 64);
#   * small, to 256: 128 x 32 in 8 warps instead of 64 x 64 in 4, which is all that an SM has room for (model: 0.80);
#   * turing, to 128: 8 warps of a 128 x 64 tile (model: 0.62 of 64 x 64; K and V are read half as often).
_TILES = {
    "turing": {
        64: _Tile(128, 64, 32, q_in_registers=True),
        128: _Tile(128, 64, 16, q_in_registers=True),
        256: _Tile(64, 32, 16),
    },
    "large": {
        32: _Tile(128, 64, 16, q_in_registers=True),
        64: _Tile(128, 64, 32, q_in_registers=True, stages=2),
        128: _Tile(128, 64, 32),
        192: _Tile(128, 96, 16, q_in_registers=True, stages=2),
        256: _Tile(128, 64, 16),
    },
    "larger": {  # 228 KB
        32: _Tile(128, 64, 16, q_in_registers=True),
        64: _Tile(128, 64, 32, q_in_registers=True, stages=2),
        96: _Tile(128, 64, 32, stages=2),
        128: _Tile(128, 64, 32),
        192: _Tile(128, 64, 16, q_in_registers=True, stages=2),
        256: _Tile(128, 64, 16, stages=2),
    },
    "small": {  # 100 KB
        32: _Tile(128, 64, 16, q_in_registers=True),
        64: _Tile(128, 64, 32, q_in_registers=True, stages=2),
        96: _Tile(128, 64, 32),
        128: _Tile(128, 32, 32),
        192: _Tile(128, 64, 16, q_in_registers=True, stages=2),
        256: _Tile(128, 32, 16, q_in_registers=True, stages=2),
    },
}
# The same under a causal mask, where it is another.
_CAUSAL_TILES = {
    "large": {192: _Tile(128, 80, 16, q_in_registers=True, stages=2)},
    "small": {
        96: _Tile(64, 64, 16, q_in_registers=True),
        128: _Tile(64, 64, 16, q_in_registers=True),
        256: _Tile(128, 32, 16, q_in_registers=True),
    },
}


def default_tile(spec: AttentionSpec, target: Target) -> tuple[int, int]:
    """(br, bc) for the larger of the two head dims."""
    tile = _tabulated(spec, target)
    return tile.br, tile.bc


def usual_knobs(spec: AttentionSpec, target: Target, br: int, bc: int) -> MmaKnobs:
    """The table's for the default tile; else 32 rows for each of four warps, where O and S leave registers for it."""
    tile = _tabulated(spec, target)
    if (br, bc) == (tile.br, tile.bc):
        return tile.knobs
    rows = 32 if br >= 128 and _fits(spec, 32, bc) else 16
    return MmaKnobs(br // rows, rows, values(spec, rows, bc, True) <= _MOST_VALUES_WITH_Q)


def thrifty_knobs(spec: AttentionSpec, target: Target, br: int, bc: int) -> MmaKnobs:
    """The usual ones, but one stage."""
    return replace(usual_knobs(spec, target, br, bc), stages=1)


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


def most_keys(spec: AttentionSpec, target: Target) -> int:
    """Of a tile, so that S and O fit registers; beside 32 rows where a warp needs those, if there is room at all."""
    rows = 32 if _kind(target) != "small" and _fits(spec, 32, 64) else 16
    return next(bc for bc in range(_MOST_KEYS, 0, -16) if _fits(spec, rows, bc))


def _fits(spec: AttentionSpec, rows: int, bc: int) -> bool:
    return values(spec, rows, bc, False) <= _MOST_VALUES


def _tabulated(spec: AttentionSpec, target: Target) -> _Tile:
    kind, dim = _kind(target), max(spec.head_dim, spec.head_dim_v)
    largest = next(largest for largest in _TILES[kind] if dim <= largest)
    causal = _CAUSAL_TILES.get(kind, {}) if spec.causal is not Causal.NONE else {}
    return causal.get(largest, _TILES[kind][largest])


def _kind(target: Target) -> str:
    if capability(target) < 80:
        return "turing"
    if capability(target) in (86, 89, 120, 121):
        return "small"
    return "larger" if capability(target) >= 90 else "large"
