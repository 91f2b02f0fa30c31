"""What a sweep tells while it runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

WAITING, COMPILING, SCREENING, FINAL, CONFIRMING = "waiting", "compiling", "screening", "final", "confirming"
PREDICTING = "predicting"


@dataclass(frozen=True, slots=True)
class Progress:
    """One moment of a sweep.

    Attributes:
        shape: label of the shape at work.
        stage: one of the constants above.
        done, total: plans (compiling, predicting), plans measured (screening), rounds (final and
            confirming; 0: not known ahead).
        failed: plans that have failed so far.
        best: label of the fastest plan so far, or an empty text.
        best_ratio: its time over the reference's.
        seconds_left: until the time limit.
    """

    shape: str
    stage: str
    done: int
    total: int
    failed: int
    best: str
    best_ratio: float
    seconds_left: float


Tell = Callable[[Progress], None]


def silent(_: Progress) -> None:
    """Tells nobody."""
