"""plan, build, show and verify, as they are typed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from flashgen.compilation.toolchains.nvrtc_library import find_nvrtc
from flashgen.families import FAMILIES
from flashgen.families.base import Family

PLAN_KEYS = [
    "target", "algorithm", "family", "dtype", "d", "dv", "causal", "sram_bytes", "m_elements", "rule", "br", "bc",
    "knobs", "origin", "footprint_bytes", "trail",
]  # fmt: skip
CPU = "cpu:x86-64-v3"


def test_plan_prints_the_trail_and_the_bytes_against_the_budget(flashgen):
    result = flashgen("plan", "--d", 64, "--sram", "96KB", "--algorithm", "fa1", "--target", CPU)
    assert result.exit_code == 0
    assert "M = 49,152 fp16 elements" in result.stdout
    assert "94,720" in result.stdout
    assert "98,304" in result.stdout


@pytest.mark.parametrize("sram", ["96KB", "96KiB", "98304"])
def test_plan_json_has_the_documented_keys(flashgen, sram):
    plan = json.loads(
        flashgen("plan", "--d", 64, "--sram", sram, "--algorithm", "fa1", "--target", CPU, "--json").stdout
    )
    assert list(plan) == PLAN_KEYS
    assert plan["sram_bytes"] == 98304
    assert plan["m_elements"] == 49152
    assert plan["rule"] == {"br": 64, "bc": 192}
    assert plan["footprint_bytes"]["total"] == sum(v for k, v in plan["footprint_bytes"].items() if k != "total")
    assert (plan["target"], plan["dtype"], plan["causal"]) == (CPU, "fp16", False)


def test_without_a_budget_the_three_rule_keys_are_null(flashgen):
    plan = json.loads(flashgen("plan", "--d", 64, "--causal", "--json").stdout)
    assert (plan["sram_bytes"], plan["m_elements"], plan["rule"]) == (None, None, None)
    assert plan["causal"] == "bottom_right"
    assert plan["origin"] == "default"


@pytest.mark.parametrize(
    ("options", "alignment"), [((), False), (("--causal",), "bottom_right"), (("--causal", "top_left"), "top_left")]
)
def test_causal_takes_an_optional_alignment(flashgen, options, alignment):
    assert json.loads(flashgen("plan", *options, "--d", 64, "--json").stdout)["causal"] == alignment


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (("--d", 64, "--sram", "1KB", "--br", 64, "--bc", 64), 3, "needs"),
        (("--d", 64, "--sram", "900MB"), 3, "exceeds the L2 cache"),
        (("--d", 513), 2, "from 1 to 512"),
        (("--d", 64, "--sram", "lots"), 2, "is not a size"),
        (("--d", 64, "--target", "sm_1"), 2, "Targets: auto"),
        (("--d", 64, "--dtype", "fp8"), 2, "fp8"),
        ((), 2, "--d"),
    ],
)
def test_errors_are_one_paragraph_with_their_exit_code(flashgen, options, code, words):
    result = flashgen("plan", *options)
    assert result.exit_code == code
    assert words in result.stderr
    assert "Traceback" not in result.output
    assert result.stdout == ""


def test_build_writes_the_source_and_the_library_beside_it(flashgen, tmp_path):
    result = flashgen("build", "--d", 24, "--sram", "96KB", "--json", "--out", "kernels und ü")
    assert result.exit_code == 0, result.output
    built = json.loads(result.stdout)
    assert list(built) == ["plan", "source", "artifact", "digest", "cache_hit", "seconds", "files"]
    assert list(built["plan"]) == PLAN_KEYS
    assert list(built["seconds"]) == ["render", "compile", "load"]
    source = tmp_path / built["source"]
    assert source.parent.name == "kernels und ü"
    assert source.read_text().startswith("// SPDX-License-Identifier: MIT")
    assert set(built["files"]) == {"cpp", "so"}
    assert source.with_suffix(".so").read_bytes() == Path(built["artifact"]).read_bytes()


def test_build_says_what_it_did_and_finds_it_in_the_cache_again(flashgen, tmp_path, monkeypatch):
    monkeypatch.setenv("FLASHGEN_CACHE_DIR", str(tmp_path / "cache"))
    first, again = (json.loads(flashgen("build", "--d", 23, "--algorithm", "fa1", "--json", "--loader", loader).stdout)
                    for loader in ("auto", "ctypes"))  # fmt: skip
    assert (first["cache_hit"], again["cache_hit"]) == (False, True)
    assert first["digest"] == again["digest"]
    text = flashgen("build", "--d", 23, "--algorithm", "fa1").stdout
    assert "generated/cpu_fa1_d23_fp16" in text
    assert "render" in text
    assert "compile" in text
    assert "this machine; --target names another" in text


def test_build_for_a_machine_that_is_not_here_builds_and_says_that_it_was_not_loaded(flashgen, monkeypatch):
    monkeypatch.setattr("flashgen.runtime.device.runs_here", lambda target: False)
    result = flashgen("build", "--d", 16, "--target", "cpu:x86-64-v4-bf16")
    assert result.exit_code == 0, result.output
    assert "not loaded: this machine cannot run cpu:x86-64-v4-bf16" in result.stdout


@pytest.mark.parametrize(
    "family", [family for family in FAMILIES if family.kind == "cpu"], ids=lambda family: family.name
)
def test_verify_passes_and_prints_the_error_beside_the_tolerance(flashgen, family: Family):
    result = flashgen("verify", "--d", 64, "--algorithm", family.algorithm)
    assert result.exit_code == 0, result.output
    assert "passed" in result.stdout
    assert "tolerance" in result.stdout


def test_verify_json_has_the_documented_keys(flashgen):
    report = json.loads(flashgen("verify", "--d", 16, "--dtype", "fp32", "--json").stdout)
    assert {"passed", "cases", "max_abs_error", "rms_error", "tolerance", "worst_case"} <= set(report)
    assert report["passed"] is True
    assert report["cases"] > 20


def test_a_wrong_kernel_fails_verification_with_exit_code_5(flashgen, monkeypatch):
    from flashgen.runtime.dispatch import Attention

    right = Attention.__call__

    def wrong(self, *args, **kwargs):
        out, lse = right(self, *args, **kwargs)
        return out + out.dtype.type(0.01), lse

    monkeypatch.setattr(Attention, "__call__", wrong)
    for command in (("verify",), ("build", "--verify")):
        result = flashgen(*command, "--d", 16, "--dtype", "fp32")
        assert result.exit_code == 5
        assert "FAILED" in result.stdout
        assert "outside the tolerance" in result.stderr


def test_show_prints_numbered_source_and_bare_source(flashgen):
    shown = flashgen("show", "--d", 64, "--algorithm", "fa1", "--target", CPU)
    bare = flashgen("show", "--d", 64, "--algorithm", "fa1", "--target", CPU, "--source")
    assert "   1  // SPDX-License-Identifier: MIT" in shown.stdout
    assert bare.stdout.startswith("// SPDX-License-Identifier: MIT\n")
    assert "Algorithm 1, line 9" in bare.stdout
    assert "had nothing to say" in flashgen("show", "--d", 64, "--algorithm", "fa1", "--log").stdout
    data = json.loads(flashgen("show", "--d", 64, "--algorithm", "fa1", "--target", CPU, "--json").stdout)
    assert data["source"] == bare.stdout


@pytest.mark.skipif(not find_nvrtc(), reason="no NVRTC: pip install 'flashgen[cuda]'")
def test_a_cuda_kernel_is_verified_in_the_emulator_where_there_is_no_gpu(flashgen, monkeypatch):
    monkeypatch.setattr("flashgen.runtime.device.runs_here", lambda target: False)
    result = flashgen("build", "--d", 16, "--sram", "16KB", "--target", "sm_75", "--dtype", "fp32", "--verify")
    assert result.exit_code == 0, result.output
    assert "passed: 52 cases" in result.stdout
    verified = flashgen("verify", "--d", 16, "--sram", "16KB", "--target", "sm_75", "--loader", "emulator", "--json")
    assert json.loads(verified.stdout)["passed"] is True
    refused = flashgen("build", "--d", 16, "--target", "cpu:aarch64", "--verify")
    assert refused.exit_code == 2
    assert "cannot be verified here" in refused.stderr


def test_a_folder_may_have_brackets_in_its_name(flashgen, tmp_path):
    folder = tmp_path / "a[b][/c]"
    result = flashgen("build", "--d", 16, "--algorithm", "fa1", "--target", CPU, "--out", folder)
    assert result.exit_code == 0, result.output
    assert all(str(path) in result.stdout for path in folder.iterdir())
    assert {path.suffix for path in folder.iterdir()} == {".cpp", ".so"}


@pytest.mark.parametrize(("name", "expected"), [("float16", "fp16"), ("torch.bfloat16", "bf16"), ("FP32", "fp32")])
def test_a_dtype_has_the_frameworks_names_too(flashgen, name, expected):
    result = flashgen("plan", "--d", 64, "--dtype", name, "--target", CPU, "--json")
    assert json.loads(result.stdout)["dtype"] == expected


def test_an_unknown_dtype_is_refused_with_the_choices(flashgen):
    result = flashgen("plan", "--d", 64, "--dtype", "int8")
    assert result.exit_code == 2
    assert "'int8' is not one of 'fp16', 'bf16', 'fp32', 'fp64'" in result.stderr


def test_what_belongs_to_the_other_kind_of_target_is_refused_in_words(flashgen, tmp_path):
    result = flashgen("build", "--d", 64, "--target", CPU, "--emit", "ptx", "--out", tmp_path)
    assert (result.exit_code, list(tmp_path.iterdir())) == (2, [])
    assert "A CPU kernel has no ptx" in result.stderr
    result = flashgen("build", "--d", 64, "--target", "sm_80", "--loader", "ctypes", "--out", tmp_path)
    assert (result.exit_code, list(tmp_path.iterdir())) == (2, [])
    assert "Loader 'ctypes' is for CPU targets" in result.stderr
