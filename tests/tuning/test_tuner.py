"""The tuner on replayed measurements: no kernel runs, and no luck is needed."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from tuning_stage import DEFAULT, FAMILY, OTHERS, RULE, SPEC, TARGET, key, make_book, run, small_space

from flashgen.errors import TuneError
from flashgen.tuning.sweep.book import Book
from flashgen.tuning.sweep.progress import Progress
from flashgen.tuning.sweep.replay import ReplayRunner
from flashgen.tuning.sweep.request import Request
from flashgen.tuning.sweep.result import TuneResult
from flashgen.tuning.sweep.space import Candidate
from flashgen.tuning.sweep.strategy import STRATEGIES
from flashgen.tuning.sweep.trial import COMPILE, CONFIRMATION, CRASH, FINAL, HANG, WRONG, Failure
from flashgen.tuning.sweep.tuner import CHECKPOINTS

Outcomes = dict[str, list[float] | Failure]


@pytest.fixture
def book(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Book:
    return make_book(tmp_path, monkeypatch)


def steady(default: float = 1.0, rule: float = 1.25, others: float = 1.1) -> Outcomes:
    speeds = {key(*DEFAULT): [default], key(*RULE): [rule]}
    return speeds | {key(*tile): [others] for tile in OTHERS}


def noisy(seconds: float, percent: float, seed: int) -> list[float]:
    rng = random.Random(seed)
    return [seconds * (1 + rng.gauss(0, percent / 100)) for _ in range(997)]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_plan_that_is_clearly_faster_replaces_the_default(book: Book, strategy: str) -> None:
    result = run(ReplayRunner(steady() | {key(32, 64): [0.8]}), book, strategy=strategy)
    assert result.best is result.chosen.candidate.plan
    assert (result.best.br, result.best.bc) == (32, 64)
    assert result.replaces_default
    assert result.ratio is not None
    assert (result.ratio.low, result.ratio.median, result.ratio.high) == (0.8, 0.8, 0.8)
    assert result.verdict.startswith("tuned: 32 x 64 takes 0.800 of the time of the default 16 x 16")
    assert result.stopped_by == "confidence"
    assert result.regret is not None
    assert result.regret.median == pytest.approx(1.25 / 0.8 - 1)


def test_the_default_stands_where_nothing_is_faster(book: Book) -> None:
    result = run(ReplayRunner(steady()), book)
    assert result.chosen is result.default
    assert not result.replaces_default
    assert result.verdict.startswith("the default 16 x 16 stands: the best other plan, ")
    assert "slower" in result.verdict
    assert result.regret is not None
    assert result.regret.median == pytest.approx(0.25)


def test_a_difference_that_does_not_matter_changes_nothing(book: Book) -> None:
    result = run(ReplayRunner(steady() | {key(32, 64): [0.995]}), book)
    assert result.chosen is result.default
    assert "takes 0.995 of its time, too little to matter" in result.verdict


@pytest.mark.parametrize("seed", range(8))
def test_noise_is_not_taken_for_speed(book: Book, seed: int) -> None:
    """All plans are equally fast and the timer scatters by 5%: whoever looks best is only lucky."""
    plans = small_space().candidates
    outcomes: Outcomes = {plan.key: noisy(1.0, 5, seed * 100 + n) for n, plan in enumerate(plans)}
    result = run(ReplayRunner(outcomes), book)
    assert not result.replaces_default
    assert "within the noise" in result.verdict or "slower" in result.verdict


@pytest.mark.parametrize("seed", range(4))
def test_a_gain_larger_than_the_noise_is_found_through_the_noise(book: Book, seed: int) -> None:
    plans = small_space().candidates
    outcomes: Outcomes = {plan.key: noisy(1.1, 5, seed * 100 + n) for n, plan in enumerate(plans)}
    outcomes[key(*DEFAULT)] = noisy(1.0, 5, seed)
    outcomes[key(64, 32)] = noisy(0.9, 5, seed + 50)
    result = run(ReplayRunner(outcomes), book)
    assert (result.best.br, result.best.bc) == (64, 32)
    assert result.ratio is not None
    assert result.ratio.low <= 0.9 <= result.ratio.high < 1


def test_more_noise_takes_more_rounds_and_too_much_ends_somewhere(book: Book) -> None:
    quiet = run(ReplayRunner(steady(others=1.002)), book)
    assert len(quiet.default.turns[FINAL]) == CHECKPOINTS[0]
    book.known = None
    plans = small_space().candidates
    outcomes: Outcomes = {plan.key: noisy(1.0, 20, n) for n, plan in enumerate(plans)}
    wild = run(ReplayRunner(outcomes), book, seconds=1e6)
    assert wild.stopped_by == "rounds"
    assert len(wild.default.turns[FINAL]) == CHECKPOINTS[-1]


def test_turns_beside_a_slow_reference_are_repeated(book: Book) -> None:
    """The machine halts during one of the default's turns: what was timed beside it does not count."""
    outcomes = steady() | {key(*DEFAULT): [1.0, 1.0, 1.0, 30.0, *[1.0] * 900]}
    result = run(ReplayRunner(outcomes), book)
    assert result.discarded == 1
    assert all(beside == 1.0 for trial in result.trials for turns in trial.turns.values() for _, beside in turns)


