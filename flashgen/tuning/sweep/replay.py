"""A runner that replays recorded seconds: for tests of the tuner, and to try strategies on old records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

from flashgen.tuning.sweep.space import Candidate
from flashgen.tuning.sweep.trial import COMPILE, Failure


class ReplayRunner:
    """Plays what happened, by plan key; its clock moves by the seconds that are played.

    Attributes:
        turns: plan keys in the order in which they had their turns.
    """

    how: ClassVar[str] = "measured"

    def __init__(self, recorded: Mapping[str, Sequence[float] | Failure], *, compile_seconds: float = 0.0) -> None:
        """Takes the recorded outcomes.

        Args:
            recorded: plan key -> seconds of its turns, repeated when they are used up; or its failure.
            compile_seconds: what compiling a plan takes on the replay's clock.
        """
        self._recorded = recorded
        self._played: dict[str, int] = {}
        self._compile_seconds = compile_seconds
        self._now = 0.0
        self.turns: list[str] = []

    def now(self) -> float:
        """Seconds played so far."""
        return self._now

    def prepare(self, candidates: Sequence[Candidate], until: float) -> Iterator[tuple[Candidate, Failure | None]]:
        """All at the cost of their compile seconds; recorded compile errors fail here."""
        for number, candidate in enumerate(candidates):
            if number and self._now >= until:
                return
            self._now += self._compile_seconds
            outcome = self._recorded[candidate.key]
            failed = isinstance(outcome, Failure) and outcome.kind == COMPILE
            yield candidate, outcome if failed and isinstance(outcome, Failure) else None

    def turn(self, candidate: Candidate) -> float | Failure:
        """The next recorded seconds."""
        self.turns.append(candidate.key)
        outcome = self._recorded[candidate.key]
        if isinstance(outcome, Failure):
            return outcome
        played = self._played.get(candidate.key, 0)
        self._played[candidate.key] = played + 1
        seconds = outcome[played % len(outcome)]
        self._now += seconds
        return seconds

    def renew(self) -> None:
        """What was recorded was recorded."""

    def close(self) -> None:
        """Nothing to end."""
