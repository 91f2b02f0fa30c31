"""What a sweep gives: the chosen plan of each shape, and every trial."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flashgen.families.base import Family
from flashgen.tile_plan import TilePlan
from flashgen.tuning.records.bucket import Bucket
from flashgen.tuning.records.plans import plan_data, spec_data
from flashgen.tuning.sweep.request import Request
from flashgen.tuning.sweep.shape import Shape
from flashgen.tuning.sweep.space import Pruned, Space
from flashgen.tuning.sweep.statistic import Interval
from flashgen.tuning.sweep.trial import FINAL, Trial


@dataclass(frozen=True, slots=True)
class ShapeResult:
    """The result for one shape.

    Attributes:
        shape: of the calls.
        family: that serves them.
        space: what there was to choose from.
        trials: of all plans, in the order of the space.
        chosen: the plan that builds use from now on.
        default, rule: the trials of these plans; there may be no rule's.
        replaces_default: the chosen plan is another than the default.
        ratio: time of the chosen plan over the default's; None if it is the default, or that failed.
        verdict: what was decided, in a sentence.
        regret: how much more time the rule's plan takes than the chosen one, as a share; None if not known.
        how: ``measured`` or ``predicted``.
        stopped_by: ``confidence``, ``rounds``, ``all`` (predicted), ``time limit``, ``record`` or ``unfinished``.
        seconds: that the sweep took; 0 for one that was found in a record.
        discarded: rounds that other work disturbed.
        valid_for: the facts that the record is valid for.
        record: its file.
    """

    shape: Shape
    family: Family
    space: Space
    trials: tuple[Trial, ...]
    chosen: Trial
    default: Trial
    rule: Trial | None
    replaces_default: bool
    ratio: Interval | None
    verdict: str
    regret: Interval | None
    how: str
    stopped_by: str
    seconds: float
    discarded: int
    valid_for: dict[str, str]
    record: Path

    @property
    def bucket(self) -> Bucket:
        """The bucket that the result is for."""
        return self.shape.bucket(self.family)

    @property
    def best(self) -> TilePlan:
        """The chosen plan."""
        return self.chosen.candidate.plan

    @property
    def ranking(self) -> list[Trial]:
        """Trials with a time: the finalists, the fastest first, then those that were only screened, likewise.

        A plan that was screened once may look faster than a finalist by luck.
        """
        timed = [trial for trial in self.trials if trial.median is not None]
        return sorted(timed, key=_rank)

    @property
    def failures(self) -> list[Trial]:
        """Trials that failed."""
        return [trial for trial in self.trials if trial.failure is not None]

    @property
    def untried(self) -> list[Trial]:
        """Plans that the strategy left out or there was no time for."""
        return [trial for trial in self.trials if trial.status == "not tried"]

    @property
    def pruned(self) -> tuple[Pruned, ...]:
        """Plans that fell before the sweep."""
        return self.space.pruned


@dataclass(frozen=True, slots=True)
class TuneResult:
    """The result of `flashgen.autotune`.

    Attributes:
        request: what was tuned. Its family serves calls of many rows; each shape has its own.
        shapes: a result for each length asked for, in that order.
    """

    request: Request
    shapes: tuple[ShapeResult, ...] = field(default=())

    @property
    def best(self) -> dict[str, TilePlan]:
        """Shape (``B1 H8 N1024``) -> the plan that builds use for it from now on."""
        return {result.shape.label: result.best for result in self.shapes}

    @property
    def trials(self) -> tuple[Trial, ...]:
        """All trials of all shapes."""
        return tuple(trial for result in self.shapes for trial in result.trials)

    def __iter__(self) -> Iterator[ShapeResult]:
        return iter(self.shapes)

    @property
    def families(self) -> tuple[str, ...]:
        """Names of the families that were tuned, each once."""
        return tuple(dict.fromkeys(result.family.name for result in self.shapes))

    def table(self) -> str:
        """The rankings as text, one line for each plan."""
        from flashgen.tuning.sweep.table import text_table

        return text_table(self)

    def as_dict(self) -> dict[str, Any]:
        """Plain data, for JSON; the keys are stable and documented in docs/autotune.md."""
        request = self.request
        return {
            "spec": spec_data(request.spec),
            "target": str(request.target),
            "sram_bytes": request.sram_bytes,
            "shapes": [_shape_dict(result, request) for result in self.shapes],
        }


def _rank(trial: Trial) -> tuple[bool, float]:
    """Finalists first; then by time over the reference's, comparable across a sweep, or by predicted seconds."""
    ratio = trial.ratio()
    return trial.stage != FINAL, ratio.median if ratio is not None else (trial.median or 0.0)


def _shape_dict(result: ShapeResult, request: Request) -> dict[str, Any]:
    ratio, regret = result.ratio, result.regret
    flops = result.shape.flops(request.spec)
    return {
        "shape": result.shape.as_dict(),
        "family": result.family.name,
        "bucket": result.bucket.name,
        "how": result.how,
        "best": plan_data(result.best),
        "replaces_default": result.replaces_default,
        "ratio_to_default": None if ratio is None else [ratio.median, ratio.low, ratio.high],
        "rule_regret": None if regret is None else [regret.median, regret.low, regret.high],
        "verdict": result.verdict,
        "stopped_by": result.stopped_by,
        "seconds": result.seconds,
        "discarded": result.discarded,
        "record": str(result.record),
        "valid_for": result.valid_for,
        "trials": [
            trial.as_dict() | {"gflops": None if trial.median is None else flops / trial.median / 1e9}
            for trial in result.trials
        ],
        "pruned": [{"label": fallen.label, **fallen.data, "reason": fallen.reason} for fallen in result.pruned],
    }
