"""What ptxas says of every CUDA kernel: no stack frame, no spills, registers within limits, no advice.

A thin slice runs always; -m all_archs compiles family x dtype x mask x head dim for every architecture.
"""

import itertools
from pathlib import Path

import pytest

from flashgen.compilation.artifact import Compiled, Toolchain
from flashgen.compilation.toolchains.cuda import cuda_toolchain
from flashgen.dtypes import ALL
from flashgen.errors import BudgetError, ToolchainError
from flashgen.families import FAMILIES, family_named
from flashgen.render.renderer import render
from flashgen.source import KernelSource
from flashgen.spec import Causal, make_spec
from flashgen.target import PRESETS, Target, parse_target
from flashgen.tiling import plan_tiles

CUDA_FAMILIES = [family.name for family in FAMILIES if family.kind == "cuda"]
TARGETS = [target for target in PRESETS if target.kind == "cuda"]
HEAD_DIMS = (32, 40, 64, 80, 96, 128, 192, 256)
CAUSAL = [mode.as_json for mode in Causal]

Case = tuple[str, str, bool | str, int, int | None, Target]


def served(case: Case) -> bool:
    family, dtype, causal, d, d_v, target = case
    return family_named(family).refusal(make_spec(d, dtype, causal, d_v), target) is None  # type: ignore[arg-type]


# Every value of every axis appears, and so do odd head dims, d != dv and the smallest ones.
SLICE: list[Case] = [
    (family, dtype.name, CAUSAL[(i + n) % 3], d, d_v, TARGETS[(5 * i + n) % len(TARGETS)])
    for n, family in enumerate(CUDA_FAMILIES)
    for i, (dtype, (d, d_v)) in enumerate(
        itertools.product(ALL, ((32, None), (40, 24), (64, None), (80, None), (128, None), (256, None), (33, 1)))
    )
]
SLICE = [case for case in SLICE if served(case)]
EVERYTHING: list[Case] = [
    (family, dtype.name, causal, d, None, target)
    for target, family, dtype, causal, d in itertools.product(TARGETS, CUDA_FAMILIES, ALL, CAUSAL, HEAD_DIMS)
    if served((family, dtype.name, causal, d, None, target))
]


def toolchain_for(target: Target) -> Toolchain:
    try:
        toolchain = cuda_toolchain(target)
        toolchain.flags(target)
    except ToolchainError as error:
        pytest.skip(str(error))
    return toolchain


def compiled(case: Case, workdir: Path) -> tuple[KernelSource, Compiled]:
    family, dtype, causal, d, d_v, target = case
    chosen, spec = family_named(family), make_spec(d, dtype, causal, d_v)  # type: ignore[arg-type]
    source = render(chosen, spec, plan_tiles(chosen, spec, target, PRESETS[target]), target)
    return source, toolchain_for(target).compile(source, workdir)


def assert_gates(source: KernelSource, result: Compiled) -> None:
    launch = family_named(source.plan.family).launch_plan(source.spec, source.plan)
    kernels = result.report["kernels"]
    if "cubin" not in result.files:
        return  # a target that this compiler does not know: there is no ptxas to ask
    assert result.report["warnings"] == []
    assert set(kernels) == {step.entry for step in launch.steps}
    limits = PRESETS[source.target]
    for step in launch.steps:
        kernel = kernels[step.entry]
        # 32 rows a warp of 112 or more columns leave no register over: a handful of values live in local memory.
        full = source.plan.family == "cuda_fa2_mma" and kernel["registers"] == limits.registers_per_thread
        assert kernel["stack_bytes"] <= (64 if full else 0)
        assert full or kernel["spill_store_bytes"] == kernel["spill_load_bytes"] == 0
        assert kernel["static_smem_bytes"] == 0
        assert kernel["registers"] <= limits.registers_per_thread
        assert kernel["registers"] * step.block <= limits.registers_per_sm
        assert step.shared_bytes <= limits.onchip_bytes
    assert max(step.shared_bytes for step in launch.steps) == source.plan.footprint.total


def name_of(case: Case) -> str:
    return "-".join(str(part) for part in case)


@pytest.mark.parametrize("case", SLICE, ids=name_of)
def test_a_kernel_passes_the_gates(case: Case, tmp_path: Path) -> None:
    assert_gates(*compiled(case, tmp_path))


@pytest.mark.all_archs
@pytest.mark.parametrize("case", EVERYTHING, ids=name_of)
def test_every_kernel_passes_the_gates(case: Case, tmp_path: Path) -> None:
    assert_gates(*compiled(case, tmp_path))


@pytest.mark.parametrize("family", CUDA_FAMILIES)
@pytest.mark.parametrize("sram", [98304, 65536, 49152, 16384])
def test_budgets_are_kept_to_the_byte(family: str, sram: int, tmp_path: Path) -> None:
    """The static_assert of the source restates the plan's bytes, so compiling checks them."""
    target = parse_target("sm_80")
    chosen, spec = family_named(family), make_spec(64, "fp16", True)
    plan = plan_tiles(chosen, spec, target, PRESETS[target], sram_bytes=sram)
    assert plan.footprint.total <= sram
    source = render(chosen, spec, plan, target)
    assert f"== {plan.footprint.total}" in source.text
    assert_gates(source, toolchain_for(target).compile(source, tmp_path))


def test_a_wrong_footprint_does_not_compile(tmp_path: Path) -> None:
    import dataclasses

    from flashgen.errors import CompileError

    target = parse_target("sm_80")
    chosen, spec = family_named("cuda_fa1"), make_spec(64)
    source = render(chosen, spec, plan_tiles(chosen, spec, target, PRESETS[target], sram_bytes=98304), target)
    total = source.plan.footprint.total
    wrong = dataclasses.replace(source, text=source.text.replace(f"== {total}", f"== {total - 16}"))
    with pytest.raises(CompileError, match="the tiles of one CTA take the planned bytes"):
        toolchain_for(target).compile(wrong, tmp_path)


def test_what_fits_nowhere_is_a_budget_error() -> None:
    target = parse_target("sm_75")
    family, spec = family_named("cuda_fa1"), make_spec(256, "fp64")
    with pytest.raises(BudgetError, match="65,536 bytes"):
        plan_tiles(family, spec, target, PRESETS[target], br=64, bc=64)


def test_a_user_can_read_algorithm_1_in_the_kernel() -> None:
    """Every line of the algorithm is tagged, and the owner's kernel stays readable in one sitting."""
    target = parse_target("sm_80")
    family, spec = family_named("cuda_fa1"), make_spec(64)
    source = render(family, spec, plan_tiles(family, spec, target, PRESETS[target], sram_bytes=98304), target)
    assert source.text.count("\n") < 350
    assert "#include" not in source.text
    tagged = {number for number in range(1, 17) if _tags(source.text, number)}
    assert tagged == set(range(1, 17))


def _tags(text: str, number: int) -> bool:
    import re

    ranges = re.findall(r"lines? (\d+)(?: (?:to|and) (\d+))?", text)
    return any(int(first) <= number <= int(last or first) for first, last in ranges)
