"""`flashgen show --sass`, as it is typed."""

from __future__ import annotations

import json
from importlib.util import find_spec

import pytest

from flashgen.compilation.toolchains.nvrtc_library import find_nvrtc
from flashgen.inspect.sass import find_nvdisasm

needs_tools = pytest.mark.skipif(
    not find_nvrtc() or find_nvdisasm() is None, reason="no NVRTC or nvdisasm: pip install 'flashgen[cuda,inspect]'"
)


@needs_tools
def test_a_tensor_core_kernel_is_shown_beside_its_ideal(flashgen):
    asked = ("show", "--d", 64, "--target", "sm_80", "--sass", "--no-triton")
    data = json.loads(flashgen(*asked, "--json").stdout)["sass"]["tensor_loop"]
    ours, ideal = data["flashgen"], data["ideal"]
    assert ideal["HMMA"] == ours["counts"]["HMMA"] == ours["products"] == 128
    assert ours["instructions"] == sum(ours["counts"].values()) > ideal["total"] == 549
    assert sum(ours["others"].values()) == ours["counts"]["other"]
    assert ours["overhead"] == pytest.approx(ours["instructions"] / 549 - 1)
    assert ours["per_product"] == pytest.approx(ours["instructions"] / 128)
    assert data["triton"] is None
    shown = flashgen(*asked).stdout
    assert f"{ours['overhead']:.1%}" in shown
    assert "32 x4" in shown and "8 LDGSTS of 16 bytes" in shown
    assert "riton" not in shown


@needs_tools
def test_kernels_of_plain_fmas_show_the_share_of_those(flashgen):
    asked = ("show", "--d", 64, "--target", "sm_80", "--sass")
    data = json.loads(flashgen(*asked, "--dtype", "fp32", "--json").stdout)["sass"]
    assert data["tensor_loop"] is None
    for loop in data["fma_loops"]:
        assert loop["entry"] == "flashgen_cuda_fa2_simt"
        assert loop["share"] == loop["fmas"] / loop["instructions"] > 0.85
        assert set(loop["widths"]) == {"LDS.128"}
    shown = flashgen(*asked, "--algorithm", "standard").stdout
    assert "cuda_standard_scores" in shown and "cuda_standard_output" in shown


@needs_tools
def test_what_triton_cannot_do_is_said(flashgen):
    result = flashgen("show", "--d", 80, "--target", "sm_80", "--sass")
    assert result.exit_code == 0
    assert ("powers of two" if find_spec("triton") else "Triton is not installed") in result.stdout


@needs_tools
@pytest.mark.skipif(find_spec("triton") is None, reason="the judges extra installs Triton")
@pytest.mark.parametrize(("target", "d"), [("sm_80", 64), ("sm_80", 128), ("sm_86", 128), ("sm_120", 64)])
@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
def test_triton_needs_more_instructions_for_each_mma(flashgen, monkeypatch, tmp_path, dtype, target, d):
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    asked = ("show", "--d", d, "--dtype", dtype, "--target", target, "--sass")
    data = json.loads(flashgen(*asked, "--json").stdout)["sass"]["tensor_loop"]
    assert data["no_triton"] == ""
    assert data["triton"]["products"] == data["flashgen"]["products"]
    assert data["triton"]["per_product"] > data["flashgen"]["per_product"]
    shown = flashgen(*asked).stdout
    assert "Triton's other" in shown and f"{data['triton']['per_product']:.2f}" in shown


def test_a_kernel_for_the_cpu_has_no_sass(flashgen):
    result = flashgen("show", "--d", 8, "--target", "cpu:x86-64-v3", "--sass")
    assert result.exit_code == 2
    assert "is no CUDA target" in result.stderr


@pytest.mark.skipif(not find_nvrtc(), reason="no NVRTC: pip install 'flashgen[cuda]'")
def test_without_nvdisasm_the_command_that_installs_it_is_named(flashgen, monkeypatch):
    monkeypatch.setattr("flashgen.inspect.sass.find_nvdisasm", lambda: None)
    result = flashgen("show", "--d", 64, "--target", "sm_80", "--sass")
    assert result.exit_code == 4
    assert "pip install 'flashgen[inspect]'" in result.stderr


@needs_tools
@pytest.mark.parametrize(
    ("sizes", "told"), [(("--d", 20), True), (("--d", 24, "--dv", 20), True), (("--d", 24), False)]
)
def test_copies_by_element_are_named_where_they_are_not_counted(flashgen, sizes, told):
    shown = flashgen("show", *sizes, "--target", "sm_80", "--sass", "--no-triton").stdout
    assert ("no multiple of 8" in shown) == told
    assert ("that needs no mask" in shown) != told