class Lucky(ReplayRunner):
    """Some plans are fast only in the first process, where their data lies well."""

    def __init__(self, recorded: Outcomes, lucky: dict[str, float | Failure]) -> None:
        super().__init__(recorded)
        self._lucky, self.renewed = lucky, 0

    def renew(self) -> None:
        self.renewed += 1

    def turn(self, candidate: Candidate) -> float | Failure:
        seconds = super().turn(candidate)
        return self._lucky.get(candidate.key, seconds) if self.renewed else seconds


def test_a_winner_must_win_again_in_another_process(book: Book) -> None:
    runner = Lucky(steady() | {key(32, 64): [0.8]}, {key(32, 64): 1.03})
    result = run(runner, book)
    assert runner.renewed == 1
    assert result.chosen is result.default
    assert "the best other plan, 32 x 64, takes 1.030 of its time, slower" in result.verdict
    assert "more to confirm it" in result.verdict


def test_the_second_is_proposed_where_the_first_was_lucky_and_the_ratio_is_the_confirmed_one(book: Book) -> None:
    runner = Lucky(steady() | {key(32, 64): [0.8], key(64, 64): [0.85]}, {key(32, 64): 1.0, key(64, 64): 0.9})
    result = run(runner, book)
    assert (result.best.br, result.best.bc) == (64, 64)
    assert result.ratio is not None
    assert result.ratio.median == 0.9
    assert [len(trial.turns.get(CONFIRMATION, ())) for trial in (result.default, result.chosen)] == [18, 9]


def test_a_winner_that_fails_when_it_is_to_be_confirmed_is_written_off(book: Book) -> None:
    crash = Failure(CRASH, "SIGSEGV")
    result = run(Lucky(steady() | {key(32, 64): [0.8]}, {key(32, 64): crash}), book)
    assert result.chosen is result.default
    assert [trial.failure for trial in result.failures] == [crash]


def test_a_confirmation_is_not_cut_off_by_the_time_limit(book: Book) -> None:
    rivals: Outcomes = {key(16, 32): noisy(0.6, 5, 1), key(32, 16): noisy(0.6, 5, 2)}
    runner = ReplayRunner(steady() | rivals)
    result = run(runner, book, seconds=105.0)
    assert result.stopped_by == "time limit"
    assert runner.now() > 105
    assert result.replaces_default
    assert len(result.chosen.turns[CONFIRMATION]) == CHECKPOINTS[0]


def test_the_final_ends_once_the_choice_is_clear_though_the_ratio_is_not(book: Book) -> None:
    """By how much the winner is faster need not be known to 1% once all others are slower than it."""
    plans = small_space().candidates
    outcomes: Outcomes = {plan.key: noisy(1.3, 4, n) for n, plan in enumerate(plans)}
    outcomes |= {key(*DEFAULT): noisy(1.0, 4, 77), key(32, 64): noisy(0.8, 4, 78)}
    result = run(ReplayRunner(outcomes), book, seconds=1e6)
    assert result.stopped_by == "confidence"
    ratio = result.chosen.ratio(FINAL)
    assert ratio is not None
    assert ratio.width > 0.01
    assert len(result.chosen.turns[FINAL]) <= CHECKPOINTS[3]


class Restless(ReplayRunner):
    """A machine on which, every other dozen turns, everything takes three times as long."""

    def turn(self, candidate: Candidate) -> float | Failure:
        seconds = super().turn(candidate)
        slow = len(self.turns) // 12 % 2
        return seconds * 3 if slow and not isinstance(seconds, Failure) else seconds


def test_repeating_ends_where_the_machine_is_never_quiet(book: Book) -> None:
    result = run(Restless(steady() | {key(32, 64): [0.8]}), book, seconds=1e6)
    accepted = len(result.default.turns[FINAL])
    assert 2 <= result.discarded <= 4 + (accepted + 40) / 4
    assert (result.best.br, result.best.bc) == (32, 64)


def test_failures_are_trials_with_reasons_and_the_sweep_goes_on(book: Book) -> None:
    failed: dict[str, Failure] = {
        key(16, 32): Failure(COMPILE, "no such register"),
        key(32, 16): Failure(CRASH, "SIGSEGV"),
        key(32, 32): Failure(HANG, "10 s"),
        key(64, 64): Failure(WRONG, "off by one"),
    }
    result = run(ReplayRunner(steady() | failed | {key(64, 32): [0.5]}), book)
    assert (result.best.br, result.best.bc) == (64, 32)
    assert {trial.candidate.key: trial.failure for trial in result.failures} == failed
    assert {trial.status for trial in result.trials} == {"failed", "measured"}


def test_a_plan_that_fails_is_not_tried_twice(book: Book) -> None:
    runner = ReplayRunner(steady() | {key(32, 16): Failure(CRASH, "SIGSEGV"), key(16, 32): Failure(COMPILE, "no")})
    run(runner, book)
    assert runner.turns.count(key(32, 16)) == 1
    assert runner.turns.count(key(16, 32)) == 0


