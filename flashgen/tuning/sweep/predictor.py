"""The sweep without a GPU: plans are compiled, emulated and ranked by the model, several at once."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from flashgen.emulator import PtxError
from flashgen.errors import LaunchError, TuneError
from flashgen.pipeline import Built
from flashgen.spec import AttentionSpec
from flashgen.target import Target
from flashgen.tile_plan import TilePlan
from flashgen.tuning.model.estimate import Prediction, WrongResultError, predict, resource_complaint
from flashgen.tuning.model.parts import Problem
from flashgen.tuning.records.plans import plan_data
from flashgen.tuning.records.validity import PREDICTED
from flashgen.tuning.sweep.bench import Tools
from flashgen.tuning.sweep.book import Book, known_result
from flashgen.tuning.sweep.conclusion import Task, conclude, result_line
from flashgen.tuning.sweep.jobs import CompileJob
from flashgen.tuning.sweep.pool import Pool
from flashgen.tuning.sweep.progress import PREDICTING, Progress, Tell
from flashgen.tuning.sweep.request import Request
from flashgen.tuning.sweep.result import ShapeResult
from flashgen.tuning.sweep.shape import Shape
from flashgen.tuning.sweep.space import Candidate, Pruned, Space
from flashgen.tuning.sweep.trial import RESOURCES, UNPREDICTED, WRONG, Failure, Trial, reasons

_LIMIT = 300.0  # seconds for one plan; the first one may compile the emulator


@dataclass(frozen=True, slots=True)
class ResourceJob:
    """Compiles a plan and asks ptxas about it; the answer is a `Built` or a `Failure`."""

    spec: AttentionSpec
    plan: TilePlan
    target: Target
    tools: Tools

    def run(self, kept: dict[str, Any]) -> Built | Failure:
        """Through the store, so that what was compiled once is found."""
        built = CompileJob(self.spec, self.plan, self.target, self.tools).run(kept)
        if isinstance(built, Failure):
            return built
        complaint = resource_complaint(built)
        return Failure(RESOURCES, f"ptxas: {complaint}") if complaint else built


@dataclass(frozen=True, slots=True)
class PredictJob:
    """Predicts a plan; the answer is a `Prediction` or a `Failure`."""

    compile: ResourceJob
    shape: Shape

    def run(self, kept: dict[str, Any]) -> Prediction | Failure:
        """Compiles, emulates and times it."""
        built = self.compile.run(kept)
        if isinstance(built, Failure):
            return built
        s = self.shape
        try:
            return predict(built, Problem(s.batch, s.heads, s.heads_kv, s.seqlen_q, s.seqlen_k))
        except (WrongResultError, LaunchError) as error:
            return Failure(WRONG, str(error))
        except PtxError as error:
            return Failure(UNPREDICTED, str(error))


def predict_shape(task: Task, pool: Pool, tools: Tools, book: Book, tell: Tell) -> ShapeResult:
    """Ranks the plans of a space by the model.

    Args:
        task: what to do.
        pool: workers; the caller closes them.
        tools: the compiler.
        book: the record.
        tell: is told how it goes.

    Raises:
        TuneError: no plan could be predicted; the message says why.
    """
    trials = [Trial(candidate) for candidate in task.space.candidates]
    book.recall(trials)
    if known_result(book.known) is not None:
        return conclude(task, trials, book.file.path, PREDICTED, "record", 0.0, 0)
    start = time.monotonic()
    request, until = task.request, start + task.seconds
    todo = [i for i, trial in enumerate(trials) if trial.failure is None and trial.predicted is None]
    jobs = [(i, _job(request, task.shape, trials[i].candidate, tools)) for i in todo]
    for index, answer in pool.run(jobs, until=until, limit=_LIMIT):
        trial = trials[index]
        if isinstance(answer, Failure):
            trial.failure = answer
            book.failed(trial, answer)
        else:
            trial.predicted, trial.details = answer.seconds, answer.as_dict()
            book.predicted(trial, answer.seconds, trial.details)
        tell(_progress(task, trials, until))
    if all(trial.predicted is None for trial in trials):
        raise TuneError(
            f"No plan of {request.family.name} could be predicted for {request.spec.summary} at {task.shape.label} on "
            f"{request.target}: {reasons(trials) or 'nothing could be tried'}.",
            trials=tuple(trials),
        )
    tried = all(trial.status != "not tried" for trial in trials)
    stopped_by = "all" if tried else "time limit"
    result = conclude(task, trials, book.file.path, PREDICTED, stopped_by, time.monotonic() - start, 0)
    book.result(result_line(result))
    return result


def prune_by_ptxas(space: Space, request: Request, tools: Tools, jobs: int) -> Space:
    """The space without plans that do not compile, or whose registers ptxas had to spill.

    The default and the rule's plan stay; a sweep will tell what is wrong with them.
    """
    pool = Pool(jobs)
    try:
        work = [
            (candidate, ResourceJob(request.spec, candidate.plan, request.target, tools))
            for candidate in space.candidates
            if not candidate.roles
        ]
        fallen = {
            candidate: answer
            for candidate, answer in pool.run(work, until=float("inf"), limit=_LIMIT)
            if isinstance(answer, Failure)
        }
    finally:
        pool.close()
    return Space(
        tuple(candidate for candidate in space.candidates if candidate not in fallen),
        (*space.pruned, *(_pruned(candidate, failure) for candidate, failure in fallen.items())),
    )


def _job(request: Request, shape: Shape, candidate: Candidate, tools: Tools) -> PredictJob:
    return PredictJob(ResourceJob(request.spec, candidate.plan, request.target, tools), shape)


def _pruned(candidate: Candidate, failure: Failure) -> Pruned:
    return Pruned(plan_data(candidate.plan), candidate.label, str(failure))


def _progress(task: Task, trials: Sequence[Trial], until: float) -> Progress:
    times = {trial.candidate.label: trial.predicted for trial in trials if trial.predicted is not None}
    best = min(times, key=lambda label: times[label], default="")
    default = trials[0].predicted
    return Progress(
        task.shape.label,
        PREDICTING,
        sum(trial.status != "not tried" for trial in trials),
        len(trials),
        sum(trial.failure is not None for trial in trials),
        best,
        times[best] / default if best and default else 1.0,
        max(until - time.monotonic(), 0.0),
    )
