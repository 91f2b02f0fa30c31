"""Strategies choose by how plans stand, and by nothing else."""

from __future__ import annotations

import pytest

from flashgen.errors import SpecError
from flashgen.tuning.sweep.strategy import FINALISTS, STRATEGIES, Stage, Strategy, strategy_named

ALWAYS = frozenset({0, 1})


def stages(strategy: Strategy, speeds: dict[int, float]) -> list[Stage]:
    """Plays a strategy against fixed speeds; plans that are missing have failed."""
    found, standing = [], {}
    while (stage := strategy.next(40, ALWAYS, standing)) is not None:
        found.append(stage)
        standing |= {index: speeds[index] for index in stage.indices if index in speeds}
        assert len(found) < 20
    return found


def test_halving_keeps_the_better_half_until_the_finalists_are_left() -> None:
    speeds = {index: float((index * 7) % 40) for index in range(40)}
    found = stages(strategy_named("halving"), speeds)
    assert [len(stage.indices) for stage in found] == [40, 20, 10, 5, 4]
    assert [stage.rounds for stage in found] == [1, 2, 3, 4, 5]
    assert {speeds[index] for index in found[-1].indices} == {0.0, 1.0, 2.0, 3.0}


def test_halving_does_not_bring_back_what_it_has_dropped() -> None:
    strategy = strategy_named("halving")
    standing = {index: float(index) for index in range(40)}
    strategy.next(40, ALWAYS, {})
    kept = strategy.next(40, ALWAYS, standing)
    assert kept is not None
    standing[39] = -1.0  # dropped, and now it seems to be the best
    again = strategy.next(40, ALWAYS, standing)
    assert again is not None
    assert set(again.indices) < set(kept.indices)


def test_halving_passes_over_plans_that_failed() -> None:
    found = stages(strategy_named("halving"), {index: float(index) for index in range(30, 40)})
    assert [len(stage.indices) for stage in found] == [40, 5, FINALISTS]


def test_exhaustive_measures_every_plan_five_times() -> None:
    assert stages(strategy_named("exhaustive"), {}) == [Stage(5, tuple(range(40)))]


def test_random_draws_a_sample_that_its_seed_repeats_with_the_default_and_the_rules_plan() -> None:
    first, same, other = (stages(strategy_named("random", seed), {})[0] for seed in (3, 3, 4))
    assert first == same != other
    assert set(first.indices) >= ALWAYS
    assert len(first.indices) == 2 + 16


def test_an_unknown_strategy_is_refused_with_the_names_of_the_others() -> None:
    with pytest.raises(SpecError, match="halving, exhaustive, random"):
        strategy_named("luck")
    assert {strategy_named(name).name for name in STRATEGIES} == set(STRATEGIES)
