"""Rankings as rows, for tables of any kind."""

from __future__ import annotations

from dataclasses import dataclass

from flashgen.tuning.records.validity import MEASURED
from flashgen.tuning.sweep.request import Request
from flashgen.tuning.sweep.result import ShapeResult, TuneResult
from flashgen.tuning.sweep.trial import Trial

_RATES = ("GFLOP/s", "of default", "of rule")


def columns_of(how: str) -> tuple[str, ...]:
    """What a ranking's columns are called."""
    if how == MEASURED:
        return "plan", "median ms", "spread", "rounds", *_RATES
    return "plan", "predicted ms", "bound by", *_RATES


@dataclass(frozen=True, slots=True)
class Row:
    """One plan in a ranking.

    Attributes:
        trial: its trial.
        marks: ``chosen``, ``default``, ``rule``.
        milliseconds: of one call, the median.
        spread: interquartile range over median; None where there was one turn, or a prediction.
        rounds: turns that count; 0 for a prediction.
        gflops: by the field's convention.
        to_default, to_rule: its time over theirs; None where they have none.
    """

    trial: Trial
    marks: tuple[str, ...]
    milliseconds: float
    spread: float | None
    rounds: int
    gflops: float
    to_default: float | None
    to_rule: float | None

    @property
    def cells(self) -> tuple[str, ...]:
        """The row as texts, in the order of `columns_of`."""
        own: tuple[str, ...]
        if self.trial.predicted is None:
            own = "" if self.spread is None else f"{self.spread:.1%}", str(self.rounds)
        else:
            own = (", ".join(step["bound"] for step in self.trial.details.get("steps", ())),)
        return (
            self.trial.candidate.label,
            f"{self.milliseconds:.3f}",
            *own,
            f"{self.gflops:,.1f}",
            "" if self.to_default is None else f"{self.to_default:.3f}",
            "" if self.to_rule is None else f"{self.to_rule:.3f}",
        )


def rows_of(result: ShapeResult, request: Request) -> list[Row]:
    """The ranking of a shape; see `ShapeResult.ranking`.

    Ratios are those of turns that lay side by side, so they may differ from the ratio of two medians.
    """
    flops = result.shape.flops(request.spec)
    rule = None if result.rule is None else _relative(result.rule)
    default = _relative(result.default)
    rows = []
    for trial in result.ranking:
        seconds, mine = trial.median, _relative(trial)
        assert seconds is not None, "a ranking holds trials with a time"
        rows.append(
            Row(
                trial=trial,
                marks=_marks(trial, result),
                milliseconds=seconds * 1e3,
                spread=trial.spread,
                rounds=len(trial.seconds),
                gflops=flops / seconds / 1e9,
                to_default=mine / default if mine and default else None,
                to_rule=mine / rule if mine and rule else None,
            )
        )
    return rows


def regret_text(result: ShapeResult) -> str:
    """What the paper's rule costs, in a sentence."""
    regret, rule = result.regret, result.rule
    if rule is None:
        return "The M/4d rule: none of its plans fits."
    label = rule.candidate.label
    if rule.failure is not None:
        return f"The M/4d rule's own plan, {label}, failed ({rule.failure.kind})."
    if regret is None:
        return f"The M/4d rule's own plan, {label}, was not {result.how} to the end."
    what = "Regret" if result.how == MEASURED else "Predicted regret"
    if rule is result.chosen:
        return f"{what} of the M/4d rule: none, its own plan, {label}, is the one chosen."
    sure = f" ({regret.low:+.1%} to {regret.high:+.1%})" if -1 < regret.low < regret.high else ""
    more = "more" if regret.median >= 0 else "less"
    return f"{what} of the M/4d rule: its own plan, {label}, takes {abs(regret.median):.1%} {more} time{sure}."


def text_table(result: TuneResult) -> str:
    """The rankings of all shapes as plain text."""
    parts = []
    for shape in result.shapes:
        rows = rows_of(shape, result.request)
        lines = [columns_of(shape.how), *(row.cells for row in rows)]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        marks = ["", *(", ".join(row.marks) for row in rows)]
        parts.append(f"{result.request.spec.summary}, {shape.shape.label} ({shape.how}): {shape.verdict}")
        parts += [_line(line, widths, mark) for line, mark in zip(lines, marks, strict=True)]
        parts += [f"{trial.candidate.label}  {trial.failure}" for trial in shape.failures]
        parts.append(regret_text(shape))
    return "\n".join(parts)


def _line(cells: tuple[str, ...], widths: list[int], mark: str) -> str:
    first, *others = (
        cell.ljust(width) if column == 0 else cell.rjust(width)
        for column, (cell, width) in enumerate(zip(cells, widths, strict=True))
    )
    return "  ".join([first, *others, mark]).rstrip()


def _relative(trial: Trial) -> float | None:
    """Its time on the sweep's own scale: over the reference's, or the model's seconds."""
    if trial.failure is not None:
        return None
    if trial.predicted is not None:
        return trial.predicted
    ratio = trial.ratio()
    return None if ratio is None else ratio.median


def _marks(trial: Trial, result: ShapeResult) -> tuple[str, ...]:
    return (*(("chosen",) if trial is result.chosen else ()), *trial.candidate.roles)
