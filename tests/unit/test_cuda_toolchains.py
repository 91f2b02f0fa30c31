"""CUDA compilers: what they are asked for, what they answer, and what they say when they cannot."""

import dataclasses
import hashlib
import subprocess
import sys
from pathlib import Path

import pytest

from flashgen.compilation.builder import build
from flashgen.compilation.key import artifact_key
from flashgen.compilation.store import open_directory
from flashgen.compilation.toolchains import cuda
from flashgen.compilation.toolchains.cuda_arch import choose_arch
from flashgen.compilation.toolchains.nvcc import NvccToolchain, find_nvcc
from flashgen.compilation.toolchains.nvrtc import NvrtcToolchain
from flashgen.compilation.toolchains.nvrtc_library import Nvrtc, find_nvrtc
from flashgen.compilation.toolchains.ptxas_log import parse_ptxas_log
from flashgen.errors import CompileError, ToolchainError
from flashgen.families import family_named
from flashgen.render.renderer import render
from flashgen.source import KernelSource
from flashgen.spec import make_spec
from flashgen.target import PRESETS, capability, parse_target
from flashgen.tiling import plan_tiles

CUDA_TARGETS = [target for target in PRESETS if target.kind == "cuda"]


@pytest.fixture(scope="module")
def nvrtc() -> Nvrtc:
    found = find_nvrtc()
    if not found:
        pytest.skip("no NVRTC: pip install 'flashgen[cuda]'")
    return found[0]


def source_for(target: str, dtype: str = "fp32") -> KernelSource:
    where, family, spec = parse_target(target), family_named("cuda_fa1"), make_spec(16, dtype)
    return render(family, spec, plan_tiles(family, spec, where, PRESETS[where], br=8, bc=16), where)


def test_nvrtc_tells_its_version_and_architectures(nvrtc: Nvrtc) -> None:
    assert nvrtc.version >= (11, 0)
    assert nvrtc.release.startswith("{}.{}".format(*nvrtc.version))
    assert 80 in nvrtc.archs
    assert list(nvrtc.archs) == sorted(nvrtc.archs)


def test_nvrtc_gives_cubin_ptx_and_a_report(nvrtc: Nvrtc, tmp_path: Path) -> None:
    compiled = NvrtcToolchain(nvrtc).compile(source_for("sm_80"), tmp_path)
    assert next(iter(compiled.files)) == "cubin"  # the file that a loader loads first
    assert compiled.files["cubin"][:4] == b"\x7fELF"
    assert b".target sm_80" in compiled.files["ptx"]
    assert b".entry flashgen_cuda_fa1(" in compiled.files["ptx"]
    kernel = compiled.report["kernels"]["flashgen_cuda_fa1"]
    assert kernel["arch"] == "sm_80"
    assert 16 <= kernel["registers"] <= 255
    assert (kernel["stack_bytes"], kernel["static_smem_bytes"]) == (0, 0)


def test_the_real_release_and_the_architecture_enter_the_key(nvrtc: Nvrtc) -> None:
    toolchain, source = NvrtcToolchain(nvrtc), source_for("sm_80")
    assert nvrtc.release in dict(toolchain.identity())["compiler"]
    keys = {
        artifact_key(source, toolchain.flags(parse_target(target)), toolchain.identity())
        for target in ("sm_80", "sm_86", "sm_90", "sm_90a")
    }
    assert len(keys) == 4


def test_equal_requests_give_equal_bytes_and_are_found_again(nvrtc: Nvrtc, tmp_path: Path) -> None:
    toolchain, source, store = NvrtcToolchain(nvrtc), source_for("sm_80"), open_directory(tmp_path / "store")
    first, second = build(source, toolchain, store), build(source, toolchain, store)
    assert (first.cache_hit, second.cache_hit) == (False, True)
    assert list(second.paths) == ["cubin", "ptx"]
    assert toolchain.compile(source, tmp_path).files["cubin"] == first.path.read_bytes()


