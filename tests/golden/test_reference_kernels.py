"""The committed reference kernels are what the templates render today."""

from pathlib import Path

import pytest

from flashgen.families import FAMILIES, family_named
from flashgen.render.renderer import render
from flashgen.source import KernelSource
from flashgen.spec import make_spec
from flashgen.target import PRESETS, parse_target
from flashgen.tiling import plan_tiles

REFERENCE = Path(__file__).resolve().parents[2] / "generated" / "reference"

# family, target, dtype, causal, sram
KERNELS = [
    ("cpu_decode", "cpu:x86-64-v3", "fp32", True, None),
    ("cpu_fa1", "cpu:x86-64-v3", "fp16", False, 98304),
    ("cpu_fa2", "cpu:x86-64-v3", "fp32", True, None),
    ("cpu_fa2", "cpu:x86-64-v4-bf16", "bf16", False, None),
    ("cpu_standard", "cpu:x86-64-v3", "fp32", True, 98304),
    ("cuda_decode", "sm_80", "bf16", True, None),
    ("cuda_fa1", "sm_80", "fp16", False, 98304),
    ("cuda_fa2_mma", "sm_80", "fp16", True, None),
    ("cuda_fa2_simt", "sm_80", "fp32", True, None),
    ("cuda_standard", "sm_80", "fp32", True, 98304),
]


def render_reference(family: str, target: str, dtype: str, causal: bool, sram: int | None) -> KernelSource:
    where, chosen, spec = parse_target(target), family_named(family), make_spec(64, dtype, causal)
    return render(chosen, spec, plan_tiles(chosen, spec, where, PRESETS[where], sram_bytes=sram), where)


@pytest.mark.parametrize(("family", "target", "dtype", "causal", "sram"), KERNELS)
def test_a_reference_kernel_is_rendered_to_the_byte(
    family: str, target: str, dtype: str, causal: bool, sram: int | None, update_golden: bool
) -> None:
    source = render_reference(family, target, dtype, causal, sram)
    path = REFERENCE / source.filename
    if update_golden:
        source.write_to(REFERENCE)
    assert path.is_file(), f"{path.name} is missing; make golden renders it"
    assert path.read_text() == source.text, f"{path.name} differs; look at the change, then make golden"


def test_every_family_has_a_reference_kernel_and_no_stray_file_lies_there() -> None:
    names = {render_reference(*kernel).filename for kernel in KERNELS}
    assert {path.name for path in REFERENCE.iterdir() if path.name != "README.md"} == names
    assert {kernel[0] for kernel in KERNELS} == {family.name for family in FAMILIES}
