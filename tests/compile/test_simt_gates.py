"""What the hot loops of cuda_fa2_simt are made of: FMAs, wide loads from shared memory, and little else."""

from __future__ import annotations

import subprocess
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from flashgen.compilation.builder import build
from flashgen.compilation.toolchains.cuda import cuda_toolchain
from flashgen.errors import ToolchainError
from flashgen.families import family_named
from flashgen.families.base import snap
from flashgen.inspect.sass import Code, find_nvdisasm, parse_sass
from flashgen.render.renderer import render
from flashgen.spec import make_spec
from flashgen.target import PRESETS, parse_target
from flashgen.tiling import plan_tiles

TARGETS = ["sm_75", "sm_80", "sm_86", "sm_90", "sm_120"]
FMAS = ("FFMA", "DFMA")


@cache
def code_of(d: int, dtype: str, target: str, tile: tuple[int | None, int | None] = (None, None)) -> Code:
    family, spec, where = family_named("cuda_fa2_simt"), make_spec(d, dtype), parse_target(target)
    try:
        toolchain = cuda_toolchain(where)
        toolchain.flags(where)
    except ToolchainError as error:
        pytest.skip(str(error))
    command = find_nvdisasm()
    if command is None:
        pytest.skip("no nvdisasm: pip install 'flashgen[inspect]'")
    grid = family.grid(spec, where)
    br, bc = (size and snap(size, legal) for size, legal in zip(tile, (grid.br, grid.bc), strict=True))
    plan = plan_tiles(family, spec, where, PRESETS[where], br=br, bc=bc)
    cubin = build(render(family, spec, plan, where), toolchain).paths["cubin"]
    listing = subprocess.run([command, str(Path(cubin))], capture_output=True, text=True, check=True).stdout
    return parse_sass(listing)[family.entry]


def product_loops(code: Code) -> list[Counter[str]]:
    """The innermost loops that multiply: of Q K^T, and of P V."""
    innermost = [
        loop
        for loop in code.loops
        if not any(loop.first <= other.first and other.last <= loop.last and loop != other for other in code.loops)
    ]
    mixes = [Counter(code.opcodes[loop.first : loop.last + 1]) for loop in innermost]
    return [mix for mix in mixes if sum(mix[fma] for fma in FMAS) >= 32]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("d", [64, 80, 96, 128, 192, 256])
def test_four_fifths_of_the_hot_loops_are_fmas(d: int, target: str) -> None:
    """Of the largest heads, 64 KiB hold so few rows that fetching the next slice shows in the loop."""
    few_rows = d >= 192 and target == "sm_75"
    loops = product_loops(code_of(d, "fp32", target))
    assert len(loops) >= 2
    for mix in loops:
        assert mix["FFMA"] >= (0.65 if few_rows else 0.8) * mix.total(), mix


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("d", [64, 128, 192, 256])
def test_operands_come_sixteen_bytes_at_a_time(d: int, target: str) -> None:
    for mix in product_loops(code_of(d, "fp32", target)):
        loads = [opcode for opcode in mix if opcode.startswith("LDS")]
        assert loads and all(opcode.endswith(".128") for opcode in loads), mix


@pytest.mark.parametrize("tile", [(16, 32), (32, 64), (64, 64), (None, None)])
@pytest.mark.parametrize("dtype", ["fp32", "fp64", "bf16"])
@pytest.mark.parametrize("d", [64, 128, 256])
def test_nothing_lives_in_local_memory(d: int, dtype: str, tile: tuple[int | None, int | None]) -> None:
    local = [opcode for opcode in code_of(d, dtype, "sm_80", tile).opcodes if opcode.startswith(("LDL", "STL"))]
    assert local == []


def test_a_kernel_can_be_read_in_one_sitting() -> None:
    family, spec, where = family_named("cuda_fa2_simt"), make_spec(64, "fp32", True), parse_target("sm_80")
    source = render(family, spec, plan_tiles(family, spec, where, PRESETS[where]), where)
    assert source.text.count("\n") < 450
    assert "#include" not in source.text
