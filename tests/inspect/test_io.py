"""`flashgen io`: the paper's figures, the three columns, rooflines and the sweep."""

from __future__ import annotations

import json
import sys

import pytest
from click.testing import CliRunner

from flashgen.cli.main import main
from flashgen.dtypes import FP16, FP32, FP64
from flashgen.errors import SpecError, ToolchainError
from flashgen.inspect.io_counted import MAX_EXECUTOR_PAIRS
from flashgen.inspect.io_kernel import Sizes
from flashgen.inspect.io_paper import initial_zeros, paper_ledger
from flashgen.inspect.io_plot import text_plot, write_png
from flashgen.inspect.io_report import IoRequest, make_report, sweep_report
from flashgen.inspect.io_roofline import PEAKS, gpus, verdicts
from flashgen.spec import make_spec
from flashgen.target import PRESETS, parse_target

GPT2 = Sizes(batch=64, heads=16, seqlen_q=1024, seqlen_k=1024)
A100_SRAM = 192 * 1024
N, D, HEADS = 1024, 64, 16 * 64


def ask(convention="kernel", target="sm_80", sram=A100_SRAM // 2, algorithms=("standard", "fa1"), **changes):
    fields = {"spec": make_spec(D), "sizes": GPT2, "backward": False} | changes
    return IoRequest(
        target=parse_target(target), algorithms=algorithms, convention=convention, sram_bytes=sram, **fields
    )


def flashgen(*arguments):
    return CliRunner().invoke(main, [str(argument) for argument in arguments], prog_name="flashgen")


def test_the_paper_s_figure_by_our_count_and_as_printed():
    ledger = paper_ledger("fa1", make_spec(D), GPT2, A100_SRAM, backward=True)
    assert (ledger.br, ledger.bc) == (64, 384)
    rounds = 3  # ceil(1024 / 384)
    matrices = 2 + 3 * rounds + 4 + 5 * rounds  # K V, Q O O; K V dK dV, Q O dO dQ dQ
    statistics = 4 * rounds + 2 * rounds  # l and m, read and written forward, read backward
    assert ledger.total == HEADS * (matrices * N * D * 2 + statistics * N * 4)
    assert f"{ledger.total / 1e9:.2f}" == "4.10"
    report = make_report(ask("paper", sram=A100_SRAM, backward=True))
    standard, fa1 = report.paper
    assert standard.startswith("standard: 40.3 GB printed, 25.23 GB by this count.")
    assert "11 matrices of N x N, 2.15 GB each; the difference is 7.0 more" in standard
    assert fa1.startswith("fa1: 4.4 GB printed, 4.10 GB by this count.")
    assert "Tc = 4 gives 5.20 GB" in fa1 and "4.65 GB" in fa1


def test_standard_attention_of_the_paper_is_the_document_s_eight_transfers():
    ledger = paper_ledger("standard", make_spec(D), GPT2, A100_SRAM, backward=False)
    assert [(t.step, t.matrix, t.direction) for t in ledger.transfers] == [
        ("line 1", "Q", "read"), ("line 1", "K", "read"), ("line 1", "S", "write"),
        ("line 2", "S", "read"), ("line 2", "P", "write"),
        ("line 3", "P", "read"), ("line 3", "V", "read"), ("line 3", "O", "write"),
    ]  # fmt: skip
    assert ledger.total == HEADS * 2 * (4 * N * D + 4 * N * N)


def test_fa2_of_the_paper_is_counted_by_loop():
    ledger = paper_ledger("fa2", make_spec(D), GPT2, A100_SRAM, backward=True)
    assert {t.step for t in ledger.transfers} == {"outer loop", "inner loop", "before"}
    assert ledger.of_matrix("K", "read") == HEADS * (16 + 1) * N * D * 2
    assert ledger.of_matrix("dQ", "write") == HEADS * 3 * N * D * 2


def test_zeros_are_those_of_o_l_m_and_the_gradients():
    spec = make_spec(D)
    assert initial_zeros(spec, GPT2, backward=False) == HEADS * (N * D * 2 + 2 * N * 4)
    assert initial_zeros(spec, GPT2, backward=True) == HEADS * (4 * N * D * 2 + 2 * N * 4)


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (ask(backward=True), "There is no backward kernel"),
        (ask("paper", spec=make_spec(D, causal=True)), "have no mask"),
        (ask("paper", sram=None), "needs an on-chip memory"),
        (ask(spec=make_spec(512), algorithms=("fa1",)), "takes head dims up to 256"),
    ],
)
def test_what_has_no_answer_is_refused(request_, message):
    with pytest.raises(SpecError, match=message):
        make_report(request_)


