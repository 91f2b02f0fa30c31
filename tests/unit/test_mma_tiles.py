"""The table of cuda_fa2_mma: every entry is one that the family has, the tuner offers, and the device allows."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from flashgen.errors import BudgetError
from flashgen.families import family_named
from flashgen.families.cuda_mma_tiles import MmaKnobs
from flashgen.inspect.occupancy import occupancy
from flashgen.spec import Causal, make_spec
from flashgen.target import PRESETS, Target, capability, parse_target
from flashgen.tiling import plan_tiles

FAMILY = family_named("cuda_fa2_mma")
TARGETS = [target for target in PRESETS if target.kind == "cuda" and not FAMILY.refusal(make_spec(64), target)]
HEAD_DIMS = (8, 32, 40, 64, 80, 96, 112, 128, 160, 192, 256)


@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_every_default_is_legal(target: Target) -> None:
    limits = PRESETS[target]
    for d, d_v, causal in itertools.product(HEAD_DIMS, (None, 8, 256), (False, True)):
        spec = make_spec(d, "fp16", causal, d_v)
        plan = plan_tiles(FAMILY, spec, target, limits)
        knobs, choices = plan.knobs, FAMILY.knob_choices(spec, target, plan.br, plan.bc)
        assert (plan.br, plan.bc) == FAMILY.default_tile(spec, target), "the default is not fitted"
        assert FAMILY.tile_refusal(spec, target, plan.br, plan.bc) is None
        assert plan.br == knobs.warps * knobs.rows and knobs.rows in (16, 32)
        assert plan.footprint.total <= limits.onchip_bytes
        assert choices[0] == knobs and len(set(choices)) == len(choices)
        assert occupancy(target, limits, 32 * knobs.warps, 255, plan.footprint.total).ctas >= 1


@pytest.mark.parametrize("target", TARGETS, ids=str)
@pytest.mark.parametrize("causal", list(Causal), ids=str)
def test_two_stages_cost_no_cta(target: Target, causal: Causal) -> None:
    """An SM has as many CTAs of a default with two stages as it would have with one."""
    limits = PRESETS[target]
    for d in HEAD_DIMS:
        spec = make_spec(d, "fp16", causal.as_json)
        plan = plan_tiles(FAMILY, spec, target, limits)
        one = FAMILY.footprint(spec, plan.br, plan.bc, replace(plan.knobs, stages=1))
        two, fewer = (
            occupancy(target, limits, 32 * plan.knobs.warps, 255, size.total).ctas for size in (plan.footprint, one)
        )
        assert two == fewer
        assert plan.knobs.stages == 1 or capability(target) >= 80


def test_a_mask_has_tiles_of_its_own() -> None:
    sm_86, sm_80 = parse_target("sm_86"), parse_target("sm_80")
    assert FAMILY.default_tile(make_spec(128), sm_86) == (128, 32)
    assert FAMILY.default_tile(make_spec(128, causal=True), sm_86) == (64, 64)
    assert FAMILY.default_tile(make_spec(192), sm_80) == (128, 96)
    assert FAMILY.default_tile(make_spec(192, causal="top_left"), sm_80) == (128, 80)


@pytest.mark.parametrize("d,d_v", [(64, 64), (40, 24), (72, 136), (256, 8), (8, 256)])
@pytest.mark.parametrize("knobs", [MmaKnobs(4, 16, q, stages) for q in (False, True) for stages in (1, 2)], ids=str)
def test_bytes_are_those_of_the_largest_thing_that_is_there_at_a_time(d: int, d_v: int, knobs: MmaKnobs) -> None:
    br, bc, row, row_v = 64, 32, -(-d // 8) * 16, -(-d_v // 8) * 16
    blocks = knobs.stages * bc * (row + row_v)
    q, o = br * row, br * row_v
    footprint = FAMILY.footprint(make_spec(d, d_v=d_v), br, bc, knobs)
    assert footprint.total == (max(q, o, blocks) if knobs.q_in_registers else max(q + blocks, o))
    assert all(size > 0 for _, size in footprint.tiles)


def test_a_budget_takes_the_second_stage_before_it_takes_keys() -> None:
    sm_80 = parse_target("sm_80")
    usual, less = (
        plan_tiles(FAMILY, make_spec(64), sm_80, PRESETS[sm_80], sram_bytes=sram, br=128, bc=64)
        for sram in (32768, 32767)
    )
    assert (usual.knobs.stages, usual.footprint.total) == (2, 32768)
    assert less.knobs == replace(usual.knobs, stages=1)
    assert less.footprint.total == 16384
    assert less.trail[-1] == (
        "fit: 128 x 64 takes 32,768 bytes of 32,767; 128 x 64 takes 16,384 with 4 warps of 32 rows, Q in registers"
    )
    with pytest.raises(BudgetError) as caught:
        plan_tiles(FAMILY, make_spec(64), sm_80, PRESETS[sm_80], sram_bytes=16383, br=128, bc=64)
    assert caught.value.required == 16384


def test_a_lone_warp_is_one_warp() -> None:
    knobs = FAMILY.knob_choices(make_spec(64), parse_target("sm_80"), 32, 32)
    described = {FAMILY.describe_knobs(choice).partition(", Q")[0] for choice in knobs}
    assert described == {"2 warps of 16 rows", "1 warp of 32 rows"}


def test_the_rule_seeds_the_tile_and_the_trail_says_what_became_of_it() -> None:
    sm_80 = parse_target("sm_80")
    plan = plan_tiles(FAMILY, make_spec(128), sm_80, PRESETS[sm_80], sram_bytes=160 * 1024)
    assert (plan.br, plan.bc, plan.origin) == (128, 64, "rule")
    assert plan.trail == (
        "rule: M = 81,920 fp16 elements; Bc = ceil(M / 4d) = 160, Br = min(Bc, d=128) = 128",
        "snap: 128 x 160 -> 128 x 64, which cuda_fa2_mma has",
        "fit: 128 x 64 takes 65,536 bytes of 163,840",
    )
