"""`flashgen bench`, with next to no work in it."""

from __future__ import annotations

import importlib.util
import json
import sys

import pytest

ROW_KEYS = {"name", "shape", "causal", "dtype", "median_s", "spread", "gflops", "peak_fraction"}
RATIO_KEYS = {"ratio_to_sdpa", "ratio_to_best_peer"}
SMALL = ("--n", "16,24", "--heads", 2, "--rounds", 1, "--algorithm", "standard,fa1")


def test_bench_json_has_the_documented_keys(flashgen):
    result = flashgen("bench", *SMALL, "--dtype", "fp32,fp16", "--causal", "--json")
    assert result.exit_code == 0, result.output
    data = json.loads(result.stdout)
    assert data["peak_gflops"] == max(data["peaks"].values()) > 0
    ours = [row for row in data["rows"] if row["name"].startswith("flashgen")]
    assert len(ours) == 2 * 2 * 2
    assert all(set(row) >= ROW_KEYS | RATIO_KEYS for row in data["rows"])
    assert {(row["dtype"], tuple(row["shape"]), row["causal"]) for row in ours} == {
        (dtype, (1, 2, n, 64), "bottom_right") for dtype in ("fp32", "fp16") for n in (16, 24)
    }


def test_bench_prints_a_table(flashgen):
    result = flashgen("bench", *SMALL)
    assert result.exit_code == 0, result.output
    assert "peak GFLOP/s" in result.stdout
    assert "flashgen standard" in result.stdout


def test_a_peer_that_is_not_installed_has_a_line_and_no_rows(flashgen, monkeypatch):
    absent = {"torch", "onnxruntime", "onnx", "openvino"}
    original = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name in absent else original(name))
    result = flashgen("bench", *SMALL, "--peers", "all")
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[-5:] == [
        "torch SDPA needs torch: pip install 'flashgen[torch]'.",
        "torch matmul needs torch: pip install 'flashgen[torch]'.",
        "FlexAttention needs torch: pip install 'flashgen[torch]'.",
        "ONNX Runtime MHA needs onnxruntime and onnx: pip install 'flashgen[bench]'.",
        "OpenVINO SDPA needs openvino: pip install 'flashgen[bench]'.",
    ]
    data = json.loads(flashgen("bench", *SMALL, "--peers", "all", "--json").stdout)
    assert {row["name"] for row in data["rows"]} == {"flashgen standard", "flashgen fa1"}
    assert all(row[key] is None for row in data["rows"] for key in RATIO_KEYS)
    assert data["absent"] == lines[-5:]


def test_an_unknown_peer_is_refused_with_the_list(flashgen):
    result = flashgen("bench", *SMALL, "--peers", "sdpa,cudnn")
    assert result.exit_code == 2
    assert "'cudnn'. Peers are sdpa, matmul, flex, ort, openvino, or all." in " ".join(result.stderr.split())


def test_the_files_are_the_json_and_a_picture(flashgen, tmp_path):
    pytest.importorskip("matplotlib")
    folder = tmp_path / "deep" / "out"
    result = flashgen("bench", *SMALL, "--dtype", "fp32,bf16", "--out", folder, "--json")
    assert result.exit_code == 0, result.output
    assert json.loads((folder / "bench.json").read_text()) == json.loads(result.stdout)
    assert (folder / "bench.png").read_bytes().startswith(b"\x89PNG")


def test_without_matplotlib_there_is_the_json_and_a_hint(flashgen, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    result = flashgen("bench", *SMALL, "--out", tmp_path / "out")
    assert result.exit_code == 0, result.output
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["bench.json"]
    assert "pip install 'flashgen[plot]'" in result.stderr


@pytest.mark.parametrize(
    "option", [("--n", "0"), ("--n", "x"), ("--n", ","), ("--dtype", "fp8"), ("--algorithm", "fa9")]
)
def test_bad_lists_are_refused(flashgen, option):
    result = flashgen("bench", *option)
    assert result.exit_code == 2
    assert "Error" in result.stderr


TINY_STEP = ("--decode", "--n", "24", "--heads", 4, "--heads-kv", 2, "--rounds", 1)


def test_bench_decode_reports_the_memory_rate_beside_the_probe(flashgen):
    result = flashgen("bench", *TINY_STEP, "--seqlen-q", 2, "--dtype", "fp32,bf16", "--json")
    assert result.exit_code == 0, result.output
    rows = json.loads(result.stdout)["rows"]
    ours = [row for row in rows if row["name"].startswith("flashgen")]
    assert [(row["name"], row["dtype"]) for row in ours] == [
        (f"flashgen {name}", dtype) for dtype in ("fp32", "bf16") for name in ("decode", "fa2")
    ]
    for row in ours:
        assert row["shape"] == [1, 4, 2, 2, 24, 64]
        assert row["read_fraction"] == pytest.approx(row["gbytes_per_s"] / row["read_gbytes_per_s"])


def test_bench_decode_says_when_caches_help(flashgen):
    result = flashgen("bench", *TINY_STEP)
    assert result.exit_code == 0, result.output
    assert "partly cached" in result.stdout
    assert "flashgen decode" in result.stdout


@pytest.mark.parametrize(
    ("options", "complaint"),
    [(("--decode", "--causal"), "--decode goes without"), (("--seqlen-q", 2), "--seqlen-q goes with --decode only")],
)
def test_options_that_do_not_go_together_are_refused(flashgen, options, complaint):
    result = flashgen("bench", *options)
    assert result.exit_code == 2
    assert complaint in " ".join(result.stderr.split())


@pytest.mark.parametrize("kind", [(), ("--decode",)], ids=["", "decode"])
@pytest.mark.parametrize(
    ("target", "complaint"),
    [("sm_80", "sm_80 is no CPU; benchmarks/gpu/run.py"), ("cpu:aarch64", "cannot run cpu:aarch64")],
)
def test_a_target_that_cannot_be_timed_is_told_at_once(flashgen, monkeypatch, kind, target, complaint):
    monkeypatch.setattr("flashgen.runtime.device.runs_here", lambda target: target.arch == "sm_80")
    result = flashgen("bench", *kind, "--target", target)
    assert result.exit_code == 2
    assert complaint in result.stderr