def test_when_the_default_itself_fails_the_others_are_compared_with_the_next_that_works(book: Book) -> None:
    outcomes = steady(rule=1.0, others=1.1) | {key(*DEFAULT): Failure(WRONG, "nan"), key(64, 64): [0.7]}
    result = run(ReplayRunner(outcomes), book)
    assert (result.best.br, result.best.bc) == (64, 64)
    assert result.replaces_default
    assert result.verdict.startswith("tuned: 64 x 64 instead of the default 16 x 16, which failed")


def test_if_everything_fails_one_error_says_why(book: Book) -> None:
    crash, wrong = Failure(CRASH, "killed by SIGSEGV"), Failure(WRONG, "out[0] is nan.")
    outcomes: Outcomes = dict.fromkeys(steady(), crash) | {key(*DEFAULT): wrong}
    with pytest.raises(TuneError) as caught:
        run(ReplayRunner(outcomes), book)
    message = str(caught.value)
    assert "No plan of cpu_fa1 works for d=8, fp32, no mask at B1 H2/1 N48" in message
    assert "wrong result (1), for instance 16 x 16: out[0] is nan" in message
    assert "crash (7), for instance 8 x 64: killed by SIGSEGV." in message
    assert len(caught.value.trials) == 8
    assert caught.value.exit_code == 5


def test_the_time_limit_ends_a_sweep_with_what_there_is(book: Book) -> None:
    runner = ReplayRunner(steady(), compile_seconds=1.0)
    result = run(runner, book, seconds=8.0)
    assert result.stopped_by == "time limit"
    assert [trial.candidate.roles for trial in result.trials if trial.status == "measured"][:2] == [
        ("default",), ("rule",)
    ]  # fmt: skip
    assert result.untried
    assert runner.now() < 14


def test_without_time_for_anything_the_default_stands(book: Book) -> None:
    result = run(ReplayRunner(steady(), compile_seconds=1.0), book, seconds=0.0)
    assert result.chosen is result.default
    assert len(result.untried) == len(result.trials) - 1


def test_a_complete_record_is_the_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, book: Book) -> None:
    first = run(ReplayRunner(steady() | {key(32, 64): [0.8]}), book)
    runner = ReplayRunner({})
    second = run(runner, make_book(tmp_path, monkeypatch))
    assert runner.turns == []
    assert (second.best, second.verdict, second.stopped_by) == (first.best, first.verdict, "record")
    assert [trial.turns for trial in second.trials] == [trial.turns for trial in first.trials]


def test_fresh_measures_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, book: Book) -> None:
    run(ReplayRunner(steady() | {key(32, 64): [0.8]}), book)
    result = run(ReplayRunner(steady()), make_book(tmp_path, monkeypatch, fresh=True))
    assert not result.replaces_default


def test_a_sweep_that_ran_out_of_time_goes_on_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, book: Book
) -> None:
    first = run(ReplayRunner(steady(), compile_seconds=1.0), book, seconds=8.0)
    before = {trial.candidate.key for trial in first.trials if trial.turns}
    runner = ReplayRunner(steady() | {key(64, 64): [0.5]})
    second = run(runner, make_book(tmp_path, monkeypatch))
    assert second.stopped_by == "confidence"
    assert (second.best.br, second.best.bc) == (64, 64)
    assert {trial.candidate.key for trial in second.trials if trial.turns} > before


def test_progress_tells_the_stage_the_best_and_the_time_left(book: Book) -> None:
    told: list[Progress] = []
    run(ReplayRunner(steady() | {key(32, 64): [0.8]}, compile_seconds=1.0), book, tell=told.append)
    assert list(dict.fromkeys(moment.stage for moment in told)) == ["compiling", "screening", "final", "confirming"]
    assert told[-1].best == "32 x 64"
    assert told[-1].best_ratio == pytest.approx(0.8)
    assert all(0 <= moment.done <= moment.total or moment.stage in ("final", "confirming") for moment in told)
    assert [moment.seconds_left for moment in told] == sorted((m.seconds_left for m in told), reverse=True)


def test_a_table_has_a_line_for_each_plan_and_the_rules_regret(book: Book) -> None:
    result = run(ReplayRunner(steady() | {key(32, 64): [0.8], key(64, 64): Failure(CRASH, "SIGSEGV")}), book)
    text = TuneResult(Request(SPEC, TARGET, FAMILY), (result,)).table()
    lines = text.splitlines()
    assert lines[1].split() == ["plan", "median", "ms", "spread", "rounds", "GFLOP/s", "of", "default", "of", "rule"]
    assert lines[2].split()[:3] == ["32", "x", "64"]
    assert lines[2].endswith("0.800    0.640  chosen")
    assert any(line.endswith("rule") and "1.250    1.000" in line for line in lines)
    assert "64 x 64  crash: SIGSEGV" in lines
    assert lines[-1] == "Regret of the M/4d rule: its own plan, 8 x 64, takes 56.2% more time."
