"""What verification found: one row for each case, and the whole."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class CaseResult:
    """How one case went.

    Attributes:
        name: the case.
        max_abs_error: of out, over the elements that are finite and should be.
        rms_error: of the same.
        tolerance: the largest that any element of out was allowed.
        severity: the greatest ratio of error to tolerance of any element of out or lse; more than 1 fails.
            Infinite where no tolerance can excuse the fault.
        reason: what is wrong, in one sentence; empty if the case passed.
    """

    name: str
    max_abs_error: float = 0.0
    rms_error: float = 0.0
    tolerance: float = 0.0
    severity: float = 0.0
    reason: str = ""

    @property
    def passed(self) -> bool:
        """Nothing is wrong."""
        return not self.reason

    def as_dict(self) -> dict[str, Any]:
        """Plain data for JSON, which has no infinity: an infinite severity becomes None."""
        fields = {**asdict(self), "passed": self.passed}
        return {name: None if value == math.inf else value for name, value in fields.items()}


@dataclass(frozen=True, slots=True)
class VerificationReport:
    """How all cases went; the error and tolerance properties are those of the worst case.

    Attributes:
        rows: one for each case, in order.
        seed: of the random values.
    """

    rows: tuple[CaseResult, ...]
    seed: int

    @property
    def passed(self) -> bool:
        """Every case passed, and there was one."""
        return bool(self.rows) and not self.failures

    @property
    def cases(self) -> int:
        """How many cases were run."""
        return len(self.rows)

    @property
    def failures(self) -> tuple[CaseResult, ...]:
        """The cases that did not pass."""
        return tuple(row for row in self.rows if not row.passed)

    @property
    def worst(self) -> CaseResult:
        """The case of the greatest severity, a failed one if any failed."""
        return max(self.rows, key=lambda row: (not row.passed, row.severity), default=CaseResult("none"))

    @property
    def worst_case(self) -> str:
        """Its name."""
        return self.worst.name

    @property
    def max_abs_error(self) -> float:
        """Its largest error of out."""
        return self.worst.max_abs_error

    @property
    def rms_error(self) -> float:
        """Its root mean square error of out."""
        return self.worst.rms_error

    @property
    def tolerance(self) -> float:
        """Its largest tolerance."""
        return self.worst.tolerance

    def summary(self) -> str:
        """One line: how many passed, and the worst case; then one line for each failure."""
        total = f"{self.cases - len(self.failures)} of {self.cases} cases passed"
        worst = f"worst: {self.worst_case}, {self.worst.severity:.2f} of its tolerance"
        return "\n".join([f"{total}; {worst}", *(f"{row.name}: {row.reason}" for row in self.failures)])

    def as_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        worst = self.worst.as_dict()
        return {
            "passed": self.passed,
            "cases": self.cases,
            "failed": len(self.failures),
            "worst_case": self.worst_case,
            **{name: worst[name] for name in ("max_abs_error", "rms_error", "tolerance", "severity")},
            "largest_abs_error": max((row.as_dict()["max_abs_error"] or 0.0 for row in self.rows), default=0.0),
            "seed": self.seed,
            "rows": [row.as_dict() for row in self.rows],
        }
