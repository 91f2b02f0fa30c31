"""The space: what a family offers, what fell and why."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flashgen.choice import choice_of
from flashgen.dtypes import ALL
from flashgen.families import FAMILIES, family_named
from flashgen.families.base import Family
from flashgen.runtime.device import limits_of
from flashgen.runtime.kernel import Problem
from flashgen.spec import AttentionSpec, make_spec
from flashgen.target import PRESETS, Target, parse_target
from flashgen.tile_plan import TilePlan
from flashgen.tiling import plan_tiles
from flashgen.tuning.sweep.space import Space, make_space

V4 = parse_target("cpu:x86-64-v4")


def default_plan(
    family: Family, spec: AttentionSpec, target: Target, sram: int | None = None, seqlen_q: int = 1024
) -> TilePlan:
    choice = choice_of(family, spec, target, sram)
    return choice.plans[choice.untuned_class(Problem.of_sizes(1, 8, 8, seqlen_q, seqlen_q))]


def space_of(
    family: Family, spec: AttentionSpec, target: Target, sram: int | None = None, seqlen_q: int = 1024
) -> Space:
    default = default_plan(family, spec, target, sram, seqlen_q)
    return make_space(family, spec, target, limits_of(target), default, sram)


@given(
    family=st.sampled_from(FAMILIES),
    target=st.sampled_from(list(PRESETS)),
    spec=st.builds(make_spec, d=st.integers(1, 256), dtype=st.sampled_from(ALL)),
    sram=st.none() | st.sampled_from([48, 56, 64]).map(lambda kib: kib * 1024),
)
def test_every_candidate_is_a_tile_of_the_family_within_its_bytes(
    family: Family, target: Target, spec: AttentionSpec, sram: int | None
) -> None:
    if family.refusal(spec, target) is not None:
        return
    limits = limits_of(target)
    space = space_of(family, spec, target, sram)
    allowed = sram or limits.onchip_bytes
    assert len({candidate.key for candidate in space.candidates}) == len(space.candidates)
    for candidate in space.candidates:
        plan = candidate.plan
        assert family.tile_refusal(spec, target, plan.br, plan.bc) is None
        assert plan.footprint == family.footprint(spec, plan.br, plan.bc, plan.knobs)
        assert plan.footprint.total <= allowed
        assert plan.knobs in family.knob_choices(spec, target, plan.br, plan.bc)
    for pruned in space.pruned:
        assert f"of {allowed:,}" in pruned.reason


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_the_default_and_the_rules_plan_are_always_there_and_come_first(family: Family) -> None:
    spec, target = make_spec(64, "fp32"), V4 if family.kind == "cpu" else parse_target("sm_80")
    space = space_of(family, spec, target)
    rule = plan_tiles(family, spec, target, limits_of(target), sram_bytes=limits_of(target).onchip_bytes)
    assert space.default.plan == default_plan(family, spec, target)
    assert space.rule is not None
    assert (space.rule.plan.br, space.rule.plan.bc) == (rule.br, rule.bc)
    assert {role for candidate in space.candidates[:2] for role in candidate.roles} == {"default", "rule"}
    assert [candidate for candidate in space.candidates[2:] if candidate.roles] == []


def test_a_budget_is_m_of_the_rule() -> None:
    spec, family = make_spec(64, "fp32"), family_named("cpu_fa1")
    space = space_of(family, spec, V4, 96 * 1024)
    assert space.rule is not None
    assert space.rule.plan.rule is not None
    assert space.rule.plan.rule.m_elements == 24576
    assert space.pruned


def test_short_calls_are_compared_with_the_plan_that_serves_them() -> None:
    spec, family = make_spec(64, "fp32"), family_named("cpu_fa2")
    small, general = (space_of(family, spec, V4, seqlen_q=rows).default.plan for rows in (64, 65))
    assert (small.br, small.bc) == (32, 64)
    assert (general.br, general.bc) == family.default_tile(spec, V4)


def test_register_tiles_are_part_of_the_space() -> None:
    space = space_of(family_named("cpu_fa2"), make_spec(64, "fp32"), V4)
    labels = [candidate.label for candidate in space.candidates]
    assert labels[0].endswith("x 128, registers 4 x 4")
    assert "64 x 128, registers 4 x 4" in labels and "64 x 128, registers 8 x 2" in labels


def test_promising_plans_come_early() -> None:
    family, spec = family_named("cpu_fa2"), make_spec(64, "fp32")
    plan = space_of(family, spec, V4).candidates[2].plan
    assert (plan.br, plan.bc) == family.default_tile(spec, V4)
