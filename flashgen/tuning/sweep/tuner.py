"""The tuner: compile ahead, screen, let the best meet in a final, confirm the winner, judge. For one shape."""

from __future__ import annotations

from flashgen.errors import TuneError
from flashgen.tuning.sweep.book import Book, known_result
from flashgen.tuning.sweep.conclusion import Task, conclude, result_line
from flashgen.tuning.sweep.progress import COMPILING, CONFIRMING, Progress, Tell
from flashgen.tuning.sweep.result import ShapeResult
from flashgen.tuning.sweep.rounds import NothingWorksError, Rounds
from flashgen.tuning.sweep.runner import Runner
from flashgen.tuning.sweep.space import RULE
from flashgen.tuning.sweep.strategy import FINALISTS, Stage, Strategy
from flashgen.tuning.sweep.trial import CONFIRMATION, FINAL, SCREENING, Trial, reasons
from flashgen.tuning.sweep.verdict import decided, to_confirm

# Rounds after which the final, or a confirmation, may end. Not after each: whoever looks all the time will see a narrow
# interval by luck.
CHECKPOINTS = (9, 13, 19, 27, 37, 51, 71, 99, 141, 201)
_CONFIRMED_AT_MOST = 71
_COMPILE_SHARE, _SCREEN_SHARE, _FINAL_SHARE = 0.45, 0.7, 0.95
_TELL_SECONDS = 0.2


def tune_shape(task: Task, runner: Runner, strategy: Strategy, book: Book, tell: Tell) -> ShapeResult:
    """Measures the plans of a space and chooses one.

    Args:
        task: what to do.
        runner: compiles and times; the caller closes it.
        strategy: which plans to screen.
        book: the record.
        tell: is told how it goes.

    Raises:
        TuneError: every plan failed; the message says why.
    """
    trials = [Trial(candidate) for candidate in task.space.candidates]
    book.recall(trials)
    known = known_result(book.known)
    if known is not None:
        return conclude(task, trials, book.file.path, runner.how, "record", 0.0, 0)
    sweep = _Sweep(task, trials, runner, strategy, book, tell)
    try:
        return sweep.run()
    except NothingWorksError:
        raise TuneError(
            f"No plan of {task.request.family.name} works for {task.request.spec.summary} at {task.shape.label} "
            f"on {task.request.target}: {reasons(trials) or 'nothing could be tried'}.",
            trials=tuple(trials),
        ) from None


