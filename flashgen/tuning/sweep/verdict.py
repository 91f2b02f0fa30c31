"""The verdict: does a plan replace the default, and what does the paper's rule cost?

The final's turns were taken after the finalists had been chosen, so that luck in the screening is not taken for speed.
Likewise the winner of the final is only a proposal: it replaces the default if it beats it once more, in turns that
were taken after it had won, by another process.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from flashgen.tuning.sweep.statistic import Interval, median_interval
from flashgen.tuning.sweep.trial import CONFIRMATION, FINAL, Trial


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a sweep ended.

    Attributes:
        chosen: the plan that builds will use.
        replaces_default: it is another than the default.
        ratio: its time over the default's; None if there is nothing to compare.
        runner_up: the fastest other plan, where the default stands.
        runner_up_ratio: its time over the default's.
    """

    chosen: Trial
    replaces_default: bool
    ratio: Interval | None
    runner_up: Trial | None = None
    runner_up_ratio: Interval | None = None


def judge(trials: Sequence[Trial], default: Trial, reference: Trial, difference: float) -> Verdict:
    """Chooses a plan.

    A plan replaces the default if its median time is below the default's by the difference that matters, and the
    whole confidence interval is below the default's: in the final, and again in its confirmation. The latter gives the
    ratio.

    Args:
        trials: of all plans.
        default: the default's trial.
        reference: what times are relative to: the default, unless that has failed.
        difference: share of the time from which on a difference matters.
    """
    finalists = [trial for trial in trials if trial.failure is None and trial.turns.get(FINAL)]
    rated = [(trial, ratio) for trial in finalists if trial is not reference and (ratio := trial.ratio(FINAL))]
    rated.sort(key=lambda entry: entry[1].median)
    if reference is not default:
        best = rated[0] if rated and rated[0][1].high < 1 else (reference, None)
        return Verdict(best[0], True, None)
    for trial, ratio in rated:
        again = trial.ratio(CONFIRMATION)
        if _beats(ratio, difference) and again is not None and _beats(again, difference):
            return Verdict(trial, True, again)
    runner_up, its_ratio = rated[0] if rated else (None, None)
    if runner_up is not None:
        its_ratio = runner_up.ratio(CONFIRMATION) or its_ratio
    return Verdict(default, False, None, runner_up, its_ratio)


def to_confirm(trials: Sequence[Trial], default: Trial, reference: Trial, difference: float) -> Trial | None:
    """The plan that would replace the default, and has yet to be confirmed; None if there is none."""
    if reference is not default:
        return None
    finalists = [trial for trial in trials if trial.failure is None and trial is not default]
    rated = [(ratio.median, nth) for nth, trial in enumerate(finalists)
             if (ratio := trial.ratio(FINAL)) and _beats(ratio, difference)]  # fmt: skip
    for _, nth in sorted(rated):
        again = finalists[nth].ratio(CONFIRMATION)
        if again is None or not settled(again, difference):
            return finalists[nth]
        if _beats(again, difference):
            return None
    return None


def settled(ratio: Interval, difference: float) -> bool:
    """Whether more turns would not change what is thought of a plan beside the default."""
    return _beats(ratio, difference) or ratio.low > 1 - difference or ratio.width <= difference


def judge_predictions(trials: Sequence[Trial], default: Trial, difference: float) -> Verdict:
    """Chooses by the model: the fastest plan, if it beats the default by the difference that matters."""
    rated = [(trial, trial.predicted) for trial in trials if trial.failure is None and trial.predicted is not None]
    best, seconds = min(rated, key=lambda entry: entry[1], default=(default, 0.0))
    if default.predicted is None or default.failure is not None:
        return Verdict(best, best is not default, None)
    ratio = seconds / default.predicted if best is not default else 1.0
    certain = Interval(ratio, ratio, ratio)
    if ratio <= 1 - difference:
        return Verdict(best, True, certain)
    others = [trial for trial, _ in rated if trial is not default]
    runner_up = min(others, key=lambda trial: trial.predicted or 0.0, default=None)
    if runner_up is None or runner_up.predicted is None:
        return Verdict(default, False, None)
    ratio = runner_up.predicted / default.predicted
    return Verdict(default, False, None, runner_up, Interval(ratio, ratio, ratio))


