"""Which plan serves a call: of the families that a request allows, by the call's shape, and by what was tuned."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

from flashgen.errors import BudgetError
from flashgen.families import decoding, family_named, serving
from flashgen.families.base import Family
from flashgen.runtime.device import limits_of
from flashgen.runtime.dispatch import DECODE, GENERAL, SMALL, SMALL_ROWS
from flashgen.runtime.kernel import Problem
from flashgen.spec import AttentionSpec
from flashgen.target import Target
from flashgen.tile_plan import TilePlan
from flashgen.tiling import plan_tiles
from flashgen.tuning.records.bucket import Bucket, bucket_for
from flashgen.tuning.records.lookup import tuned_plans


@dataclass(slots=True)
class Choice:
    """The plans of one build, by shape class.

    Attributes:
        plans: shape class -> plan. The general one is always there.
        most_packed_rows: heads that share a K and V -> query rows of all of them, up to which a call is of class DECODE
        tuned: family's name -> bucket -> the class whose plan autotune has found for it.
    """

    plans: dict[str, TilePlan]
    most_packed_rows: Callable[[int], int] = lambda group: 0
    tuned: dict[str, dict[Bucket, str]] = field(default_factory=dict)

    def classify(self, problem: Problem) -> str:
        """The shape class of a call."""
        untuned = self.untuned_class(problem)
        name = self.plans[untuned].family
        buckets = self.tuned.get(name)
        if not buckets:
            return untuned
        p = problem
        bucket = bucket_for(family_named(name), p.batch, p.num_heads, p.num_heads_kv, p.seqlen_q, p.seqlen_k)
        return buckets.get(bucket, untuned)

    def untuned_class(self, problem: Problem) -> str:
        """The shape class of a call if nothing was tuned. Its plan's family is the one that serves the call."""
        p = problem
        group = p.num_heads // p.num_heads_kv
        if p.seqlen_q * group <= self.most_packed_rows(group):
            return DECODE
        return SMALL if SMALL in self.plans and p.seqlen_q <= SMALL_ROWS else GENERAL

    def add_tuned(self, spec: AttentionSpec, target: Target) -> None:
        """Adds the plans that autotune has found, one class for each."""
        sram_bytes = self.plans[GENERAL].sram_bytes
        for name in dict.fromkeys(plan.family for plan in self.plans.values()):
            self.tuned[name] = self._add(tuned_plans(spec, target, family_named(name), sram_bytes))

    def _add(self, found: Mapping[Bucket, TilePlan]) -> dict[Bucket, str]:
        classes: dict[tuple[int, int, object], str] = {}
        buckets = {}
        for bucket, plan in found.items():
            buckets[bucket] = classes.setdefault((plan.br, plan.bc, plan.knobs), f"tuned for {bucket.name}")
            self.plans.setdefault(buckets[bucket], plan)
        return buckets


def choose(
    spec: AttentionSpec,
    target: Target,
    algorithm: str,
    sram_bytes: int | None,
    br: int | None = None,
    bc: int | None = None,
) -> Choice:
    """The plans that a build uses if nothing was tuned.

    Args:
        spec: what is computed.
        target: where.
        algorithm: ``auto`` or the one that must serve all calls.
        sram_bytes: the budget, or None.
        br: query rows of a tile that the user insists on, for all calls.
        bc: keys likewise.

    Raises:
        SpecError: nothing serves it.
        BudgetError: no tile fits.
    """
    choice = choice_of(serving(spec, target, algorithm)[0], spec, target, sram_bytes, br, bc)
    few_rows = decoding(spec, target) if algorithm == "auto" and br is None and bc is None else None
    if few_rows is not None:
        try:
            plan = plan_tiles(few_rows, spec, target, limits_of(target), sram_bytes=sram_bytes)
        except BudgetError:  # then the general kernel serves these calls too
            return choice
        choice.plans[DECODE], choice.most_packed_rows = plan, partial(few_rows.most_packed_rows, spec, target)
    return choice


def choice_of(
    family: Family,
    spec: AttentionSpec,
    target: Target,
    sram_bytes: int | None,
    br: int | None = None,
    bc: int | None = None,
) -> Choice:
    """The plans of one family; arguments as `choose` takes them.

    Raises:
        SpecError: the family has no such tile.
        BudgetError: no tile fits.
    """
    general = plan_tiles(family, spec, target, limits_of(target), sram_bytes=sram_bytes, br=br, bc=bc)
    small = {} if br is not None or bc is not None else _small_plan(general, spec, target)
    return Choice({GENERAL: general} | small)


def _small_plan(general: TilePlan, spec: AttentionSpec, target: Target) -> dict[str, TilePlan]:
    """The plan for short sequences, where the family has a tile for them that the budget allows."""
    family = family_named(general.family)
    tile = family.small_tile(spec, target)
    if tile is None:
        return {}
    br, bc = tile
    knobs = family.knobs(spec, target, br, bc)
    footprint = family.footprint(spec, br, bc, knobs)
    if footprint.total > general.footprint.total or (br, bc) == (general.br, general.bc):
        return {}
    trail = (f"small: {family.name} uses a {br} x {bc} tile for up to {SMALL_ROWS} query rows",)
    return {SMALL: TilePlan(family.name, br, bc, knobs, footprint, "default", trail, general.sram_bytes, general.rule)}
