"""The search space: every plan that a family offers, and why some fell before anything was run."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from flashgen.errors import BudgetError
from flashgen.families.base import Family
from flashgen.spec import AttentionSpec
from flashgen.target import DeviceLimits, Target
from flashgen.tile_plan import TilePlan
from flashgen.tiling import plan_tiles
from flashgen.tuning.records.plans import key_of, plan_data

DEFAULT, RULE = "default", "rule"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A plan to measure.

    Attributes:
        plan: the plan.
        label: for tables: tile and knobs.
        roles: ``default`` if builds use it untuned, ``rule`` if the paper's rule leads to it.
    """

    plan: TilePlan
    label: str
    roles: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """Names the plan within its family."""
        return key_of(self.plan)


@dataclass(frozen=True, slots=True)
class Pruned:
    """A plan that is not measured.

    Attributes:
        data: its choices: br, bc and knobs.
        label: for tables.
        reason: why it fell, a sentence.
    """

    data: dict[str, Any]
    label: str
    reason: str


@dataclass(frozen=True, slots=True)
class Space:
    """What a sweep chooses from.

    Attributes:
        candidates: the default first, then the rule's plan, then the others by distance from the default.
        pruned: what fell.
    """

    candidates: tuple[Candidate, ...]
    pruned: tuple[Pruned, ...]

    @property
    def default(self) -> Candidate:
        """What a build uses untuned."""
        return self.candidates[0]

    @property
    def rule(self) -> Candidate | None:
        """The plan that the paper's rule leads to; None where nothing fits it."""
        return next((candidate for candidate in self.candidates if RULE in candidate.roles), None)


def make_space(
    family: Family,
    spec: AttentionSpec,
    target: Target,
    limits: DeviceLimits,
    default: TilePlan,
    sram_bytes: int | None = None,
) -> Space:
    """Lists the plans of a family, and prunes those whose exact bytes do not fit.

    The default plan and the rule's plan are always among the candidates.

    Args:
        family: the kernel family.
        spec: what is computed.
        target: where.
        limits: what the device allows.
        default: the plan that a build would use untuned.
        sram_bytes: the budget, or None for all that the device has. It is M of the rule, too.
    """
    allowed = limits.onchip_bytes if sram_bytes is None else sram_bytes
    fitting, pruned = {key_of(default): default}, []
    rule = _rule_plan(family, spec, target, limits, allowed)
    if rule is not None:
        fitting.setdefault(key_of(rule), rule)
    for br, bc in family.candidates(spec, target, limits):
        for knobs in family.knob_choices(spec, target, br, bc):
            footprint = family.footprint(spec, br, bc, knobs)
            plan = TilePlan(family.name, br, bc, knobs, footprint, "tuned", (), sram_bytes)
            if footprint.total <= allowed:
                fitting.setdefault(key_of(plan), plan)
            else:
                reason = f"it takes {footprint.total:,} bytes on chip of {allowed:,}"
                pruned.append(Pruned(plan_data(plan), label_of(family, plan), reason))
    roles = {key_of(default): (DEFAULT,)}
    if rule is not None:
        roles[key_of(rule)] = (*roles.get(key_of(rule), ()), RULE)
    found = [Candidate(plan, label_of(family, plan), roles.get(key, ())) for key, plan in fitting.items()]
    return Space(tuple(sorted(found, key=lambda candidate: _order(candidate, default))), tuple(pruned))


def label_of(family: Family, plan: TilePlan) -> str:
    """A plan in a table: ``64 x 128, registers 4 x 4``."""
    knobs = family.describe_knobs(plan.knobs)
    return f"{plan.br} x {plan.bc}" + (f", {knobs}" if knobs else "")


def _rule_plan(
    family: Family, spec: AttentionSpec, target: Target, limits: DeviceLimits, allowed: int
) -> TilePlan | None:
    try:
        return plan_tiles(family, spec, target, limits, sram_bytes=allowed)
    except BudgetError:
        return None


def _order(candidate: Candidate, default: TilePlan) -> tuple[int, float, str]:
    """The default, the rule's plan, then by distance in octaves: what a short sweep should see first."""
    plan = candidate.plan
    role = 0 if DEFAULT in candidate.roles else 1 if RULE in candidate.roles else 2
    distance = abs(math.log2(plan.br / default.br)) + abs(math.log2(plan.bc / default.bc))
    return role, round(distance, 6), candidate.key
