"""From trials to a result: when a sweep ends, and whenever its record is looked at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flashgen.tuning.records.plans import plan_data
from flashgen.tuning.records.validity import PREDICTED, Validity
from flashgen.tuning.sweep.request import Request
from flashgen.tuning.sweep.result import ShapeResult
from flashgen.tuning.sweep.shape import Shape
from flashgen.tuning.sweep.space import RULE, Space
from flashgen.tuning.sweep.trial import Trial
from flashgen.tuning.sweep.verdict import judge, judge_predictions, rule_regret, sentence


@dataclass(frozen=True, slots=True)
class Task:
    """One shape's sweep.

    Attributes:
        request: what is tuned.
        shape: for which calls.
        space: what there is to choose from.
        validity: what the results are valid for.
        place: where it is measured, in a phrase, for the verdict.
        seconds: the time limit.
    """

    request: Request
    shape: Shape
    space: Space
    validity: Validity
    place: str
    seconds: float


def conclude(
    task: Task, trials: Sequence[Trial], path: Path, how: str, stopped_by: str, seconds: float, discarded: int
) -> ShapeResult:
    """Judges the trials as they are.

    Args:
        task: what was asked for.
        trials: of all plans, in the order of the space.
        path: of the record.
        how: ``measured`` or ``predicted``.
        stopped_by: see `ShapeResult`.
        seconds: that it took.
        discarded: rounds that were disturbed.
    """
    default = trials[0]
    rule = next((trial for trial in trials if RULE in trial.candidate.roles), None)
    reference = next((trial for trial in trials if trial.failure is None and trial.turns), default)
    if how == PREDICTED:
        verdict = judge_predictions(trials, default, task.request.difference)
        place = f"{task.shape.label}, by the model of {task.place}; nothing was measured"
    else:
        verdict = judge(trials, default, reference, task.request.difference)
        place = f"{task.shape.label}, {how} on {task.place}"
    return ShapeResult(
        shape=task.shape,
        family=task.request.family,
        space=task.space,
        trials=tuple(trials),
        chosen=verdict.chosen,
        default=default,
        rule=rule,
        replaces_default=verdict.replaces_default,
        ratio=verdict.ratio,
        verdict=sentence(verdict, default, place),
        regret=rule_regret(rule, verdict.chosen),
        how=how,
        stopped_by=stopped_by,
        seconds=seconds,
        discarded=discarded,
        valid_for=dict(task.validity),
        record=path,
    )


def result_line(result: ShapeResult) -> dict[str, Any]:
    """The result as a record has it."""
    ratio, regret = result.ratio, result.regret
    return {
        "chosen": plan_data(result.best),
        "replaces_default": result.replaces_default,
        "ratio": None if ratio is None else [ratio.median, ratio.low, ratio.high],
        "regret": None if regret is None else [regret.median, regret.low, regret.high],
        "seconds": result.chosen.median,
        "default_seconds": result.default.median,
        "verdict": result.verdict,
        "how": result.how,
        "stopped_by": result.stopped_by,
        "complete": result.stopped_by != "time limit",
    }
