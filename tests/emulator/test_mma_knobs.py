"""The knobs of cuda_fa2_mma: where Q is and how K and V come changes no bit; each wait and barrier is needed."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from flashgen.compilation.builder import build
from flashgen.compilation.toolchains.cuda import cuda_toolchain
from flashgen.emulator import Module
from flashgen.errors import ToolchainError
from flashgen.families import family_named
from flashgen.families.cuda_mma_tiles import MmaKnobs
from flashgen.render.renderer import render
from flashgen.source import KernelSource
from flashgen.spec import make_spec
from flashgen.target import PRESETS, parse_target
from flashgen.tiling import plan_tiles

from .test_families import ORDERS, Kernel, Result, _compile_text, assert_right, attend, tensors
from .test_mma_family import assert_moves_its_closed_form

FAMILY, SM_80 = family_named("cuda_fa2_mma"), parse_target("sm_80")
HEAD_DIMS = ((40, 40), (64, 64), (72, 24), (128, 128), (192, 128))
# batch, heads, heads_kv, seqlen_q, seqlen_k: one block of keys, two, many; tails; no key for the first rows
SHAPES = [(1, 1, 1, 64, 32), (1, 1, 1, 70, 64), (2, 2, 1, 130, 333), (1, 1, 1, 90, 17)]


def rendered(d: int, dv: int, causal: bool | str, tile: tuple[int, int], knobs: MmaKnobs) -> KernelSource:
    spec, (br, bc) = make_spec(d, "fp16", causal, dv), tile  # type: ignore[arg-type]
    plan = plan_tiles(FAMILY, spec, SM_80, PRESETS[SM_80], br=br, bc=bc)
    plan = replace(plan, knobs=knobs, footprint=FAMILY.footprint(spec, br, bc, knobs))
    return render(FAMILY, spec, plan, SM_80)


@cache
def compiled(d: int, dv: int, causal: bool | str, tile: tuple[int, int], knobs: MmaKnobs) -> Kernel:
    source = rendered(d, dv, causal, tile, knobs)
    try:
        toolchain = cuda_toolchain(SM_80)
    except ToolchainError as error:
        pytest.skip(str(error))
    ptx = Path(build(source, toolchain).paths["ptx"]).read_text()
    return Module(ptx, source=source.text), source, FAMILY.launch_plan(source.spec, source.plan)


def settings(d: int, dv: int, tile: tuple[int, int]) -> tuple[MmaKnobs, ...]:
    return FAMILY.knob_choices(make_spec(d, "fp16", False, dv), SM_80, *tile)


@pytest.mark.parametrize("causal", [False, "bottom_right"])
@pytest.mark.parametrize("dims", HEAD_DIMS)
def test_any_setting_is_right_and_clean(dims: tuple[int, int], causal: bool | str) -> None:
    tile = (64, 32)
    choices = settings(*dims, tile)
    assert {(knobs.rows, knobs.q_in_registers, knobs.stages) for knobs in choices} >= set(
        itertools.product((16,), (False, True), (1, 2))
    )
    for shape in SHAPES:
        q, k, v = tensors("fp16", *shape, *dims, seed=sum(shape))
        first: dict[int, Result] = {}
        for knobs, order in zip(choices, itertools.cycle(ORDERS), strict=False):
            kernel = compiled(*dims, causal, tile, knobs)
            result = attend("cuda_fa2_mma", q, k, v, "fp16", causal, order=order, kernel=kernel)
            result.raise_for_findings()
            assert result.reports[0].shared.conflicts == 0
            assert_moves_its_closed_form(result, shape)
            assert_right(result, q, k, v, "fp16", causal)
            same = first.setdefault(
                knobs.rows, result
            )  # how rows with large logits are met, a warp decides for its rows
            np.testing.assert_array_equal(result.out.view(np.uint16), same.out.view(np.uint16))
            np.testing.assert_array_equal(result.lse, same.lse)


@pytest.mark.parametrize("q_in_registers", [False, True])
def test_two_stages_take_rows_that_no_vector_reaches(q_in_registers: bool) -> None:
    """Copies by element, a negative number of keys to start with, logits that ask for a second turn."""
    q, k, v = (x[..., 1:] for x in tensors("fp16", 1, 1, 1, 70, 150, 65, 65))
    kernel = compiled(64, 64, True, (64, 32), MmaKnobs(4, 16, q_in_registers, 2))
    for order in ORDERS:
        result = attend("cuda_fa2_mma", q, k, v, "fp16", True, order=order, kernel=kernel)
        result.raise_for_findings()
        assert_right(result, q, k, v, "fp16", True)


@pytest.mark.parametrize("q_in_registers", [False, True])
def test_large_logits_are_met_a_second_time(q_in_registers: bool) -> None:
    kernel = compiled(64, 64, False, (64, 32), MmaKnobs(4, 16, q_in_registers, 2))
    one = compiled(64, 64, False, (64, 32), MmaKnobs(4, 16, q_in_registers, 1))
    q, k, v = tensors("fp16", 1, 1, 1, 70, 150, 64, 64)
    q *= np.float16(2.0**10)
    k *= np.float16(2.0**10)
    results = [attend("cuda_fa2_mma", q, k, v, "fp16", kernel=each) for each in (kernel, one)]
    for result in results:
        result.raise_for_findings()
        assert result.reports[0].traffic["k"].load_bytes > k.nbytes * 2  # two tiles of queries
    np.testing.assert_array_equal(results[0].out.view(np.uint16), results[1].out.view(np.uint16))


_BARRIER = re.compile(r"__sync(?:threads|warp)\(\);")


@pytest.mark.parametrize("stages", [1, 2])
@pytest.mark.parametrize("q_in_registers", [False, True])
def test_every_barrier_is_needed(q_in_registers: bool, stages: int) -> None:
    source = rendered(40, 40, False, (32, 32), MmaKnobs(2, 16, q_in_registers, stages))
    barriers = list(_BARRIER.finditer(source.text))
    assert len(barriers) == 1 + 2 * q_in_registers + 2 * (3 - stages)  # O; Q; blocks, plain ones and others
    for barrier in barriers:
        text = source.text[: barrier.start()] + ";" + source.text[barrier.end() :]
        line = source.text[: barrier.start()].count("\n") + 1
        assert_found(text, source, {"race", "uninitialised-read"}, f"line {line}")


_BARRIER_OF_PLAIN = "__syncthreads();  // K_j and V_j are whole, and all warps are done with K_j+1 and V_j+1\n"
_NEXT = "  find_next_block(tile, stream, head, !last);\n"
_FINISH = (
    "  finish_copy(stream.incoming_v, tile.block[at_work(stream)].v);  // K_j and V_j: no copy is left under way\n"
)
_MUTANTS = {
    "V_j is not waited for": ("cp.async.wait_group 0;", "cp.async.wait_group 1;", {"in-flight"}),
    "nothing is waited for": ("cp.async.wait_group 0;", "", {"in-flight"}),
    "the wait comes after the barrier": (_FINISH + "  __syncthreads();", "  __syncthreads();\n" + _FINISH, {"race"}),
    "the next block is started before the barrier": (
        "  " + _BARRIER_OF_PLAIN + _NEXT, _NEXT + "  " + _BARRIER_OF_PLAIN, {"race"},
    ),
    "copies stay in their place": ("stream.step = -stream.step;", "", {"in-flight", "race", "out-of-bounds"}),
    "the next block comes over the one at work": ("at_work(stream) ^ 1", "at_work(stream)", {"in-flight", "race"}),
    "a warp stays with its block": ("lane.k += stream.step", "lane.k += 0", {"in-flight", "race"}),
    "a block is started that is not there": ("if (start) start_block", "start_block", {"out-of-bounds"}),
}  # fmt: skip


@pytest.mark.parametrize("name", _MUTANTS)
def test_each_mutant_of_two_stages_is_found(name: str) -> None:
    old, new, kinds = _MUTANTS[name]
    source = rendered(40, 40, False, (32, 32), MmaKnobs(2, 16, True, 2))
    assert source.text.count(old) == 1, name
    assert_found(source.text.replace(old, new), source, kinds, name)


def assert_found(text: str, source: KernelSource, expected: set[str], what: str) -> None:
    q, k, v = tensors("fp16", 1, 1, 1, 70, 200, 40, 40)
    kernel = _compile_text(text), source, FAMILY.launch_plan(source.spec, source.plan)
    for order in ORDERS:
        result = attend("cuda_fa2_mma", q, k, v, "fp16", order=order, kernel=kernel)
        kinds = {finding.kind for report in result.reports for finding in report.findings}
        assert kinds & expected, f"{what}, {order}: {kinds}"
