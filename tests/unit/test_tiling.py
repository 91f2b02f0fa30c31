"""The block rule as the paper states it, and the properties that any plan must have."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flashgen.dtypes import ALL, DType
from flashgen.errors import BudgetError, SpecError
from flashgen.families import FAMILIES, family_named, serving
from flashgen.families.base import Family, snap
from flashgen.families.cpu_common import multiples
from flashgen.spec import AttentionSpec, make_spec
from flashgen.target import PRESETS, Target, parse_target
from flashgen.tile_plan import TilePlan
from flashgen.tiling import m4d_rule, plan_tiles

KIB = 1024
V4 = parse_target("cpu:x86-64-v4")

families = st.sampled_from([family for family in FAMILIES if family.kind == "cpu"])
targets = st.sampled_from([target for target in PRESETS if target.kind == "cpu"])
specs = st.builds(make_spec, d=st.integers(1, 512), dtype=st.sampled_from(ALL), d_v=st.none() | st.integers(1, 512))


def plan_for(family: Family, spec: AttentionSpec, sram: int | None, target: Target = V4, **tile: int) -> TilePlan:
    return plan_tiles(family, spec, target, PRESETS[V4], sram_bytes=sram, **tile)


@pytest.mark.parametrize(
    ("d", "size", "m", "bc", "br", "elements", "fits"),
    [(64, 2, 49152, 192, 64, 45056, True), (64, 4, 24576, 96, 64, 26624, False),
     (128, 2, 49152, 96, 96, 58368, False), (80, 2, 49152, 154, 80, 49760, False)],
)  # fmt: skip
def test_the_rule_gives_the_papers_values_at_96_kb(
    d: int, size: int, m: int, bc: int, br: int, elements: int, fits: bool
) -> None:
    rule = m4d_rule(d, 98304, size)
    assert (rule.m_elements, rule.bc, rule.br) == (m, bc, br)
    needed = 2 * rule.bc * d + 2 * rule.br * d + rule.br * rule.bc  # K, V, Q, O and the S that "4d" forgets
    assert needed == elements
    assert (needed <= m) is fits


def test_the_rule_at_the_a100s_192_kib_gives_a_64_by_384_tile() -> None:
    rule = m4d_rule(64, 192 * KIB, 2)
    assert (rule.br, rule.bc) == (64, 384)


def test_the_owners_example_is_planned_as_documented() -> None:
    plan = plan_for(family_named("cpu_fa1"), make_spec(64), 98304)
    assert (plan.br, plan.bc, plan.footprint.total, plan.origin) == (64, 80, 94720, "rule")
    assert plan.trail == (
        "rule: M = 49,152 fp16 elements; Bc = ceil(M / 4d) = 192, Br = min(Bc, d=64) = 64",
        "fit: 64 x 192 takes 180,736 bytes of 98,304; 64 x 80 takes 94,720",
    )


def test_without_a_budget_the_default_tile_is_used_and_said() -> None:
    plan = plan_for(family_named("cpu_fa1"), make_spec(64), None)
    assert (plan.br, plan.bc, plan.origin, plan.rule, plan.sram_bytes) == (64, 64, "default", None, None)
    assert plan.trail[0].startswith("default: cpu_fa1 uses a 64 x 64 tile")


def test_snapping_leaves_a_line_in_the_trail() -> None:
    plan = plan_for(family_named("cpu_fa1"), make_spec(80), 96 * KIB)
    assert plan.trail[1].startswith("snap: 80 x 154 -> 80 x 144")


@given(family=families, spec=specs, target=targets, sram=st.integers(16 * KIB, 1024 * KIB))
@settings(deadline=None)
def test_a_plan_fits_its_budget_and_takes_tiles_that_the_family_has(
    family: Family, spec: AttentionSpec, target: Target, sram: int
) -> None:
    try:
        plan = plan_for(family, spec, sram, target)
    except BudgetError as error:
        assert error.required > error.limit == sram
        assert f"{error.required:,}" in str(error)
        assert f"{error.limit:,}" in str(error)
        return
    grid = family.grid(spec, target)
    assert plan.footprint.total <= sram
    assert plan.br in grid.br
    assert plan.bc in grid.bc
    assert plan.footprint == family.footprint(spec, plan.br, plan.bc, plan.knobs)
    assert plan.trail


@given(family=families, spec=specs, sram=st.integers(1 * KIB, 512 * KIB), more=st.integers(0, 512 * KIB))
@settings(deadline=None)
def test_a_plan_that_exists_under_a_budget_exists_under_every_larger_one(
    family: Family, spec: AttentionSpec, sram: int, more: int
) -> None:
    try:
        plan_for(family, spec, sram)
    except BudgetError:
        return
    assert plan_for(family, spec, sram + more).footprint.total <= sram + more


@given(
    family=st.sampled_from([family_named("cpu_fa1"), family_named("cpu_standard")]),
    spec=specs,
    br=st.integers(1, 300),
    bc=st.integers(1, 300),
    sram=st.integers(16 * KIB, 1024 * KIB),
)
@settings(deadline=None)
def test_a_users_tile_is_honoured_or_refused_with_the_bytes(
    family: Family, spec: AttentionSpec, br: int, bc: int, sram: int
) -> None:
    needed = family.footprint(spec, br, bc, None).total
    try:
        plan = plan_for(family, spec, sram, br=br, bc=bc)
        assert (plan.br, plan.bc, plan.origin) == (br, bc, "user")
        assert needed <= sram
    except BudgetError as error:
        assert needed > sram
        assert (error.required, error.limit) == (needed, sram)


@given(family=families, spec=specs, sram=st.integers(64 * KIB, 1024 * KIB))
@settings(deadline=None)
def test_one_side_given_without_the_other_is_completed(family: Family, spec: AttentionSpec, sram: int) -> None:
    smallest = family.grid(spec, V4)
    for side, value in (("br", smallest.br[0]), ("bc", smallest.bc[0])):
        try:
            plan = plan_for(family, spec, sram, **{side: value})
        except BudgetError:
            continue
        assert getattr(plan, side) == value
        assert plan.footprint.total <= sram


def test_a_side_without_a_budget_is_completed_with_the_default() -> None:
    plan = plan_for(family_named("cpu_fa1"), make_spec(64), None, br=7)
    assert (plan.br, plan.bc, plan.origin) == (7, 64, "user")


def test_a_budget_above_the_device_is_an_error_and_never_clamped() -> None:
    with pytest.raises(BudgetError, match="exceeds the L2 cache of one core") as caught:
        plan_for(family_named("cpu_fa1"), make_spec(64), 2 * 1024 * KIB)
    assert (caught.value.required, caught.value.limit) == (2 * 1024 * KIB, 1024 * KIB)


def test_the_default_tile_is_fitted_to_a_small_cache() -> None:
    small = PRESETS[parse_target("cpu:x86-64-v2")]
    plan = plan_tiles(family_named("cpu_fa1"), make_spec(512, "fp64"), parse_target("cpu:x86-64-v2"), small)
    assert plan.footprint.total <= small.onchip_bytes
    assert plan.trail[-1].startswith("fit: 64 x 64 takes")


@pytest.mark.parametrize("bad", [0, -1, True, 1.5])
def test_a_tile_side_must_be_a_positive_whole_number(bad: object) -> None:
    with pytest.raises(SpecError, match="positive whole number"):
        plan_for(family_named("cpu_fa1"), make_spec(64), None, br=bad)  # type: ignore[arg-type]


def test_snap_takes_the_largest_not_above_else_the_smallest() -> None:
    assert [snap(value, (4, 8, 16)) for value in (1, 4, 7, 8, 100)] == [4, 4, 4, 8, 16]


def test_tile_grids_run_from_single_rows_to_multiples() -> None:
    assert multiples(16, 64) == (1, 2, 4, 8, 16, 32, 48, 64)
    assert multiples(1, 3) == (1, 2, 3)


@pytest.mark.parametrize("dtype", ALL)
def test_auto_serves_every_dtype_on_every_cpu_target(dtype: DType) -> None:
    for target in (target for target in PRESETS if target.kind == "cpu"):
        best = serving(make_spec(64, dtype), target)[0]
        assert best.priority == max(family.priority for family in FAMILIES if family.kind == "cpu")


def test_an_algorithm_that_nothing_offers_is_refused_with_what_there_is() -> None:
    with pytest.raises(SpecError, match="Choose auto, standard, fa1, fa2"):
        serving(make_spec(64), V4, "fa9")


@pytest.mark.parametrize("target", [target for target in PRESETS if target.kind == "cpu"], ids=str)
@pytest.mark.parametrize("dtype", ALL)
def test_a_familys_tile_for_short_sequences_is_one_that_it_has(target: Target, dtype: DType) -> None:
    for family in (family for family in FAMILIES if family.kind == "cpu"):
        tile = family.small_tile(make_spec(64, dtype), target)
        if tile is not None:
            assert family.tile_refusal(make_spec(64, dtype), target, *tile) is None


def test_a_plan_prints_as_its_tile_its_bytes_and_its_trail() -> None:
    plan = plan_for(family_named("cpu_fa1"), make_spec(64, "fp32"), 96 * KIB)
    first, second, *trail = str(plan).splitlines()
    assert first == f"cpu_fa1, tile Br {plan.br} x Bc {plan.bc} (rule)"
    assert second.startswith(f"on chip {plan.footprint.total:,} bytes: Q 16,384")
    assert tuple(trail) == plan.trail
