"""`flashgen bench`, with next to no work in it."""

from __future__ import annotations

import json

import pytest

ROW_KEYS = {"name", "shape", "causal", "dtype", "median_s", "spread", "gflops", "peak_fraction", "ratio_to_sdpa"}
SMALL = ("--n", "16,24", "--heads", 2, "--rounds", 1, "--algorithm", "standard,fa1")


def test_bench_json_has_the_documented_keys(flashgen):
    result = flashgen("bench", *SMALL, "--dtype", "fp32,fp16", "--causal", "--json")
    assert result.exit_code == 0, result.output
    data = json.loads(result.stdout)
    assert data["peak_gflops"] == max(data["peaks"].values()) > 0
    ours = [row for row in data["rows"] if row["name"].startswith("flashgen")]
    assert len(ours) == 2 * 2 * 2
    assert all(set(row) >= ROW_KEYS for row in data["rows"])
    assert {(row["dtype"], tuple(row["shape"]), row["causal"]) for row in ours} == {
        (dtype, (1, 2, n, 64), "bottom_right") for dtype in ("fp32", "fp16") for n in (16, 24)
    }


def test_bench_prints_a_table(flashgen):
    result = flashgen("bench", *SMALL)
    assert result.exit_code == 0, result.output
    assert "peak GFLOP/s" in result.stdout
    assert "flashgen standard" in result.stdout


def test_without_torch_bench_says_how_to_get_a_comparison(flashgen, monkeypatch):
    monkeypatch.setattr("flashgen.measure.workload.torch_is_here", lambda: False)
    monkeypatch.setattr("flashgen.measure.bench.torch_is_here", lambda: False)
    result = flashgen("bench", *SMALL)
    assert result.exit_code == 0, result.output
    assert "pip install 'flashgen[torch]'" in result.stdout
    assert "torch SDPA" not in result.stdout


@pytest.mark.parametrize(
    "option", [("--n", "0"), ("--n", "x"), ("--n", ","), ("--dtype", "fp8"), ("--algorithm", "fa9")]
)
def test_bad_lists_are_refused(flashgen, option):
    result = flashgen("bench", *option)
    assert result.exit_code == 2
    assert "Error" in result.stderr
