"""Rounds: plans take turns, and each turn is paired with one of the reference that lies beside it.

Plans are also the load meter. Where they are far slower than they usually are, other work disturbed the machine, and
the turns are thrown away and taken again. In a round of the final all contenders have a say in that: if the
reference alone had, throwing its slow turns away would flatter it.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable, Sequence

from flashgen.measure.clock import DISTURBED_BELOW
from flashgen.tuning.sweep.book import Book
from flashgen.tuning.sweep.runner import Runner
from flashgen.tuning.sweep.trial import FINAL, SCREENING, Failure, Trial

_CHUNK = 8  # turns between two of the reference
# What was disturbed is repeated; but where most is, repeating does not help.
_RETRIES, _RETRY_SHARE = 4, 0.25


class NothingWorksError(Exception):
    """Every plan has failed."""


class Rounds:
    """Measures trials in rounds.

    Attributes:
        discarded: how many chunks (screening) or rounds (final) were disturbed.
    """

    def __init__(self, trials: Sequence[Trial], runner: Runner, book: Book, tell: Callable[[], None]) -> None:
        """Takes trials in their order; the first that works is the reference.

        Args:
            trials: of all plans; those with failures get no turn.
            runner: gives turns.
            book: where turns are written.
            tell: called after each turn.
        """
        self._trials = trials
        self._runner = runner
        self._book = book
        self._tell = tell
        self._ready: set[int] = set()
        self._random = random.Random(0)
        self._history: dict[int, list[float]] = {}
        self._accepted = 0
        self.discarded = 0

    @property
    def reference(self) -> Trial:
        """What others are compared with.

        Raises:
            NothingWorksError: all have failed.
        """
        return self._trials[self.reference_index]

    @property
    def reference_index(self) -> int:
        """Its place among the trials."""
        for index, trial in enumerate(self._trials):
            if trial.failure is None and index in self._ready:
                return index
        raise NothingWorksError

    def prepare(self, indices: Sequence[int], until: float) -> bool:
        """Compiles some plans, until a time of the runner's clock; returns whether it got through them."""
        todo = [self._trials[i].candidate for i in indices if self._trials[i].failure is None]
        places = {trial.candidate.key: index for index, trial in enumerate(self._trials)}
        for candidate, failure in self._runner.prepare(todo, until):
            index = places[candidate.key]
            if failure is None:
                self._ready.add(index)
            else:
                self._fail(index, failure)
            self._tell()
        return all(index in self._ready or self._trials[index].failure is not None for index in indices)

    def prepared(self) -> int:
        """How many plans are compiled, or have failed."""
        return len(self._ready | {i for i, trial in enumerate(self._trials) if trial.failure is not None})

    def alive(self, indices: Sequence[int]) -> list[int]:
        """Those that are compiled and have not failed."""
        return [index for index in indices if index in self._ready and self._trials[index].failure is None]

    def screen(self, indices: Sequence[int], rounds: int, until: float) -> bool:
        """Lets each of some plans have its turns, until it has had so many; returns False if time was up before."""
        for turn in range(rounds):
            due = [i for i in self.alive(indices) if len(self._trials[i].turns.get(SCREENING, ())) <= turn]
            due = [i for i in due if i != self.reference_index]
            if turn:
                self._random.shuffle(due)
            for start in range(0, len(due), _CHUNK):
                if self._runner.now() >= until and self._any_measured():
                    return False
                self._chunk(due[start : start + _CHUNK])
        return True

    def race(self, indices: Sequence[int], until: float, stage: str = FINAL) -> None:
        """One round of the final, or of a confirmation: each plan once, the reference too, in an order that turns.

        A disturbed round is repeated, unless time is up.
        """
        while True:
            reference = self.reference_index
            contenders = self.alive(sorted({reference, *indices}))
            first = self._random.randrange(len(contenders))
            seconds = self._turns(contenders[first:] + contenders[:first])
            beside = seconds.get(reference)
            late = self._runner.now() >= until
            if beside is not None and (self._accept(self._load(seconds)) or late):
                self._note(stage, [(index, mine, beside) for index, mine in seconds.items()])
                return

    def _chunk(self, indices: Sequence[int]) -> None:
        """Some turns between two of the reference."""
        while True:
            reference = self.reference_index
            before = self._turns([reference]).get(reference)
            seconds = self._turns(self.alive(indices))
            after = self._turns([reference]).get(reference)
            if before is None or after is None:
                continue  # the reference failed, and another has taken its place
            if self._accept(max(self._load({reference: before}), self._load({reference: after}))):
                own = [(reference, before, before), (reference, after, after)]
                self._note(SCREENING, own + [(i, mine, (before + after) / 2) for i, mine in seconds.items()])
                return

    def _load(self, seconds: dict[int, float]) -> float:
        """How loaded the machine was: the median, over plans, of a turn's time over the plan's usual time."""
        ratios = [mine / statistics.median(self._history[index]) for index, mine in seconds.items()]
        return statistics.median(ratios)

    def _accept(self, load: float) -> bool:
        """Whether turns count: the machine was quiet, or it so rarely is that repeating them is no use."""
        self._accepted += 1
        if load <= 1 / DISTURBED_BELOW or self.discarded >= _RETRIES + _RETRY_SHARE * self._accepted:
            return True
        self._accepted -= 1
        self.discarded += 1
        return False

    def _turns(self, indices: Sequence[int]) -> dict[int, float]:
        found = {}
        for index in indices:
            answer = self._runner.turn(self._trials[index].candidate)
            if isinstance(answer, Failure):
                self._fail(index, answer)
            else:
                found[index] = answer
                self._history.setdefault(index, []).append(answer)
            self._tell()
        return found

    def _note(self, stage: str, turns: Sequence[tuple[int, float, float]]) -> None:
        """Keeps turns (plan, seconds, the reference's seconds), but for plans that failed meanwhile."""
        kept = [(self._trials[i], mine, beside) for i, mine, beside in turns if self._trials[i].failure is None]
        for trial, mine, beside in kept:
            trial.turns.setdefault(stage, []).append((mine, beside))
        self._book.turns(stage, kept)

    def _fail(self, index: int, failure: Failure) -> None:
        """Writes a plan off; if it was the reference, whatever was compared with it is void."""
        trial = self._trials[index]
        was_reference = index in self._ready and index == self.reference_index
        trial.failure = failure
        self._book.failed(trial, failure)
        if was_reference and any(other.turns for other in self._trials):
            self._book.restart(f"{trial.candidate.label} failed")
            for other in self._trials:
                other.turns.clear()

    def _any_measured(self) -> bool:
        return any(trial.turns for trial in self._trials)
