"""Medians and their confidence intervals."""

from __future__ import annotations

import math
import random

import pytest

from flashgen.tuning.sweep.statistic import median_interval, spread


@pytest.mark.parametrize(
    ("count", "ranks"), [(6, (1, 6)), (8, (1, 8)), (9, (2, 8)), (15, (4, 12)), (20, (6, 15)), (100, (40, 61))]
)
def test_the_interval_lies_at_the_ranks_that_statistics_tables_give(count: int, ranks: tuple[int, int]) -> None:
    found = median_interval([float(value) for value in range(1, count + 1)], confidence=0.95)
    assert (found.low, found.high) == ranks
    assert found.median == (count + 1) / 2


@pytest.mark.parametrize("count", [1, 2, 7])
def test_fewer_than_eight_values_tell_nothing(count: int) -> None:
    found = median_interval([2.0] * count)
    assert (found.low, found.median, found.high) == (0.0, 2.0, math.inf)


def test_the_interval_holds_the_true_median_as_often_as_it_says() -> None:
    rng = random.Random(1)
    held = 0
    for _ in range(2000):
        found = median_interval([rng.expovariate(1.0) for _ in range(15)], confidence=0.95)
        held += found.low <= math.log(2) <= found.high
    assert 0.95 <= held / 2000 <= 0.985  # 96.5% for 15 values


def test_the_spread_of_few_values_is_their_whole_range() -> None:
    assert spread([1.0, 1.0, 2.0]) == 1.0
    assert spread([1.0, 1.0, 1.0, 1.0, 9.0]) < 8
