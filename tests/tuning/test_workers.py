"""Kernels with planted faults, in real worker processes: each is a trial with its reason, and the sweep goes on."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from planted_tools import PlantedExecutable, planted_tools
from tuning_stage import DEFAULT, RULE, SHAPE, SPEC, TARGET, key, make_book, run, small_space

from flashgen.errors import LaunchError, ToolchainError
from flashgen.families import family_named
from flashgen.pipeline import Built
from flashgen.render.renderer import render
from flashgen.runtime.device import limits_of
from flashgen.spec import make_spec
from flashgen.tiling import plan_tiles
from flashgen.tuning.sweep import runner as runner_module
from flashgen.tuning.sweep.bench import _CpuCall
from flashgen.tuning.sweep.checks import Checker
from flashgen.tuning.sweep.jobs import CompileJob, OpenJob
from flashgen.tuning.sweep.pool import Pool
from flashgen.tuning.sweep.result import ShapeResult
from flashgen.tuning.sweep.runner import Compiler, WorkerRunner
from flashgen.tuning.sweep.shape import Shape
from flashgen.tuning.sweep.worker import JobError, Worker, WorkerLostError

FAULTY, FAST = (32, 16), (64, 32)
SCRIPT = {DEFAULT: (1.0,), RULE: (1.25,), FAST: (0.8,)}

FAULTS = {
    "compile error": ("compile error", "no such register"),
    "compiler dies": ("crash", "was killed by SIGKILL"),
    "does not load": ("device error", "could not be loaded"),
    "segfault": ("crash", "was killed by SIGSEGV"),
    "abort": ("crash", "was killed by SIGABRT: planted: corrupted double-linked list"),
    "launch error": ("device error", "The device says 700"),
    "wrong": ("wrong result", "1 of "),
    "unwritten": ("wrong result", "out["),
    "stray": ("wrong result", "it wrote beyond out"),
    "writes to q": ("wrong result", "it wrote to its inputs"),
    "fickle": ("wrong result", "other bits"),
}


@pytest.fixture
def short_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hangs are noticed after two seconds."""
    monkeypatch.setattr(runner_module, "COMPILE_LIMIT", 3.0)
    monkeypatch.setattr(runner_module, "_LEAST_LIMIT", 2.0)
    monkeypatch.setattr(runner_module, "_PATIENCE", 0.0)


@contextlib.contextmanager
def runner_for(tools: Any) -> Iterator[WorkerRunner]:
    with (
        contextlib.closing(Compiler(SPEC, TARGET, tools, 2)) as compiler,
        contextlib.closing(WorkerRunner(SPEC, SHAPE, TARGET, tools, compiler)) as runner,
    ):
        yield runner


def sweep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str, tile: tuple[int, int] = FAULTY) -> ShapeResult:
    book = make_book(tmp_path, monkeypatch)
    space = small_space([FAULTY, FAST, (32, 32)])
    with runner_for(planted_tools({tile: fault}, SCRIPT)) as runner:
        return run(runner, book, space=space)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_a_trial_and_the_others_are_measured(
    fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = sweep(tmp_path, monkeypatch, fault)
    (failed,) = result.failures
    kind, words = FAULTS[fault]
    assert failed.failure is not None
    assert (failed.candidate.key, failed.failure.kind) == (key(*FAULTY), kind)
    assert words in failed.failure.reason
    assert (result.best.br, result.best.bc) == FAST
    assert [trial.status for trial in result.trials].count("measured") == 4


@pytest.mark.parametrize("fault", ["hang", "compiler hangs"])
def test_what_hangs_is_ended(fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, short_limits: None) -> None:
    result = sweep(tmp_path, monkeypatch, fault)
    (failed,) = result.failures
    assert failed.failure is not None
    assert failed.failure.kind == "hang"
    assert "did not finish within" in failed.failure.reason
    assert (result.best.br, result.best.bc) == FAST


def test_a_compiler_that_fails_by_itself_is_no_plans_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ToolchainError, match="The compiler is gone"):
        sweep(tmp_path, monkeypatch, "no compiler")
    record = make_book(tmp_path, monkeypatch).known
    assert record is not None
    assert not record.failures


def test_a_default_that_crashes_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = sweep(tmp_path, monkeypatch, "segfault", DEFAULT)
    assert (result.best.br, result.best.bc) == FAST
    assert "instead of the default 16 x 16, which failed" in result.verdict


