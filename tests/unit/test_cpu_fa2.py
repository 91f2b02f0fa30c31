"""The fast CPU family's arithmetic: what is multiplied as it is, and how much memory a thread sets aside."""

from __future__ import annotations

import pytest

from flashgen.families import family_named
from flashgen.spec import AttentionSpec, make_spec
from flashgen.target import PRESETS, Target, parse_target
from flashgen.tile_plan import TilePlan
from flashgen.tiling import plan_tiles

FA2 = family_named("cpu_fa2")
BF16_PRODUCTS, PLAIN = parse_target("cpu:x86-64-v4-bf16"), parse_target("cpu:x86-64-v4")


def planned(dtype: str, target: Target = BF16_PRODUCTS, d: int = 64, bc: int = 128) -> tuple[AttentionSpec, TilePlan]:
    spec = make_spec(d, dtype)
    return spec, plan_tiles(FA2, spec, target, PRESETS[target], br=128, bc=bc)


@pytest.mark.parametrize(
    ("dtype", "target", "depth"),
    [("bf16", BF16_PRODUCTS, 2), ("bf16", PLAIN, 1), ("fp16", BF16_PRODUCTS, 1), ("fp32", BF16_PRODUCTS, 1)],
)
def test_only_bf16_is_multiplied_in_pairs_and_only_where_the_cpu_can(dtype: str, target: Target, depth: int) -> None:
    assert planned(dtype, target)[1].knobs.depth == depth


def test_pairs_halve_q_k_and_v_and_an_odd_one_gets_a_partner() -> None:
    tiles = dict(planned("bf16", d=65, bc=1)[1].footprint.tiles)
    assert tiles["Q^T"] == 128 * 33 * 4
    assert tiles["K"] == 65 * 2
    assert tiles["V"] == 65 * 4
    assert tiles["S^T"] == 64 * 2 * 4


def test_the_workspace_holds_the_tiles_and_what_is_converted() -> None:
    def beyond_the_tiles(dtype: str, seqlen_q: int, seqlen_k: int) -> int:
        spec, plan = planned(dtype)
        tiles = dict(plan.footprint.tiles)
        own = sum(tiles[name] for name in ("Q^T", "O^T", "m,l", "S^T"))
        return FA2.workspace_bytes(spec, plan, seqlen_q, seqlen_k) - own

    assert beyond_the_tiles("fp32", 1000, 1000) == 0
    assert beyond_the_tiles("fp16", 1000, 1000) == 128 * (64 + 64) * 4
    assert beyond_the_tiles("bf16", 1000, 1000) == 8 * 128 * 64 * 2  # V of a head, in whole blocks
    assert beyond_the_tiles("bf16", 128, 1000) == 128 * 64 * 2  # one tile: nobody would meet it again
    assert beyond_the_tiles("bf16", 1000, 1_000_000) == 128 * 64 * 2  # too long to be kept
