"""What the hot loop of cuda_fa2_mma is made of, by ptxas and nvdisasm: products, the softmax, and little else.

The loop is a warp's turn over one block of keys that needs no mask. Ideal counts: flashgen/inspect/sass_ideal.py.
A slice runs always; -m all_archs compiles every head dim, dtype and mask for every architecture.
"""

from __future__ import annotations

import itertools
from collections.abc import Set
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest

from flashgen.compilation.toolchains.cuda import cuda_toolchain
from flashgen.errors import ToolchainError
from flashgen.families import family_named
from flashgen.inspect.resources import resources
from flashgen.inspect.sass import Code, disassemble, find_nvdisasm
from flashgen.inspect.sass_ideal import ideal_mix
from flashgen.inspect.sass_paths import product_paths
from flashgen.inspect.sass_report import LOCAL, TensorLoop, tensor_loop
from flashgen.pipeline import build_kernel
from flashgen.spec import CausalArgument, make_spec
from flashgen.target import PRESETS, parse_target
from flashgen.tile_plan import TilePlan
from flashgen.tiling import plan_tiles

Case = tuple[str, str, int]
HEAD_DIMS = (32, 64, 80, 96, 112, 128, 192, 256)
TARGETS = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_120")
ALWAYS = {
    *(("fp16", target, d) for target in ("sm_75", "sm_80", "sm_120") for d in (64, 80, 128, 256)),
    ("fp16", "sm_86", 128), ("fp16", "sm_89", 64), ("fp16", "sm_90", 112), ("fp16", "sm_90", 128),
    ("bf16", "sm_80", 128), ("bf16", "sm_90", 64),
}  # fmt: skip
ALWAYS_CAUSAL = {("fp16", "sm_75", 64), ("fp16", "sm_80", 128), ("fp16", "sm_120", 64)}


def cases(always: Set[Case]) -> list[Any]:
    """Every case; those that are not always run wait for -m all_archs."""
    return [
        pytest.param(*case, marks=() if case in always else pytest.mark.all_archs)
        for case in itertools.product(("fp16", "bf16"), TARGETS, HEAD_DIMS)
        if case[:2] != ("bf16", "sm_75")
    ]


every_case = pytest.mark.parametrize(("dtype", "target", "d"), cases(ALWAYS))

# Loads from and stores to local memory in the loop, at most. O and S alone are 176 or 192 of 255 registers where a
# warp has 32 rows of 112 or 128 dims, so ptxas moves a pointer or a maximum out of the way once for each block. On
# sm_75 the copies of the next block are in registers, too, which sm_80 has an instruction for.
LOCAL_ACCESSES = {
    ("sm_80", 112): 10, ("sm_80", 128): 10, ("sm_90", 112): 10, ("sm_90", 128): 10, ("sm_75", 64): 8,
    ("sm_75", 256): 17,
}  # fmt: skip
MOST_STACK = 64


@dataclass(frozen=True)
class Kernel:
    plan: TilePlan
    code: Code
    loop: TensorLoop
    ideal: dict[str, int]
    stack: int
    spilled: int

    @property
    def overhead(self) -> float:
        return self.loop.instructions / sum(self.ideal.values()) - 1


@cache
def kernel_of(
    dtype: str, target: str, d: int, d_v: int | None = None, causal: CausalArgument = False, br: int | None = None
) -> Kernel:
    family, spec, where = family_named("cuda_fa2_mma"), make_spec(d, dtype, causal, d_v), parse_target(target)
    try:
        toolchain = cuda_toolchain(where)
        toolchain.flags(where)
    except ToolchainError as error:
        pytest.skip(str(error))
    if find_nvdisasm() is None:
        pytest.skip("no nvdisasm: pip install 'flashgen[inspect]'")
    plan = plan_tiles(family, spec, where, PRESETS[where], br=br)
    built = build_kernel(spec, plan, where, toolchain=toolchain)
    (found,) = resources(built.source, built.artifact, with_sass=False)
    functions = disassemble(built.artifact.paths["cubin"])
    assert functions is not None
    code, ideal = functions[family.entry], ideal_mix(spec, plan, where)
    assert (found.registers, found.stack_bytes) == (code.registers, code.stack_bytes)
    spilled = (found.spill_store_bytes or 0) + (found.spill_load_bytes or 0)
    return Kernel(plan, code, tensor_loop(code, ideal), ideal, code.stack_bytes, spilled)


