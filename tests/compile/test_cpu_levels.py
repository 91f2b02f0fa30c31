"""Each instruction-set level gets vectors of its own width, and no instruction of a higher level."""

from __future__ import annotations

import re
import subprocess

import pytest

from flashgen.compilation.toolchains.host import HostToolchain, find_compiler
from flashgen.families import family_named
from flashgen.render.renderer import render
from flashgen.source import KernelSource
from flashgen.spec import make_spec
from flashgen.target import PRESETS, X86_LEVELS, Target, parse_target
from flashgen.tiling import plan_tiles

CPU_TARGETS = [target for target in PRESETS if target.kind == "cpu"]
WIDEST = {16: "xmm", 32: "ymm", 64: "zmm"}


def source_for(target: Target, dtype: str) -> KernelSource:
    family, spec = family_named("cpu_fa2"), make_spec(40, dtype, "bottom_right")
    return render(family, spec, plan_tiles(family, spec, target, PRESETS[target]), target)


@pytest.mark.parametrize("target", CPU_TARGETS, ids=str)
@pytest.mark.parametrize(("dtype", "element"), [("fp16", 4), ("bf16", 4), ("fp32", 4), ("fp64", 8)])
def test_a_level_is_rendered_with_vectors_of_its_width(target, dtype, element):
    assert f"kLanes = {PRESETS[target].simd_bytes // element};" in source_for(target, dtype).text


@pytest.mark.parametrize("level", X86_LEVELS)
@pytest.mark.parametrize("dtype", ["bf16", "fp32"])
def test_a_level_uses_its_registers_and_no_instruction_of_a_higher_one(level, dtype, tmp_path):
    if find_compiler().machine.split("-")[0] != "x86_64":
        pytest.skip("the compiler is not for x86-64")
    target = parse_target(f"cpu:{level}")
    source = source_for(target, dtype).write_to(tmp_path)
    flags = [flag for flag in HostToolchain().flags(target) if flag != "-shared"]
    listing = tmp_path / "kernel.s"
    subprocess.run([*find_compiler().command, *flags, "-S", "-o", str(listing), str(source)], check=True)
    code = listing.read_text()
    registers = set(re.findall(r"%([xyz]mm)\d", code))
    widest = WIDEST[PRESETS[target].simd_bytes]
    assert widest in registers
    assert not {name for name in registers if name > widest}
    assert ("vfmadd" in code) == (level != "x86-64-v2")
    assert ("vdpbf16ps" in code) == (level == "x86-64-v4-bf16" and dtype == "bf16")
