"""The clock of CPU kernels, on a clock of its own."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tuning_stage import candidate

from flashgen.measure import clock
from flashgen.tuning.sweep.bench import WallClock

PLAN = candidate(16, 16).plan


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, which only calls move."""
    time = [0.0]
    monkeypatch.setattr(clock.time, "perf_counter", lambda: time[0])
    return time


def calls(now: list[float], seconds: list[float]) -> tuple[Callable[[], None], list[int]]:
    """A call that takes one of some times after the other, and how often it was called."""
    count = [0]

    def call() -> None:
        now[0] += seconds[count[0] % len(seconds)]
        count[0] += 1

    return call, count


def test_a_turn_is_the_fastest_of_three_so_that_one_interruption_does_not_show(now: list[float]) -> None:
    measure = WallClock()
    call, _ = calls(now, [0.005, 0.005, 0.005, 0.040])
    assert [measure(PLAN, call) for _ in range(6)] == pytest.approx([0.005] * 6)


def test_short_calls_are_timed_many_at_once(now: list[float]) -> None:
    measure = WallClock()
    call, count = calls(now, [1e-5])
    assert measure(PLAN, call) == pytest.approx(1e-5)
    before = count[0]
    measure(PLAN, call)
    assert count[0] - before >= 3 * 200


def test_long_calls_are_warmed_up_and_timed_once(now: list[float]) -> None:
    measure = WallClock()
    call, count = calls(now, [1.0])
    measure(PLAN, call)
    before = count[0]
    assert measure(PLAN, call) == 1.0
    assert count[0] - before == 2