def test_another_process_gets_the_same_bytes(nvrtc: Nvrtc, tmp_path: Path) -> None:
    """NVRTC puts the process id into the names of anonymous namespaces, so the templates have none."""
    source = source_for("sm_80")
    path = source.write_to(tmp_path)
    program = f"""
import hashlib, sys
from flashgen.compilation.toolchains.nvrtc import NvrtcToolchain
from flashgen.compilation.toolchains.nvrtc_library import Nvrtc
from flashgen.target import parse_target
library = Nvrtc({nvrtc.path!r})
flags = NvrtcToolchain(library).flags(parse_target("sm_80"))
compiled = library.compile(open({str(path)!r}).read(), {source.filename!r}, flags)
print(hashlib.sha256(compiled.cubin + compiled.ptx).hexdigest())
"""
    there = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    here = NvrtcToolchain(nvrtc).compile(source, tmp_path).files
    assert there.stdout.strip() == hashlib.sha256(here["cubin"] + here["ptx"]).hexdigest(), there.stderr


def test_a_compile_error_shows_the_line(nvrtc: Nvrtc, tmp_path: Path) -> None:
    good = source_for("sm_80")
    bad = dataclasses.replace(good, text=good.text.replace("__syncthreads();", "synchronise_everything();", 1))
    line = 1 + bad.text[: bad.text.index("synchronise_everything")].count("\n")
    with pytest.raises(CompileError, match='identifier "synchronise_everything" is undefined') as error:
        NvrtcToolchain(nvrtc).compile(bad, tmp_path)
    assert f"> {line:4d} |" in error.value.excerpt
    assert "-arch=sm_80" in error.value.command
    assert error.value.exit_code == 4


def test_ptxas_refusals_are_compile_errors_too(nvrtc: Nvrtc, tmp_path: Path) -> None:
    good = source_for("sm_75")
    body = 'asm volatile("cp.async.commit_group;"); __syncthreads();'  # sm_80 and later
    bad = dataclasses.replace(good, text=good.text.replace("__syncthreads();", body, 1))
    with pytest.raises(CompileError, match=r"sm_80|cp\.async"):
        NvrtcToolchain(nvrtc).compile(bad, tmp_path)


@pytest.mark.parametrize(
    ("target", "supported", "option", "ptx_only"),
    [
        ("sm_80", (75, 80, 90), "sm_80", False),
        ("sm_90a", (75, 80, 90), "sm_90a", False),
        ("sm_120", (75, 80, 90), "compute_90", True),
        ("sm_103", (75, 80, 100), "compute_100", True),
    ],
)
def test_the_newest_known_relative_stands_in_for_a_new_architecture(
    target: str, supported: tuple[int, ...], option: str, ptx_only: bool
) -> None:
    choice = choose_arch(parse_target(target), supported)
    assert choice is not None
    assert (choice.option, choice.ptx_only) == (option, ptx_only)


def test_an_architecture_that_was_dropped_has_no_stand_in() -> None:
    assert choose_arch(parse_target("sm_70"), (75, 80)) is None


def test_capabilities_are_read_from_names() -> None:
    assert [capability(parse_target(name)) for name in ("sm_75", "sm_90a", "sm_121")] == [75, 90, 121]
    with pytest.raises(ValueError, match="no CUDA architecture"):
        capability(parse_target("cpu:x86-64-v3"))


class OldNvrtc:
    """An NVRTC that ends at sm_90, on top of the real one."""

    release = "11.8.0"
    archs = (75, 80, 86, 90)
    version = (11, 8)

    def __init__(self, real: Nvrtc) -> None:
        self.compile = real.compile