def test_an_algorithm_that_cannot_be_had_is_left_out_with_its_reason():
    report = make_report(ask(algorithms=("fa1", "nonsense")))
    assert [entry.ledger.algorithm for entry in report.entries] == ["fa1"]
    assert report.skipped[0][0] == "nonsense" and "is not known" in report.skipped[0][1]


@pytest.mark.parametrize("target", ["sm_80", "cpu:x86-64-v3"])
@pytest.mark.parametrize("causal", [[], ["--causal"], ["--causal", "top_left"]])
def test_the_counted_column_equals_the_closed_form(target, causal):
    arguments = [
        "--count",
        "executor",
        "--target",
        target,
        "--n",
        200,
        "--nk",
        333,
        "--d",
        40,
        "--heads",
        3,
        *causal,
        "--json",
    ]
    data = json.loads(flashgen("io", *arguments).stdout)
    assert [ledger["algorithm"] for ledger in data["ledgers"]][:2] == ["standard", "fa1"]
    for ledger in data["ledgers"]:
        assert ledger["counted_by"]
        assert ledger["transfers"]
        for transfer in ledger["transfers"]:
            assert transfer["counted_bytes"] == transfer["bytes"] > 0
        read = sum(t["bytes"] for t in ledger["transfers"] if t["direction"] == "read")
        assert (read, ledger["total_bytes"]) == (ledger["read_bytes"], read + ledger["written_bytes"])


def test_what_is_too_large_to_run_is_not_counted_and_says_so():
    report = make_report(ask(sizes=Sizes(1, 1, 4096, 4096)))
    assert MAX_EXECUTOR_PAIRS < 4096 * 4096
    assert all(entry.counted.counts is None for entry in report.entries)
    printed = flashgen("io", "--n", 4096, "--target", "sm_80").stdout
    assert f"counted: needs at most {MAX_EXECUTOR_PAIRS:,} pairs" in printed
    assert "measured: needs a CUDA GPU" in printed


def test_flops_do_not_depend_on_how_a_kernel_gets_there():
    flops = {entry.ledger.flops for entry in make_report(ask()).entries}
    assert flops == {4 * N * N * D * HEADS}


def test_the_roofline_says_what_the_paper_says():
    standard = paper_ledger("standard", make_spec(D), GPT2, A100_SRAM, backward=True)
    fa1 = paper_ledger("fa1", make_spec(D), GPT2, A100_SRAM, backward=True)
    a100 = parse_target("sm_80")
    tensor, fma = verdicts(standard.flops, standard.total, a100, FP16)
    assert (tensor.unit, tensor.bound, fma.unit, fma.bound) == ("tensor cores", "memory", "FMA units", "compute")
    assert verdicts(fa1.flops, fa1.total, a100, FP16)[0].bound == "compute"
    assert tensor.ridge == pytest.approx(312e12 / 1555e9)
    assert [v.unit for v in verdicts(1, 1, a100, FP32)] == ["FMA units"]
    assert verdicts(1, 1, a100, FP64)[0].peak == 9.7e12
    assert verdicts(1, 1, parse_target("sm_121"), FP16) == ()
    assert verdicts(1, 0, a100, FP16) == ()


def test_peaks_are_of_targets_that_exist_and_grow_with_precision_lost():
    assert set(PEAKS) <= set(PRESETS)
    assert len({PRESETS[target].device for target in gpus()}) == len(gpus())
    for target, peaks in PEAKS.items():
        assert peaks.source
        assert peaks.fp64 < peaks.fp32 < (peaks.tensor or 1e9)
        assert target.kind == "cuda" or not peaks.tensor


