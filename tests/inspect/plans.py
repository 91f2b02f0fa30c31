"""Plans for tests: any tile of any family, without a machine."""

from __future__ import annotations

from flashgen.families import family_named
from flashgen.spec import AttentionSpec, make_spec
from flashgen.target import Target, parse_target
from flashgen.tile_plan import TilePlan


def target_of(family: str) -> Target:
    return parse_target("cpu:x86-64-v3" if family.startswith("cpu") else "sm_80")


def takes(family: str, dtype: str) -> bool:
    return family_named(family).refusal(make_spec(64, dtype), target_of(family)) is None


def plan_of(family: str, spec: AttentionSpec, br: int, bc: int) -> TilePlan:
    """A plan with just this tile, legal or not: closed forms and executors must not care."""
    chosen = family_named(family)
    knobs = chosen.knobs(spec, target_of(family), max(br, 64), max(bc, 64))
    return TilePlan(family, br, bc, knobs, chosen.footprint(spec, br, bc, knobs), "user")