def test_a_new_target_is_built_as_ptx_and_that_is_said(
    nvrtc: Nvrtc, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    toolchain = NvrtcToolchain(OldNvrtc(nvrtc))  # type: ignore[arg-type]
    compiled = toolchain.compile(source_for("sm_120"), tmp_path)
    assert list(compiled.files) == ["ptx"]
    assert b".target sm_90" in compiled.files["ptx"]
    for said in (caplog.text, compiled.log):
        assert "does not know sm_120 yet" in said
        assert "PTX for compute_90" in said
    assert compiled.report["kernels"] == {}


def test_an_old_target_names_the_nvrtc_that_still_serves_it(nvrtc: Nvrtc) -> None:
    toolchain = NvrtcToolchain(OldNvrtc(nvrtc))  # type: ignore[arg-type]
    with pytest.raises(ToolchainError, match=r"sm_75 and later, not for sm_70.*flashgen\[cuda12\]"):
        toolchain.flags(parse_target("sm_70"))


def test_an_nvrtc_that_knows_the_target_is_preferred(nvrtc: Nvrtc, monkeypatch: pytest.MonkeyPatch) -> None:
    old = OldNvrtc(nvrtc)
    monkeypatch.setattr(cuda, "find_nvrtc", lambda: (old, nvrtc))
    monkeypatch.setattr(cuda, "find_nvcc", lambda: None)
    assert cuda.cuda_toolchain(parse_target("sm_80")).library is old  # type: ignore[attr-defined]
    newest = f"sm_{nvrtc.archs[-1]}"
    if nvrtc.archs[-1] > 90 and parse_target(newest) in PRESETS:
        assert cuda.cuda_toolchain(parse_target(newest)).library is nvrtc  # type: ignore[attr-defined]


def test_no_compiler_at_all_names_the_command_that_brings_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda, "find_nvrtc", lambda: ())
    monkeypatch.setattr(cuda, "find_nvcc", lambda: None)
    with pytest.raises(ToolchainError, match=r"pip install 'flashgen\[cuda\]'"):
        cuda.cuda_toolchain(parse_target("sm_80"))


def test_nvcc_is_a_second_toolchain(tmp_path: Path) -> None:
    compiler = find_nvcc()
    if compiler is None:
        pytest.skip("no nvcc on PATH")
    toolchain = NvccToolchain(compiler)
    compiled = toolchain.compile(source_for("sm_80", "fp16"), tmp_path)
    assert list(compiled.files) == ["cubin", "ptx"]
    assert compiled.report["kernels"]["flashgen_cuda_fa1"]["stack_bytes"] == 0
    assert compiler.release in dict(toolchain.identity())["compiler"]
    good = source_for("sm_80")
    bad = dataclasses.replace(good, text=good.text.replace("__syncthreads();", "nonsense();", 1))
    with pytest.raises(CompileError, match="nonsense"):
        toolchain.compile(bad, tmp_path)


LOG = """\
nvrtc: warning: Architectures prior to '<compute/sm>_75' are deprecated and may be removed in a future release
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'first' for 'sm_80'
ptxas info    : Function properties for first
    16 bytes stack frame, 8 bytes spill stores, 4 bytes spill loads
ptxas info    : Used 168 registers, used 2 barriers, 16+0 bytes smem, 560 bytes cmem[0]
ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized
ptxas info    : Compiling entry function 'second' for 'sm_80'
ptxas info    : Function properties for second
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 32 registers, 384 bytes cmem[0]
"""


def test_the_log_of_ptxas_is_read_entry_by_entry() -> None:
    report = parse_ptxas_log(LOG)
    assert report["kernels"] == {
        "first": {
            "arch": "sm_80",
            "stack_bytes": 16,
            "spill_store_bytes": 8,
            "spill_load_bytes": 4,
            "registers": 168,
            "barriers": 2,
            "static_smem_bytes": 16,
        },
        "second": {
            "arch": "sm_80",
            "stack_bytes": 0,
            "spill_store_bytes": 0,
            "spill_load_bytes": 0,
            "registers": 32,
            "barriers": 0,
            "static_smem_bytes": 0,
        },
    }
    assert len(report["warnings"]) == 1
    assert "C7510" in report["warnings"][0]


@pytest.mark.parametrize("target", CUDA_TARGETS, ids=str)
def test_every_target_has_limits_to_plan_with(target: object) -> None:
    limits = PRESETS[target]  # type: ignore[index]
    assert limits.device
    assert 64 * 1024 <= limits.onchip_bytes < limits.smem_per_sm + 1
    assert limits.registers_per_sm == 65536
    assert limits.cores > 0