@pytest.mark.parametrize("backward", [False, True])
def test_the_paper_s_fa1_follows_n2_d2_over_m(backward):
    found = sweep_report(ask("paper", algorithms=("fa1",), sizes=Sizes(1, 1, 8192, 8192), backward=backward))
    ratios = [total / line for total, line in zip(found.bytes["fa1"], found.line, strict=True)]
    small = [ratio for ratio, budget in zip(ratios, found.budgets, strict=True) if 8 * 1024 <= budget <= 128 * 1024]
    assert len(small) > 20
    assert all(0.97 < ratio < 1.12 for ratio in small)  # ceilings, and the rest: K, V, l and m
    assert found.line_factor == (32 if backward else 12)
    assert found.bytes["fa1"][0] > found.bytes["fa1"][-1] > found.floor


def test_kernels_are_swept_where_a_tile_fits():
    found = sweep_report(ask(algorithms=("standard", "fa1", "nonsense")))
    assert set(found.bytes) == {"standard", "fa1"}
    assert found.budgets[-1] <= PRESETS[parse_target("sm_80")].onchip_bytes
    assert found.bytes["fa1"][0] is None  # 1 KiB holds no tile
    assert found.bytes["fa1"][-1] is not None


def test_the_plot_marks_every_series_and_is_as_wide_as_the_sweep():
    found = sweep_report(ask("paper", algorithms=("standard", "fa1", "fa2")))
    plot = text_plot(found)
    canvas = [line.partition("|")[2] for line in plot.split("\n") if "|" in line]
    assert max(map(len, canvas)) <= len(found.budgets)
    for mark in "s12._":
        assert any(mark in line for line in canvas), mark
    assert "64 KiB" in plot and "12 N^2 d^2 / M" in plot and "10 GB" in plot


def test_the_picture_is_a_png(tmp_path):
    pytest.importorskip("matplotlib")
    write_png(sweep_report(ask("paper", algorithms=("fa1",))), tmp_path / "sweep.png", "title")
    assert (tmp_path / "sweep.png").read_bytes().startswith(b"\x89PNG")


def test_without_matplotlib_the_picture_says_how_to_get_it(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ToolchainError, match=r"pip install 'flashgen\[plot\]'"):
        write_png(sweep_report(ask("paper", algorithms=("fa1",))), tmp_path / "sweep.png", "title")
    assert not (tmp_path / "sweep.png").exists()


def test_the_command_prints_ledgers_rooflines_and_figures():
    done = flashgen("io", "--heads", 16, "--batch", 64, "--sram", "192KiB", "--convention", "paper", "--backward")
    assert done.exit_code == 0, done.output
    for text in ("line 12", "backward", "4,102,029,312", "sm_90 (H100 SXM)", "fa1: 4.4 GB printed, 4.10 GB"):
        assert text in done.stdout
    other = flashgen("io", "--sram", "192KiB", "--convention", "paper").stdout
    assert "--n 1024 --d 64 --heads 16 --batch 64 --sram 192KiB --backward" in other


def test_the_command_sweeps_and_refuses_a_picture_without_a_sweep(tmp_path):
    pytest.importorskip("matplotlib")
    picture = tmp_path / "sweep.png"
    done = flashgen("io", "--convention", "paper", "--sweep", "sram", "--png", picture, "--json")
    data = json.loads(done.stdout)["sweep"]
    assert len(data["sram_bytes"]) == len(data["line_bytes"]) == len(data["total_bytes"]["fa1"])
    assert picture.is_file()
    assert "--sweep sram" in flashgen("io", "--png", picture).stderr
    assert flashgen("io", "--png", picture).exit_code == 2


def test_a_budget_beyond_the_device_is_an_error_of_the_kernel_convention_only():
    assert flashgen("io", "--sram", "192KiB", "--target", "sm_80", "--algorithm", "fa1").exit_code == 3
    assert flashgen("io", "--sram", "192KiB", "--target", "sm_80", "--convention", "paper").exit_code == 0