@every_case
def test_next_to_nothing_lives_in_local_memory(dtype: str, target: str, d: int) -> None:
    assert_little_is_local(kernel_of(dtype, target, d), target, d)


@pytest.mark.parametrize(("dtype", "target", "d"), cases(ALWAYS_CAUSAL))
def test_nor_does_it_where_a_mask_is(dtype: str, target: str, d: int) -> None:
    assert_little_is_local(kernel_of(dtype, target, d, causal=True), target, d)


def assert_little_is_local(kernel: Kernel, target: str, d: int) -> None:
    assert kernel.loop.local <= LOCAL_ACCESSES.get((target, d), 0)
    if kernel.stack:
        assert kernel.code.registers == 255
        assert kernel.stack <= MOST_STACK
    else:
        assert kernel.spilled == 0
        assert not [opcode for opcode in kernel.code.opcodes if opcode.startswith(LOCAL)]


@every_case
def test_products_and_exponentials_are_as_many_as_must_be(dtype: str, target: str, d: int) -> None:
    kernel = kernel_of(dtype, target, d)
    for kind in ("HMMA", "LDSM", "MUFU", "SHFL", "BAR"):
        assert kernel.loop.counts[kind] == kernel.ideal[kind], kind


@pytest.mark.parametrize(
    ("target", "d", "d_v"),
    [
        *(("sm_75", 8, 8), ("sm_75", 40, 24), ("sm_80", 72, 72), ("sm_80", 192, 128), ("sm_120", 64, 128)),
        pytest.param("sm_120", 80, 160, marks=pytest.mark.all_archs),
        pytest.param("sm_75", 96, 64, marks=pytest.mark.all_archs),
    ],
)
def test_so_they_are_for_any_head_dims_of_whole_chunks(target: str, d: int, d_v: int) -> None:
    kernel = kernel_of("fp16", target, d, d_v)
    for kind in ("HMMA", "LDSM", "MUFU", "SHFL", "BAR"):
        assert kernel.loop.counts[kind] == kernel.ideal[kind], kind
    packed = "F2F+PRMT" if target == "sm_75" else "F2FP"
    assert kernel.ideal[packed] <= kernel.loop.counts[packed] <= kernel.ideal[packed] + 3


@pytest.mark.parametrize("br", [16, 32, 64, 128])
def test_so_they_are_for_any_number_of_warps(br: int) -> None:
    kernel = kernel_of("fp16", "sm_80", 64, br=br)
    for kind in ("HMMA", "LDSM", "MUFU", "SHFL", "BAR", "LDGSTS"):
        assert kernel.loop.counts[kind] == kernel.ideal[kind], kind


@every_case
def test_fragments_come_four_matrices_at_a_time_and_copies_sixteen_bytes_wide(dtype: str, target: str, d: int) -> None:
    widths = kernel_of(dtype, target, d).loop.widths
    fragments = [opcode for opcode in widths if opcode.startswith("LDSM")]
    copies = [opcode for opcode in widths if opcode.startswith(("LDGSTS", "LDG", "STS"))]
    assert fragments and all(opcode.endswith(".4") for opcode in fragments)
    assert copies and all("128" in opcode.split(".") for opcode in copies)
    if target != "sm_75":
        assert all(opcode.startswith("LDGSTS") and ".BYPASS" in opcode for opcode in copies)


@every_case
def test_little_is_done_beside_the_ideal(dtype: str, target: str, d: int) -> None:
    """At most a fifth more where tensor cores are fast; smaller chips would hide twice that behind theirs."""
    assert kernel_of(dtype, target, d).overhead <= (0.2 if target in ("sm_80", "sm_90") else 0.4)


@every_case
def test_no_score_is_compared_or_selected_where_no_mask_is(dtype: str, target: str, d: int) -> None:
    kernel = kernel_of(dtype, target, d)
    scores = kernel.ideal["FFMA"]
    path = product_paths(kernel.code)[0]
    assert path.count("FSETP", "FSEL", "ISETP") <= 3 < scores // 4
    assert path.count("BAR") <= 2
    assert path.count("DEPBAR") <= 2
    masked = product_paths(kernel.code)[1]
    assert masked.count("FSETP", "FSEL", "ISETP") >= scores  # so the two loops were not mistaken for each other
