"""`flashgen show --model`, as it is typed."""

from __future__ import annotations

import json

import pytest

from flashgen.compilation.toolchains.nvrtc_library import find_nvrtc
from flashgen.inspect.sass import find_nvdisasm
from flashgen.target import PRESETS

needs_tools = pytest.mark.skipif(
    not find_nvrtc() or find_nvdisasm() is None, reason="no NVRTC or nvdisasm: pip install 'flashgen[cuda,inspect]'"
)
ASKED = ("show", "--d", 64, "--model")


def model_of(result):
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)["model"]


@needs_tools
def test_one_target_is_shown_in_full(flashgen):
    (kernel,) = model_of(flashgen(*ASKED, "--target", "sm_80", "--json"))
    (loop,) = kernel["loops"]
    assert (kernel["device"], loop["unit"], loop["busiest"]) == ("A100", "tensor", "tensor")
    assert loop["cycles"]["tensor"] == 8 * 128
    assert loop["util_lo"] < loop["utilisation"] < loop["util_hi"] == 1
    assert loop["tflops"] == pytest.approx(312 * loop["share_of_peak"], rel=0.01)
    shown = flashgen(*ASKED, "--target", "sm_80").stdout
    assert f"{loop['cycles']['shared']:,.0f}" in shown
    assert f"{loop['utilisation']:.0%}" in shown
    assert f"{loop['tflops']:.0f}" in shown
    assert "nothing was measured" in shown


@needs_tools
def test_several_targets_have_a_row_each(flashgen):
    asked = (*ASKED, "--target", "sm_80", "--target", "sm_86", "--target", "sm_75")
    shown = flashgen(*asked).stdout
    assert [line.split()[1] for line in shown.splitlines() if "│ sm_" in line] == ["sm_80", "sm_86", "sm_75"]
    assert "no primary source states: sm_75 (shared)" in shown
    assert max(len(line) for line in shown.splitlines() if "│" in line) <= 100
    ampere, geforce, _ = (kernel["loops"][0] for kernel in model_of(flashgen(*asked, "--json")))
    assert geforce["share_of_peak"] > ampere["share_of_peak"]  # smaller tensor cores wait less


@needs_tools
def test_without_a_target_every_gpu_has_a_row_or_a_reason(flashgen):
    data = json.loads(flashgen(*ASKED, "--json").stdout)
    devices = {limits.device for target, limits in PRESETS.items() if target.kind == "cuda"}
    failed = {PRESETS[target].device for target in PRESETS if str(target) in data["failed"]}
    assert {kernel["device"] for kernel in data["model"]} | failed == devices
    assert len(data["model"]) + len(data["failed"]) == len(devices)
    assert len(data["model"]) >= 5


@needs_tools
def test_kernels_of_plain_fmas_are_modelled_by_those(flashgen):
    (kernel,) = model_of(flashgen(*ASKED, "--target", "sm_80", "--dtype", "fp32", "--json"))
    (loop,) = kernel["loops"]
    assert (kernel["family"], loop["unit"], loop["busiest"]) == ("cuda_fa2_simt", "fma", "fma")
    assert 0.5 < loop["share_of_peak"] < 1
    shown = flashgen(*ASKED, "--target", "sm_80", "--dtype", "fp32").stdout
    assert "FMA units busy" in shown
    assert "as if no two\nlanes read the same bytes" in shown


@needs_tools
def test_a_launch_that_does_not_multiply_is_named(flashgen):
    asked = (*ASKED, "--target", "sm_80", "--algorithm", "standard")
    (kernel,) = model_of(flashgen(*asked, "--json"))
    assert [loop["entry"] for loop in kernel["loops"]] == [
        "flashgen_cuda_standard_scores", "flashgen_cuda_standard_output",
    ]  # fmt: skip
    assert kernel["launches_without_products"] == ["flashgen_cuda_standard_softmax"]
    assert "standard_softmax multiplies no matrices" in flashgen(*asked).stdout


@needs_tools
def test_what_hardly_multiplies_is_refused(flashgen):
    result = flashgen("show", "--d", 4, "--dtype", "fp64", "--model", "--target", "sm_80")
    assert result.exit_code == 2
    assert "cuda_fa2_simt has none for d=4, fp64" in result.stderr


def test_a_cpu_has_no_such_pipes(flashgen):
    result = flashgen(*ASKED, "--target", "cpu:x86-64-v3")
    assert result.exit_code == 2
    assert "cpu:x86-64-v3 is no CUDA target" in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize("part", ["--model", pytest.param("--sass", marks=needs_tools)])
def test_decoding_waits_for_memory(flashgen, part):
    result = flashgen("show", "--d", 64, part, "--target", "sm_80", "--algorithm", "decode")
    assert result.exit_code == 2
    assert "flashgen io counts" in result.stderr


@needs_tools
def test_a_target_that_fails_does_not_hide_the_others(flashgen):
    result = flashgen(*ASKED, "--target", "cpu:x86-64-v3", "--target", "sm_80")
    assert result.exit_code == 0
    assert "│ sm_80" in result.stdout
    assert "cpu:x86-64-v3: The model is of the pipes" in result.stdout


def test_where_no_target_can_be_predicted_the_first_reason_is_the_error(flashgen):
    result = flashgen(*ASKED, "--target", "sm_1", "--target", "cpu:x86-64-v3")
    assert result.exit_code == 2
    assert "Target 'sm_1' is not known" in result.stderr


def test_several_targets_are_for_the_model(flashgen):
    result = flashgen("show", "--d", 64, "--target", "sm_80", "--target", "sm_86")
    assert result.exit_code == 2
    assert "Several targets are for --model" in result.stderr


@needs_tools
@pytest.mark.parametrize(
    ("sizes", "told"), [(("--d", 20), True), (("--d", 24, "--dv", 20), True), (("--d", 24), False)]
)
def test_copies_by_element_are_refused_since_they_are_not_counted(flashgen, sizes, told):
    result = flashgen("show", *sizes, "--target", "sm_80", "--model")
    assert ("no multiple of 8" in " ".join(result.stderr.split())) == told
    assert result.exit_code == (2 if told else 0)
