"""The benchmark's arithmetic and hygiene. No test here depends on how fast anything is."""

from __future__ import annotations

import numpy as np
import pytest

from flashgen.dtypes import ALL, BF16, FP32
from flashgen.measure import clock, foreign_load, peak
from flashgen.measure.bench import bench, turns
from flashgen.measure.clock import compare, undisturbed
from flashgen.measure.foreign_load import ForeignLoad
from flashgen.measure.peak import PeakProbe, precision_of
from flashgen.measure.workload import Workload, to_torch
from flashgen.spec import Causal
from flashgen.target import parse_target


def workload(**changes: object) -> Workload:
    sizes = {
        "batch": 2,
        "heads": 4,
        "heads_kv": 2,
        "seqlen_q": 10,
        "seqlen_k": 10,
        "d": 8,
        "d_v": 8,
        "dtype": FP32,
        "causal": Causal.NONE,
    }
    return Workload(**(sizes | changes))  # type: ignore[arg-type]


def test_flops_follow_the_fields_convention():
    assert workload().flops == 4 * 2 * 4 * 8 * 10 * 10
    assert workload(causal=Causal.TOP_LEFT).flops == 4 * 2 * 4 * 8 * (10 * 11 // 2)
    assert workload(d_v=16).flops == 2 * 2 * 4 * (8 + 16) * 100
    assert workload(seqlen_q=4).pairs == 40
    assert workload(seqlen_q=4, causal=Causal.TOP_LEFT).pairs == 1 + 2 + 3 + 4
    assert workload(seqlen_q=4, causal=Causal.BOTTOM_RIGHT).pairs == 7 + 8 + 9 + 10
    assert workload(seqlen_q=12, causal=Causal.BOTTOM_RIGHT).pairs == 55


@pytest.mark.parametrize("dtype", ALL)
def test_inputs_have_the_shapes_and_the_type_asked_for_and_repeat(dtype):
    q, k, v = workload(dtype=dtype, d_v=5).inputs()
    assert (q.shape, k.shape, v.shape) == ((2, 4, 10, 8), (2, 2, 10, 8), (2, 2, 10, 5))
    assert {x.dtype for x in (q, k, v)} == {dtype.numpy()}
    assert np.array_equal(q, workload(dtype=dtype, d_v=5).inputs()[0])


def test_bf16_reaches_torch_as_the_same_bits():
    pytest.importorskip("torch")
    q = workload(dtype=BF16).inputs()[0]
    assert np.array_equal(to_torch(q).float().numpy(), q.astype(np.float32))


def test_rounds_in_which_the_peak_sags_are_discarded_and_counted(monkeypatch):
    unknown = [None] * 4
    assert undisturbed([500, 510, 300, 505], 510, unknown) == [0, 1, 3]
    assert undisturbed([500, 510, 300, 505], 600, unknown) == [1]  # all too low: the best of them
    now = [0.0]
    monkeypatch.setattr(clock.time, "perf_counter", lambda: now[0])
    monkeypatch.setattr(clock.time, "sleep", lambda seconds: None)
    slow_from = [False]
    calls = {"fast": 0, "slow": 0}

    def peer(name: str, seconds: float):
        def call() -> None:
            calls[name] += 1
            now[0] += seconds * (10 if slow_from[0] else 1)

        return call

    probes = iter([100, 100, 100, 50, 100, 100, 100, 100])  # two for each round; the second round sags

    def probe() -> float:
        value = next(probes)
        slow_from[0] = value < 100
        return value

    contenders = {"fast": peer("fast", 0.5), "slow": peer("slow", 2.0)}
    result = compare(contenders, probe, rounds=4, foreign=Loads(0, 0, 0, 0))
    assert result.timings["fast"].median_s == 0.5
    assert result.timings["slow"].median_s == 2.0
    assert {(t.rounds, t.discarded) for t in result.timings.values()} == {(3, 1)}
    assert result.peak_gflops == 100
    assert calls["fast"] == calls["slow"] == 2 + 2 * 4  # warm-up and calibration, then an untimed and a timed call each


class Loads:
    """What others take, round by round."""

    def __init__(self, *cores: float | None) -> None:
        self.left = list(cores)

    def restart(self) -> None: ...

    def cores(self) -> float | None:
        return self.left.pop(0)


def test_rounds_in_which_others_work_are_discarded_even_if_the_peak_never_rose() -> None:
    assert undisturbed([500, 510, 505], 510, [0.02, 0.9, None]) == [0, 2]
    assert undisturbed([500, 510, 505], 510, [0.5, 0.9, 0.6]) == [1]
    assert undisturbed([300, 510, 305], 510, [0.1, 0.9, 0.1]) == [2]  # rather low and quiet than high and loud
    result = compare({"peer": lambda: None}, lambda: 50.0, rounds=3, pause=0, foreign=Loads(0.01, 0.7, 0.03))
    assert (result.timings["peer"].rounds, result.timings["peer"].discarded) == (2, 1)
    assert result.foreign_cores == pytest.approx(0.02)
    assert compare({"peer": lambda: None}, lambda: 1.0, rounds=1, pause=0, foreign=Loads(None)).foreign_cores is None


def test_foreign_load_is_what_the_machine_did_and_this_process_did_not(tmp_path, monkeypatch) -> None:
    stat = tmp_path / "stat"
    monkeypatch.setattr(foreign_load.os, "sysconf", lambda name: 100)
    now, own = [0.0], [0.0]
    monkeypatch.setattr(foreign_load.time, "perf_counter", lambda: now[0])
    monkeypatch.setattr(foreign_load.time, "process_time", lambda: own[0])
    stat.write_text("cpu  100 20 30 4000 50 6 7 8 9 0\ncpu0 1 1 1 1\n")
    load = ForeignLoad(stat)
    assert load.cores() is None  # no time has passed
    now[0], own[0] = 2.0, 1.5
    stat.write_text("cpu  300 40 60 9999 99 16 17 58 209 0\n")  # 2.0 + 0.2 + 0.3 + 0.1 + 0.1 + 0.5 s busy
    assert load.cores() == pytest.approx((3.2 - 1.5) / 2)
    own[0] = 5.0
    assert load.cores() == 0.0
    stat.write_text("something else")
    assert load.cores() is None
    assert ForeignLoad(tmp_path / "none").cores() is None


def test_rounds_are_judged_by_the_best_rate_known() -> None:
    result = compare({"peer": lambda: None}, lambda: 50.0, known_peak=100.0, rounds=3, pause=0, foreign=Loads(0, 0, 0))
    assert (result.timings["peer"].rounds, result.timings["peer"].discarded) == (1, 2)
    assert result.peak_gflops == 85


def test_short_calls_are_timed_many_at_once(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(clock.time, "perf_counter", lambda: now[0])
    monkeypatch.setattr(clock.time, "sleep", lambda seconds: None)
    count = [0]

    def call() -> None:
        count[0] += 1
        now[0] += 1e-5

    timing = compare({"tiny": call}, lambda: 1.0, rounds=3).timings["tiny"]
    assert timing.median_s == pytest.approx(1e-5)
    assert count[0] > 3 * 90


@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_the_probe_measures_a_plausible_rate(dtype):
    assert 0.5 < PeakProbe(precision_of(dtype)).measure() < 1e5


def test_the_peak_of_bf16_is_that_of_its_products_where_the_cpu_has_them(monkeypatch):
    monkeypatch.setattr(peak, "host_target", lambda: parse_target("cpu:x86-64-v4-bf16"))
    assert [precision_of(dtype) for dtype in ALL] == ["fp32", "bf16", "fp32", "fp64"]
    monkeypatch.setattr(peak, "host_target", lambda: parse_target("cpu:x86-64-v4"))
    assert [precision_of(dtype) for dtype in ALL] == ["fp32", "fp32", "fp32", "fp64"]


def test_bench_gives_a_row_for_every_contender_and_workload():
    seen = []
    works = [workload(seqlen_q=16, seqlen_k=16, dtype=dtype) for dtype in (FP32, BF16)]
    result = bench(works, ["standard", "fa1"], rounds=1, progress=seen.append)
    names = {row.name for row in result.rows}
    assert {"flashgen standard", "flashgen fa1"} <= names
    assert len(result.rows) == 2 * len(names)
    assert len(seen) == turns(works, ["standard", "fa1"], 1)
    for row in result.rows:
        assert row.gflops == pytest.approx(row.workload.flops / row.timing.median_s / 1e9)
        assert row.peak_fraction > 0
        assert (row.workspace_bytes is None) == (row.name == "torch SDPA")