def decided(finalists: Sequence[Trial], reference: Trial, difference: float) -> bool:
    """Whether more rounds would not change the choice.

    The fastest plan's time over the default's must be settled, and every other plan be slower than it for sure, or
    faster by less than what matters.
    """
    ratios = [(ratio.median, nth) for nth, trial in enumerate(finalists) if (ratio := trial.ratio(FINAL))]
    if len(ratios) < len(finalists):
        return False
    fastest = min(ratios, default=(1.0, -1))
    leader = finalists[fastest[1]] if fastest[0] < 1 else reference
    if leader is not reference:
        own = leader.ratio(FINAL)
        if own is None or not settled(own, difference):
            return False
    others = [trial for trial in finalists if trial is not leader]
    return all(_beside(trial, leader).low > 1 - difference for trial in others)


def _beats(ratio: Interval, difference: float) -> bool:
    return ratio.high < 1 and ratio.median <= 1 - difference


def _beside(trial: Trial, other: Trial) -> Interval:
    """Time over another finalist's. Both raced the reference in the same rounds, but for those before one joined."""
    mine, its = trial.turns.get(FINAL, []), other.turns.get(FINAL, [])
    rounds = min(len(mine), len(its))
    pairs = zip(mine[len(mine) - rounds :], its[len(its) - rounds :], strict=True)
    return median_interval([(a[0] / a[1]) / (b[0] / b[1]) for a, b in pairs])


def rule_regret(rule: Trial | None, chosen: Trial) -> Interval | None:
    """How much more time the rule's own plan takes than the chosen one, as a share: 0.25 is 25% more.

    None if either was not measured.
    """
    if rule is None or rule.failure is not None or chosen.failure is not None:
        return None
    if rule is chosen:
        return Interval(0.0, 0.0, 0.0)
    if rule.predicted is not None and chosen.predicted is not None:
        regret = rule.predicted / chosen.predicted - 1
        return Interval(regret, regret, regret)
    if not rule.turns.get(FINAL) or not chosen.turns.get(FINAL):
        return None
    found = _beside(rule, chosen)
    return Interval(found.median - 1, found.low - 1, found.high - 1)


def sentence(verdict: Verdict, default: Trial, place: str) -> str:
    """The verdict in words, for plans' trails, tables and reports.

    Args:
        verdict: the verdict.
        default: the default's trial.
        place: at what and on what: ``B1 H8 N1024, measured on ...``.
    """
    chosen, usual = verdict.chosen, default.candidate.label
    if not verdict.replaces_default:
        return _default_stands(verdict, default, place)
    how = "tuned" if chosen.predicted is None else "predicted"
    if verdict.ratio is None:
        return f"{how}: {chosen.candidate.label} instead of the default {usual}, which failed ({place})"
    share = _share(verdict.ratio)
    return (
        f"{how}: {chosen.candidate.label} takes {share} of the time of the default {usual} ({place}{_rounds(chosen)})"
    )


def _default_stands(verdict: Verdict, default: Trial, place: str) -> str:
    label, other, ratio = default.candidate.label, verdict.runner_up, verdict.runner_up_ratio
    if other is None or ratio is None:
        return f"the default {label} stands: no other plan came to the final ({place})"
    if ratio.low == ratio.high:
        why = "too little to matter" if ratio.median < 1 else "no less" if ratio.median == 1 else "slower"
    elif ratio.low <= 1 <= ratio.high:
        why = "within the noise"
    else:
        why = "too little to matter" if ratio.high < 1 else "slower"
    return (
        f"the default {label} stands: the best other plan, {other.candidate.label}, takes {_share(ratio)} of its "
        f"time, {why} ({place}{_rounds(other)})"
    )


def _rounds(trial: Trial) -> str:
    rounds = len(trial.turns.get(FINAL, ()))
    again = len(trial.turns.get(CONFIRMATION, ()))
    return (f", {rounds} round{'' if rounds == 1 else 's'}" if rounds else "") + (
        f" and {again} more to confirm it" if again else ""
    )


def _share(ratio: Interval) -> str:
    if ratio.low <= 0 or ratio.low == ratio.high:
        return f"{ratio.median:.3f}"
    return f"{ratio.median:.3f} ({ratio.low:.3f} to {ratio.high:.3f})"