class _Sweep:
    def __init__(
        self, task: Task, trials: list[Trial], runner: Runner, strategy: Strategy, book: Book, tell: Tell
    ) -> None:
        self._task = task
        self._trials = trials
        self._runner = runner
        self._strategy = strategy
        self._book = book
        self._tell = tell
        self._start = runner.now()
        self._stage = COMPILING
        self._goal = len(trials)
        self._told = -_TELL_SECONDS
        self._rounds = Rounds(trials, runner, book, self._tell_progress)

    def run(self) -> ShapeResult:
        in_time = self._screen()
        ended_by = self._final()
        self._confirm()
        stopped_by = ended_by if in_time else "time limit"
        seconds = self._runner.now() - self._start
        result = conclude(
            self._task,
            self._trials,
            self._book.file.path,
            self._runner.how,
            stopped_by,
            seconds,
            self._rounds.discarded,
        )
        self._book.result(result_line(result))
        return result

    def _screen(self) -> bool:
        """Goes through the strategy's stages; returns whether there was time for all of them."""
        stage = self._next_stage()
        assert stage is not None, "every strategy begins with a stage"
        self._goal = len(stage.indices)
        in_time = self._rounds.prepare(stage.indices, self._at(_COMPILE_SHARE))
        _ = self._rounds.reference  # nothing compiles: say so now
        self._stage = SCREENING
        while stage is not None:
            self._goal = len(stage.indices)
            in_time &= self._rounds.screen(stage.indices, stage.rounds, self._at(_SCREEN_SHARE))
            late, stage = self._late(_SCREEN_SHARE), self._next_stage()
            if late:
                return in_time and stage is None
        return in_time

    def _next_stage(self) -> Stage | None:
        always = frozenset(i for i, trial in enumerate(self._trials) if trial.candidate.roles)
        standing = {
            index: ratio.median
            for index, trial in enumerate(self._trials)
            if trial.failure is None and (ratio := trial.ratio(SCREENING)) is not None
        }
        return self._strategy.next(len(self._trials), always, standing)

    def _final(self) -> str:
        """Races the best, until every one of them is decided; returns what ended it."""
        self._stage, self._goal = FINAL, 0
        contenders = self._contenders()
        while True:
            done = len(self._rounds.reference.turns.get(FINAL, ()))
            others = [self._trials[i] for i in self._rounds.alive(contenders) if i != self._rounds.reference_index]
            if done in CHECKPOINTS and decided(others, self._rounds.reference, self._task.request.difference):
                return "confidence"
            if done >= CHECKPOINTS[-1]:
                return "rounds"
            if done and self._late(_FINAL_SHARE):
                return "time limit"
            self._rounds.race(contenders, self._at(_FINAL_SHARE))

    def _confirm(self) -> None:
        """Lets the winner of the final meet the default once more, in fresh turns of another process.

        Were it but the luckiest of the finalists, or fast only where its data happened to lie, it would not win again.
        A few turns are taken even if time is up: without them nothing would come of the sweep.
        """
        self._stage, self._goal = CONFIRMING, 0
        difference, renewed = self._task.request.difference, False
        while True:
            default, reference = self._trials[0], self._rounds.reference
            winner = to_confirm(self._trials, default, reference, difference)
            turns = winner.turns.get(CONFIRMATION, []) if winner else []
            enough = len(turns) >= CHECKPOINTS[0] and self._late(1.0)
            if winner is None or enough or len(turns) >= _CONFIRMED_AT_MOST:
                return
            if not renewed:
                self._runner.renew()
                renewed = True
            for _ in range(_to_next_checkpoint(len(turns))):
                self._rounds.race([self._trials.index(winner)], self._at(1.0), CONFIRMATION)

    def _contenders(self) -> list[int]:
        """The best of the screening, with the default and the rule's plan; those of a final begun earlier, too."""
        ranked = sorted(
            (ratio.median, index)
            for index, trial in enumerate(self._trials)
            if trial.failure is None and (ratio := trial.ratio(SCREENING)) is not None
        )
        best = {index for _, index in ranked[:FINALISTS]}
        kept = {i for i, trial in enumerate(self._trials) if trial.turns.get(FINAL) or RULE in trial.candidate.roles}
        return sorted(best | kept | {self._rounds.reference_index})

    def _at(self, share: float) -> float:
        return self._start + share * self._task.seconds

    def _late(self, share: float) -> bool:
        return self._runner.now() >= self._at(share)

    def _tell_progress(self) -> None:
        if self._runner.now() - self._told < _TELL_SECONDS:
            return
        self._told = self._runner.now()
        measured = [trial for trial in self._trials if trial.failure is None and trial.turns]
        best = min(measured, key=_standing, default=None)
        done = {
            COMPILING: self._rounds.prepared(),
            SCREENING: min(sum(bool(trial.turns or trial.failure) for trial in self._trials), self._goal),
            FINAL: max((len(trial.turns.get(FINAL, ())) for trial in self._trials), default=0),
            CONFIRMING: max((len(trial.turns.get(CONFIRMATION, ())) for trial in self._trials[1:]), default=0),
        }
        self._tell(
            Progress(
                self._task.shape.label,
                self._stage,
                done[self._stage],
                self._goal,
                sum(trial.failure is not None for trial in self._trials),
                best.candidate.label if best else "",
                _standing(best)[1] if best else 1.0,
                max(self._at(1.0) - self._runner.now(), 0.0),
            )
        )


def _to_next_checkpoint(done: int) -> int:
    return next(rounds for rounds in CHECKPOINTS if rounds > done) - done


def _standing(trial: Trial) -> tuple[bool, float]:
    """Finalists first: one that was screened once may look fast by luck."""
    ratio = trial.ratio()
    return trial.stage != FINAL, ratio.median if ratio else float("inf")
