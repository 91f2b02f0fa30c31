"""Trials: what became of each plan. A plan that fails is a result like any other."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from flashgen.tuning.records.plans import plan_data
from flashgen.tuning.sweep.space import Candidate
from flashgen.tuning.sweep.statistic import Interval, median_interval, spread

# Kinds of failure.
COMPILE = "compile error"
RESOURCES = "exceeds resources"
HANG = "hang"
CRASH = "crash"
DEVICE = "device error"
WRONG = "wrong result"
UNPREDICTED = "cannot be predicted"

SCREENING, FINAL, CONFIRMATION = "screening", "final", "confirmation"


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a plan cannot be used.

    Attributes:
        kind: one of the constants above.
        reason: what happened, in a sentence or two.
    """

    kind: str
    reason: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.reason}"


@dataclass(slots=True)
class Trial:
    """One plan's trial.

    Attributes:
        candidate: the plan.
        turns: stage -> (seconds of one call, seconds of the reference beside it), in order.
        failure: why it cannot be used, or None.
        predicted: seconds that the model expects, where nothing is measured.
        details: what the model made them of.
    """

    candidate: Candidate
    turns: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    failure: Failure | None = None
    predicted: float | None = None
    details: dict[str, Any] = field(default_factory=dict)

    @property
    def status(self) -> str:
        """``failed``, ``measured``, ``predicted`` or ``not tried``."""
        if self.failure is not None:
            return "failed"
        if self.predicted is not None:
            return "predicted"
        return "measured" if any(self.turns.values()) else "not tried"

    @property
    def stage(self) -> str:
        """The stage whose turns count: the final where the plan reached it."""
        return FINAL if self.turns.get(FINAL) else SCREENING

    @property
    def seconds(self) -> list[float]:
        """Seconds of the turns that count."""
        return [mine for mine, _ in self.turns.get(self.stage, ())]

    @property
    def median(self) -> float | None:
        """Median (or predicted) seconds of one call."""
        if self.predicted is not None:
            return self.predicted
        return statistics.median(self.seconds) if self.seconds and self.failure is None else None

    @property
    def spread(self) -> float | None:
        """Interquartile range over median; None for fewer than two turns."""
        return spread(self.seconds) if len(self.seconds) > 1 else None

    def ratio(self, stage: str | None = None) -> Interval | None:
        """Time over the reference's, turn by turn; None without turns.

        Args:
            stage: whose turns; those that count if None.
        """
        turns = self.turns.get(stage or self.stage)
        return median_interval([mine / other for mine, other in turns]) if turns else None

    def as_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        ratio = self.ratio() if self.failure is None else None
        return {
            "label": self.candidate.label,
            **plan_data(self.candidate.plan),
            "roles": list(self.candidate.roles),
            "footprint_bytes": self.candidate.plan.footprint.total,
            "status": self.status,
            "failure": None if self.failure is None else {"kind": self.failure.kind, "reason": self.failure.reason},
            "seconds": self.median,
            "spread": self.spread,
            "rounds": len(self.seconds),
            "ratio_to_reference": None if ratio is None else ratio.median,
            **({"prediction": self.details} if self.details else {}),
        }


def reasons(trials: Sequence[Trial]) -> str:
    """The failures of a sweep, counted by kind, each with its first reason."""
    by_kind: dict[str, list[Trial]] = {}
    for trial in trials:
        if trial.failure is not None:
            by_kind.setdefault(trial.failure.kind, []).append(trial)
    return "; ".join(
        f"{kind} ({len(failed)}), for instance {failed[0].candidate.label}: {failed[0].failure.reason.rstrip('.')}"
        for kind, failed in by_kind.items()
        if failed[0].failure is not None
    )
