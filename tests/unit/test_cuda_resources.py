"""Resources: occupancy against NVIDIA's calculator, SASS loops, and the report of a real kernel."""

from pathlib import Path

import pytest

import flashgen
from flashgen.compilation.toolchains.nvrtc_library import find_nvrtc
from flashgen.inspect.occupancy import occupancy
from flashgen.inspect.resources import complaints, resources
from flashgen.inspect.sass import find_nvdisasm, hot_loop, loop_mix, parse_sass
from flashgen.pipeline import Built, build_kernel
from flashgen.spec import make_spec
from flashgen.target import PRESETS, parse_target

needs_nvrtc = pytest.mark.skipif(not find_nvrtc(), reason="no NVRTC: pip install 'flashgen[cuda]'")


# target, threads, registers, dynamic shared bytes -> CTAs, limiter: values of NVIDIA's occupancy calculator.
@pytest.mark.parametrize(
    ("target", "threads", "registers", "shared", "ctas", "limiter"),
    [
        ("sm_80", 256, 32, 0, 8, "registers"),
        ("sm_80", 256, 128, 0, 2, "registers"),
        ("sm_80", 128, 255, 0, 2, "registers"),
        ("sm_80", 256, 64, 65536, 2, "shared memory"),
        ("sm_80", 128, 128, 81920, 2, "shared memory"),
        ("sm_80", 32, 16, 0, 32, "CTAs"),
        ("sm_86", 256, 16, 0, 6, "threads"),
        ("sm_75", 256, 32, 0, 4, "threads"),
        ("sm_75", 128, 64, 32768, 2, "shared memory"),
        ("sm_90", 128, 168, 0, 3, "registers"),
        ("sm_90", 128, 64, 232448, 1, "shared memory"),
    ],
)
def test_occupancy(target: str, threads: int, registers: int, shared: int, ctas: int, limiter: str) -> None:
    where = parse_target(target)
    found = occupancy(where, PRESETS[where], threads, registers, shared)
    assert (found.ctas, found.limiter) == (ctas, limiter)
    assert found.warps == ctas * -(-threads // 32)
    assert 0 < found.share <= 1


LISTING = """
\t.section\t.text.kernel,"ax",@progbits
kernel:
        /*0000*/                   MOV R1, c[0x0][0x28] ;
.L_x_1:
        /*0010*/                   LDS.128 R4, [R8] ;
.L_x_0:
        /*0020*/                   FFMA R0, R1, R2, R0 ;
        /*0030*/                   FFMA R3, R1, R2, R3 ;
        /*0040*/              @!P0 HADD2.F32 R5, -RZ, R5.H0_H0 ;
        /*0050*/               @P1 BRA `(.L_x_0) ;
        /*0060*/                   MUFU.EX2 R0, R0 ;
        /*0070*/               @P2 BRA `(.L_x_1) ;
        /*0080*/                   BRA `(.L_x_2) ;
.L_x_2:
        /*0090*/                   EXIT ;
\t.section\t.text.other,"ax",@progbits
        /*0000*/                   EXIT ;
"""


def test_the_hot_loop_is_the_innermost_one_with_the_most_arithmetic() -> None:
    code = parse_sass(LISTING)
    assert set(code) == {"kernel", "other"}
    assert [(loop.first, loop.last) for loop in code["kernel"].loops] == [(2, 5), (1, 7)]
    assert loop_mix(code["kernel"]) == {"FFMA": 2, "HADD2": 1, "BRA": 1}
    assert loop_mix(code["other"]) is None


@pytest.fixture(scope="module")
def built() -> Built:
    plan = flashgen.plan(64, sram="96KB", target="sm_80", algorithm="fa1")
    return build_kernel(make_spec(64), plan, parse_target("sm_80"))


@needs_nvrtc
def test_plan_manifest_source_and_ptxas_agree(built: Built) -> None:
    (kernel,) = resources(built.source, built.artifact, with_sass=False)
    assert kernel.shared_bytes == built.source.plan.footprint.total
    assert f"sizeof(Tiles) == {kernel.shared_bytes}" in built.source.text
    assert kernel.static_shared_bytes == 0
    assert (kernel.stack_bytes, kernel.spill_store_bytes, kernel.spill_load_bytes) == (0, 0, 0)
    assert kernel.threads == 256
    assert kernel.barriers == 1
    assert complaints((kernel,), built.source) == ()


@needs_nvrtc
def test_what_is_wrong_is_said(built: Built) -> None:
    import dataclasses

    (kernel,) = resources(built.source, built.artifact, with_sass=False)
    bad = dataclasses.replace(kernel, stack_bytes=928, shared_bytes=1)
    said = complaints((bad,), built.source)
    assert any("stack_bytes is 928, not 0" in line for line in said)
    assert any("the launches take 1" in line for line in said)


@needs_nvrtc
def test_fa1s_hot_loop_is_multiply_and_add(built: Built) -> None:
    if find_nvdisasm() is None:
        pytest.skip("no nvdisasm: pip install 'flashgen[inspect]'")
    mix = hot_loop(built.artifact.path, built.source.entry)
    assert mix is not None
    # 8 rows x 4 keys x 4 elements of d; q and k are widened once for all of them.
    assert mix["FFMA"] == 128
    assert mix["HADD2"] == 4 * (8 + 4)
    assert "LDL" not in mix
    assert "STL" not in mix
    assert sum(mix.values()) < 1.1 * (mix["FFMA"] + mix["HADD2"] + mix["LDS"])


def test_without_nvdisasm_there_is_no_mix(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("flashgen.inspect.sass.find_nvdisasm", lambda: None)
    assert hot_loop(tmp_path / "nothing.cubin", "entry") is None
