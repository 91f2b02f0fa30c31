"""Which plans to measure, and how often, before the best meet in the final.

A strategy sees how plans stand, never how they were measured.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Protocol

from flashgen.errors import SpecError

FINALISTS = 4
_EXHAUSTIVE_ROUNDS = 5
_SAMPLE_SHARE, _SAMPLE_LEAST = 0.25, 16


@dataclass(frozen=True, slots=True)
class Stage:
    """What to do next.

    Attributes:
        rounds: turns that each of the plans must have had in all.
        indices: the plans, in the order of the first round.
    """

    rounds: int
    indices: tuple[int, ...]


class Strategy(Protocol):
    """Asked again and again what to do next, until it says that there is nothing."""

    name: ClassVar[str]

    def next(self, count: int, always: frozenset[int], standing: Mapping[int, float]) -> Stage | None:
        """The next stage, or None: on to the final.

        Args:
            count: how many plans there are, the most promising first.
            always: plans that must be in the first stage.
            standing: how the plans that were measured so far stand, the lower the better; failed ones are missing.
        """
        ...


class Exhaustive:
    """Every plan, five times."""

    name: ClassVar[str] = "exhaustive"

    def __init__(self) -> None:
        self._done = False

    def next(self, count: int, always: frozenset[int], standing: Mapping[int, float]) -> Stage | None:
        """All, once."""
        if self._done:
            return None
        self._done = True
        return Stage(_EXHAUSTIVE_ROUNDS, tuple(range(count)))


class RandomSample:
    """A quarter of the plans (at least 16), drawn at random, five times each."""

    name: ClassVar[str] = "random"

    def __init__(self, seed: int = 0) -> None:
        self._random = random.Random(seed)
        self._done = False

    def next(self, count: int, always: frozenset[int], standing: Mapping[int, float]) -> Stage | None:
        """A sample, once."""
        if self._done:
            return None
        self._done = True
        rest = [index for index in range(count) if index not in always]
        size = min(len(rest), max(_SAMPLE_LEAST, round(_SAMPLE_SHARE * count)))
        return Stage(_EXHAUSTIVE_ROUNDS, tuple(sorted(always | set(self._random.sample(rest, size)))))


class Halving:
    """Every plan once; then the better half once more, then its better half, until four are left."""

    name: ClassVar[str] = "halving"

    def __init__(self) -> None:
        self._rounds = 0
        self._alive: tuple[int, ...] = ()

    def next(self, count: int, always: frozenset[int], standing: Mapping[int, float]) -> Stage | None:
        """The better half of those that stand."""
        if self._rounds == 0:
            self._rounds, self._alive = 1, tuple(range(count))
            return Stage(self._rounds, self._alive)
        ranked = sorted((index for index in self._alive if index in standing), key=lambda index: standing[index])
        if len(ranked) <= FINALISTS:
            return None
        self._rounds += 1
        self._alive = tuple(ranked[: max(-(-len(ranked) // 2), FINALISTS)])
        return Stage(self._rounds, self._alive)


STRATEGIES: tuple[str, ...] = (Halving.name, Exhaustive.name, RandomSample.name)


def strategy_named(name: str, seed: int = 0) -> Strategy:
    """A new strategy of that name.

    Raises:
        SpecError: there is none.
    """
    if name == Halving.name:
        return Halving()
    if name == Exhaustive.name:
        return Exhaustive()
    if name == RandomSample.name:
        return RandomSample(seed)
    raise SpecError(f"Strategy {name!r} is not known. Strategies: {', '.join(STRATEGIES)}.")