def test_after_a_failure_the_worker_is_another_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may have left anything behind; the kernels that were loaded are loaded and checked again."""
    book, log = make_book(tmp_path, monkeypatch), tmp_path / "log"
    with runner_for(planted_tools({FAULTY: "wrong"}, SCRIPT, log)) as runner:
        run(runner, book, space=small_space([FAULTY, FAST]))
    loads = [line for line in log.read_text().splitlines() if line.startswith("load")]
    assert loads.count("load 16x16") == 3, "at first, after the failure, and to confirm the winner"
    assert loads.count("load 32x16") == 1


def test_the_oracle_itself_passes_the_checks_whatever_the_dtype_mask_and_shape() -> None:

    family = family_named("cpu_fa1")
    for dtype in ("fp16", "bf16", "fp32"):
        for causal in (False, "top_left", "bottom_right"):
            for lengths in ((100, 100), (70, 130), (130, 70)):
                spec, shape = make_spec(8, dtype, causal), Shape(1, 2, 1, *lengths)  # type: ignore[arg-type]
                plan = plan_tiles(family, spec, TARGET, limits_of(TARGET))
                source = render(family, spec, plan, TARGET)
                checker = Checker(spec, shape, shape.inputs(spec))
                for fault, verdict in (("", ""), ("unwritten", "out[")):
                    complaint = checker.complaint(_CpuCall(spec, PlantedExecutable(source, fault)))
                    assert bool(complaint) == bool(verdict), (spec, shape, complaint)


class Explode:
    """A job with a fault of its own."""

    def run(self, kept: dict[str, Any]) -> Any:
        raise ZeroDivisionError("planted")


class Remember:
    """Counts how often it was run in this worker."""

    def run(self, kept: dict[str, Any]) -> int:
        kept["count"] = kept.get("count", 0) + 1
        return kept["count"]


class Exit:
    """Ends the process."""

    def run(self, kept: dict[str, Any]) -> None:
        raise SystemExit(3)


def test_a_worker_keeps_its_memory_until_it_is_lost() -> None:
    worker = Worker()
    assert [worker.ask(Remember(), 30.0) for _ in range(3)] == [1, 2, 3]
    with pytest.raises(WorkerLostError, match="ended with status 3"):
        worker.ask(Exit(), 30.0)
    assert not worker.running
    assert worker.ask(Remember(), 30.0) == 1
    worker.end()


def test_a_fault_of_flashgen_is_not_blamed_on_a_plan() -> None:
    worker = Worker()
    with pytest.raises(JobError, match="ZeroDivisionError: planted"):
        worker.ask(Explode(), 30.0)
    assert worker.ask(Remember(), 30.0) == 1
    worker.end()


class Refuse:
    """A job that fails in a way that flashgen has words for."""

    def run(self, kept: dict[str, Any]) -> None:
        raise LaunchError("There is no such device.")


def test_errors_with_words_of_their_own_arrive_as_they_are() -> None:
    worker = Worker()
    with pytest.raises(LaunchError, match="no such device"):
        worker.ask(Refuse(), 30.0)
    worker.end()


def test_inputs_that_no_memory_holds_are_an_error_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> Any:
        raise MemoryError

    monkeypatch.setattr("flashgen.tuning.sweep.bench.CpuBench.__init__", full)
    with pytest.raises(LaunchError, match="not enough memory for inputs of B1 H2/1 N48"):
        OpenJob(SPEC, SHAPE, TARGET, planted_tools({}, {})).run({})


def test_a_pool_begins_nothing_after_its_time_but_the_first() -> None:
    pool = Pool(1)
    assert list(pool.run([("a", Remember()), ("b", Remember())], until=0.0, limit=30.0)) == [("a", 1)]
    pool.close()


def test_a_pool_works_on_when_a_job_takes_its_worker_down() -> None:
    pool = Pool(2)
    answers = dict(pool.run([(n, Exit() if n == 1 else Remember()) for n in range(4)], until=1e18, limit=30.0))
    assert set(answers) == {0, 1, 2, 3}
    assert answers[1].kind == "crash"
    pool.close()


def test_compiled_plans_are_not_compiled_again_for_the_next_shape(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLASHGEN_CACHE_DIR", str(tmp_path))
    log = tmp_path / "log"
    tools = planted_tools({FAULTY: "compile error"}, SCRIPT, log)
    candidates = small_space([FAULTY]).candidates
    with contextlib.closing(Compiler(SPEC, TARGET, tools, 2)) as compiler:
        first = {candidate.key: failure for candidate, failure in compiler.compile(candidates, 1e18)}
        again = {candidate.key: failure for candidate, failure in compiler.compile(candidates, 1e18)}
    assert first == again
    assert first[key(*FAULTY)] is not None
    assert sorted(log.read_text().splitlines()) == ["compile 16x16", "compile 32x16", "compile 8x64"]


def test_a_compile_job_answers_with_what_was_built() -> None:
    plan = small_space().default.plan
    answer = CompileJob(SPEC, plan, TARGET, planted_tools({}, {})).run({})
    assert isinstance(answer, Built)
    assert answer.source.plan == plan
