"""Sweeps that are killed, sweeps side by side, records that cannot be written."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
import tuning_stage
from planted_tools import MakeClock
from tuning_stage import SHAPE, make_book, run, small_space

import flashgen
from flashgen.api import forget_built
from flashgen.families.cpu_fa1 import CpuFa1
from flashgen.tuning.records.record import RecordFile
from flashgen.tuning.sweep.bench import Tools
from flashgen.tuning.sweep.replay import ReplayRunner

HERE = Path(__file__).resolve().parent
TIMEOUT = 120

# A sweep over few tiles of cpu_fa1 with the planted tools; argv: cache, log, pause of each turn.
SWEEP = """
import sys
from pathlib import Path
from planted_tools import planted_tools
import flashgen
from flashgen.families.cpu_fa1 import CpuFa1
TILES = [(16, 16), (16, 32), (32, 16), (32, 32), (32, 64), (64, 32), (128, 32), (128, 64), (128, 128), (96, 96)]
CpuFa1.candidates = lambda *_: tuple(TILES)
tools = planted_tools({(32, 16): "segfault"}, {(128, 64): (0.5,)}, Path(sys.argv[1]), float(sys.argv[2]))
result = flashgen.autotune(
    8, "fp32", [48], heads=2, target="cpu", algorithm="fa1", tools=tools, jobs=1, time_limit=100.0
)
print(result.shapes[0].verdict)
"""


class Sweeps:
    """Child processes that share a cache and a log."""

    def __init__(self, directory: Path) -> None:
        self.cache, self.log = directory / "cache", directory / "log"
        self.started: list[subprocess.Popen[str]] = []

    def start(self, pause: float = 0.0) -> subprocess.Popen[str]:
        env = os.environ | {"FLASHGEN_CACHE_DIR": str(self.cache)}
        env["PYTHONPATH"] = os.pathsep.join(filter(None, [str(HERE), *sys.path]))
        process = subprocess.Popen(
            [sys.executable, "-c", SWEEP, str(self.log), str(pause)],
            env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        )  # fmt: skip
        self.started.append(process)
        return process

    def turns(self) -> Counter[str]:
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        return Counter(line.removeprefix("turn ") for line in lines if line.startswith("turn "))

    def record(self) -> Path:
        (path,) = self.cache.glob("tuning/**/*.jsonl")
        return path

    def end(self) -> None:
        for process in self.started:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()


@pytest.fixture
def sweeps(tmp_path: Path) -> Iterator[Sweeps]:
    made = Sweeps(tmp_path)
    yield made
    made.end()


def finish(process: subprocess.Popen[str]) -> str:
    out, errors = process.communicate(timeout=TIMEOUT)
    assert process.returncode == 0, errors
    return out


def test_a_killed_sweep_goes_on_where_it_was(sweeps: Sweeps) -> None:
    victim = sweeps.start(pause=0.2)
    deadline = time.monotonic() + TIMEOUT
    while sum(sweeps.turns().values()) < 14:
        assert time.monotonic() < deadline, victim.communicate()
        assert victim.poll() is None, victim.communicate()
        time.sleep(0.01)
    victim.kill()
    victim.communicate()
    time.sleep(0.5)  # its workers die with it
    before = RecordFile(sweeps.record()).read()
    assert before is not None
    assert before.turns
    assert [data["plan"]["br"] for data in before.failures.values()] == [32]
    sweeps.log.unlink()

    out = finish(sweeps.start())
    assert "tuned: 128 x 64" in out
    again = sweeps.turns()
    assert again["32x16"] == 0  # what had crashed is not tried again
    assert again["128x64"] >= 9
    after = RecordFile(sweeps.record()).read()
    assert after is not None
    for key, stages in before.turns.items():  # and what was recorded still counts
        assert after.turns[key]["screening"][: len(stages["screening"])] == stages["screening"]


def test_no_worker_outlives_a_killed_sweep(sweeps: Sweeps) -> None:
    victim = sweeps.start(pause=0.2)
    deadline = time.monotonic() + TIMEOUT
    while sum(sweeps.turns().values()) < 2:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    victim.kill()
    victim.communicate()
    time.sleep(0.5)
    count = sum(sweeps.turns().values())
    time.sleep(1.0)
    assert sum(sweeps.turns().values()) == count


def test_two_sweeps_at_once_take_turns_and_the_second_finds_the_firsts_result(sweeps: Sweeps) -> None:
    outs = [finish(process) for process in [sweeps.start(), sweeps.start()]]
    assert outs[0] == outs[1]
    assert "tuned: 128 x 64" in outs[0]
    lines = RecordFile(sweeps.record()).lines()
    assert [next(iter(line)) for line in lines].count("record") == 1
    assert sum("result" in line for line in lines) == 1
    assert sum("failed" in line for line in lines) == 1


def test_a_record_that_cannot_be_written_costs_the_record_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tuning").write_text("a file where the directory should be")
    book = make_book(tmp_path, monkeypatch)
    outcomes = {candidate.key: [1.0 + 0.1 * n] for n, candidate in enumerate(small_space().candidates)}
    assert run(ReplayRunner(outcomes), book).stopped_by == "confidence"


def test_a_sweep_removes_this_machines_records_of_older_templates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tuning_stage, "VALIDITY", tuning_stage.VALIDITY | {"templates": "old"})
    old = make_book(tmp_path, monkeypatch)
    monkeypatch.setattr(tuning_stage, "VALIDITY", tuning_stage.VALIDITY | {"device": "another machine"})
    other = make_book(tmp_path, monkeypatch)
    monkeypatch.setattr(tuning_stage, "VALIDITY", tuning_stage.VALIDITY | {"device": "test bench", "templates": "new"})
    new = make_book(tmp_path, monkeypatch)
    assert [book.file.path.exists() for book in (old, other, new)] == [False, True, True]


def test_autotune_refuses_what_it_cannot_measure() -> None:
    with pytest.raises(flashgen.SpecError, match="cannot run cpu:aarch64"):
        flashgen.autotune(64, "fp32", target="cpu:aarch64")
    with pytest.raises(flashgen.SpecError, match="heads_kv=3 must divide heads=8"):
        flashgen.autotune(64, "fp32", target="cpu", heads_kv=3)
    with pytest.raises(flashgen.SpecError, match="seqlen_q=0 must be"):
        flashgen.autotune(64, "fp32", [0], target="cpu")
    with pytest.raises(flashgen.SpecError, match="at least one length"):
        flashgen.autotune(64, "fp32", [], target="cpu")
    for limit in (0, -1.0, float("nan"), "15s"):
        with pytest.raises(flashgen.SpecError, match="must be a positive number of seconds"):
            flashgen.autotune(64, "fp32", target="cpu", time_limit=limit)  # type: ignore[arg-type]


def test_a_build_after_a_sweep_in_the_same_process_uses_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No restart is needed, though the same request was built before."""
    monkeypatch.setenv("FLASHGEN_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(CpuFa1, "candidates", lambda *_: ((16, 16), (32, 32)))
    forget_built()
    options = {"d": 8, "dtype": "fp32", "target": "cpu", "algorithm": "fa1"}
    q = np.zeros((1, SHAPE.heads, SHAPE.seqlen_q, 8), np.float32)
    k = np.zeros((1, SHAPE.heads_kv, SHAPE.seqlen_k, 8), np.float32)
    before = flashgen.build(**options)  # type: ignore[arg-type]
    assert before.plan_for(q, k).origin == "default"
    small = before.plan_for(q, k)
    # Only the clock is planted: records made with the planted compiler would not be valid for real builds.
    tools = Tools(clock=MakeClock({(32, 32): (0.5,), (small.br, small.bc): (1.0,)}))
    result = flashgen.autotune(seqlens=[SHAPE.seqlen_q], heads=2, heads_kv=1, tools=tools, **options)  # type: ignore[arg-type]
    assert (result.shapes[0].best.br, result.shapes[0].best.bc) == (32, 32)
    plan = flashgen.build(**options).plan_for(q, k)  # type: ignore[arg-type]
    assert (plan.br, plan.bc, plan.origin) == (32, 32, "tuned")
    assert plan.trail[0].startswith("tuned: 32 x 32 takes 0.500")
    forget_built()
