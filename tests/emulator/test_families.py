# ruff: noqa: E501 - a row of a table is a line
"""Every generated CUDA kernel, executed: right within the tolerance, without findings, in three warp orders.

The PTX is the very one that the CUDA toolchain made; without such a toolchain these tests are skipped.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flashgen.compilation.builder import build
from flashgen.compilation.toolchains.cuda import cuda_toolchain
from flashgen.compilation.toolchains.nvrtc_library import find_nvrtc
from flashgen.emulator import Finding, In, Module, Out, Report, Schedule, Scratch, Struct
from flashgen.errors import ToolchainError
from flashgen.families import FAMILIES, family_named
from flashgen.families.base import snap
from flashgen.launch_plan import LaunchPlan, resolve
from flashgen.reference import attention_reference
from flashgen.render.renderer import render
from flashgen.source import KernelSource
from flashgen.spec import Causal, make_spec
from flashgen.target import PRESETS, parse_target
from flashgen.tiling import plan_tiles

CUDA_FAMILIES = [family.name for family in FAMILIES if family.kind == "cuda"]
CAUSAL = [mode.as_json for mode in Causal]
ORDERS = ("round_robin", "reverse", "random")
# P may be rounded to the input's type before P V; out always is.
TOLERANCES = {"fp32": 2e-6, "fp16": 2e-3, "bf16": 1.6e-2, "fp64": 1e-14}
SM_COUNT = 8
SERVED = [
    (family, dtype)
    for family, dtype in itertools.product(CUDA_FAMILIES, TOLERANCES)
    if family_named(family).refusal(make_spec(64, dtype), parse_target("sm_80")) is None
]
USUAL = dict(reversed(SERVED))  # the first that each takes
Kernel = tuple[Module, KernelSource, LaunchPlan]


@dataclass(frozen=True)
class Result:
    out: np.ndarray
    lse: np.ndarray
    reports: tuple[Report, ...]
    unwritten: tuple[Finding, ...]
    source: KernelSource

    def raise_for_findings(self) -> None:
        for report in self.reports:
            report.raise_for_findings()
        assert not self.unwritten, self.unwritten


@cache
def compiled(
    family: str, d: int, dv: int, dtype: str, causal: bool | str, target: str, tile: tuple[int, int] | None,
    executor: str = "machine",
) -> Kernel:  # fmt: skip
    machine, chosen, spec = parse_target(target), family_named(family), make_spec(d, dtype, causal, dv)  # type: ignore[arg-type]
    try:
        toolchain = cuda_toolchain(machine)
        toolchain.flags(machine)
    except ToolchainError as error:
        pytest.skip(str(error))
    grid = chosen.grid(spec, machine)
    br, bc = (snap(size, legal) for size, legal in zip(tile, (grid.br, grid.bc), strict=True)) if tile else (None, None)
    source = render(chosen, spec, plan_tiles(chosen, spec, machine, PRESETS[machine], br=br, bc=bc), machine)
    ptx = Path(build(source, toolchain).paths["ptx"]).read_text()
    return Module(ptx, source=source.text, executor=executor), source, chosen.launch_plan(spec, source.plan)


def attend(
    family: str, q: np.ndarray, k: np.ndarray, v: np.ndarray, dtype: str, causal: bool | str = False, *, target: str = "sm_80",
    tile: tuple[int, int] | None = None, seqlens_k: np.ndarray | None = None, row_ranges: int | None = None, order: str = "round_robin",
    kernel: Kernel | None = None,
) -> Result:  # fmt: skip
    """Runs a family's launch plan on the emulator."""
    (b, h, sq, d), (_, hkv, sk, dv) = q.shape, v.shape
    module, source, plan = kernel or compiled(family, d, dv, dtype, causal, target, tile)
    out = np.empty((b, h, sq, dv), q.dtype)
    lse = np.empty((b, h, sq), np.float64 if dtype == "fp64" else np.float32)
    out.view(np.uint8)[...] = lse.view(np.uint8)[...] = 0xFF  # NaN
    strides = tuple(tuple(stride // a.itemsize for stride in a.strides[:3]) for a in (q, k, v, out))
    geometry = resolve(plan, (b, h, hkv, sq, sk), strides, SM_COUNT, row_ranges)
    workspace = np.empty(max(geometry.workspace_bytes, 1), np.uint8)
    arrays: list[Any] = [
        In(q, "q"),
        In(k, "k"),
        In(v, "v"),
        Out(out, "out"),
        Out(lse, "lse"),
        Scratch(workspace, "workspace"),
    ]
    if seqlens_k is not None:
        arrays.append(In(seqlens_k, "seqlens_k"))
    memory = module.memory(*arrays)
    args = Struct(
        f"=6Q{len(geometry.sizes)}sdQq", q, k, v, out, lse, 0 if seqlens_k is None else seqlens_k,
        geometry.sizes, d**-0.5, workspace, geometry.row_ranges,
    )  # fmt: skip
    schedule = Schedule(warps=order, blocks=order, seed=11)
    reports = [
        module.launch(step.entry, grid, step.block, [args], shared=step.shared_bytes, schedule=schedule, memory=memory)
        for step, grid in geometry.launches(plan)
    ]
    return Result(out, lse, tuple(reports), tuple(memory.finish()), source)


def tensors(
    dtype: str, b: int, h: int, hkv: int, sq: int, sk: int, d: int, dv: int, seed: int = 0
) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(seed)
    kind = make_spec(d, dtype).dtype.numpy()
    return tuple(
        rng.standard_normal(shape).astype(kind) for shape in ((b, h, sq, d), (b, hkv, sk, d), (b, hkv, sk, dv))
    )


def assert_right(result: Result, q, k, v, dtype: str, causal: bool | str, seqlens_k=None) -> None:
    out, lse = attention_reference(q, k, v, causal=result.source.spec.causal, seqlens_k=seqlens_k)
    np.testing.assert_allclose(result.out.astype(np.float64), out, rtol=0, atol=TOLERANCES[dtype])
    np.testing.assert_allclose(result.lse, lse, rtol=0, atol=2e-6 if dtype != "fp64" else 1e-13)


@pytest.mark.parametrize("causal", CAUSAL)
@pytest.mark.parametrize("family,dtype", SERVED)
def test_right_and_clean_in_every_order(family: str, dtype: str, causal: bool | str) -> None:
    """Tails everywhere: rows, keys and head dims that fill no tile; grouped heads; several K/V blocks."""
    q, k, v = tensors(dtype, 1, 2, 1, 37, 75, 40, 24)
    results = [attend(family, q, k, v, dtype, causal, tile=(32, 32), order=order) for order in ORDERS]
    for result in results:
        result.raise_for_findings()
        np.testing.assert_array_equal(result.out.view(np.uint8), results[0].out.view(np.uint8))
        np.testing.assert_array_equal(result.lse, results[0].lse)
    assert_right(results[0], q, k, v, dtype, causal)


@pytest.mark.parametrize(
    "family,shape", [*itertools.product(CUDA_FAMILIES, [(1, 1, 1, 1), (5, 3, 2, 1), (70, 1, 1, 3), (1, 130, 2, 2)])]
)
def test_small_and_lopsided_shapes(family: str, shape: tuple[int, int, int, int]) -> None:
    sq, sk, h, b = shape
    q, k, v = tensors(USUAL[family], b, h, 1, sq, sk, 64, 64, seed=sq)
    result = attend(family, q, k, v, USUAL[family], "bottom_right")
    result.raise_for_findings()
    assert_right(result, q, k, v, USUAL[family], "bottom_right")


@pytest.mark.parametrize("family", CUDA_FAMILIES)
def test_any_strides_and_padded_keys(family: str) -> None:
    """Views into NaN-filled storage at odd offsets, and keys beyond seqlens_k that must not be looked at."""
    sq, sk, d = 20, 50, 64
    kind = make_spec(d, USUAL[family]).dtype.numpy()
    packed = np.full((2, 60, 3, 3 * d + 5), np.nan, kind)  # (batch, row, head, q|k|v and padding)
    rng = np.random.default_rng(2)
    q, k, v = (
        np.moveaxis(packed[:, 1 : 1 + rows, :heads, 1 + n * d : 1 + (n + 1) * d], 1, 2)
        for n, (rows, heads) in enumerate([(sq, 3), (sk, 1), (sk, 1)])
    )
    for a in (q, k, v):
        a[...] = rng.standard_normal(a.shape)
    seqlens = np.array([50, 17], np.int64)
    k[1, :, 17:] = v[1, :, 17:] = np.nan
    result = attend(family, q, k, v, USUAL[family], seqlens_k=seqlens)
    result.raise_for_findings()
    assert_right(result, q, k, v, USUAL[family], False, seqlens)


@pytest.mark.parametrize("target", ["sm_75", "sm_90", "sm_120"])
@pytest.mark.parametrize("family", CUDA_FAMILIES)
def test_other_architectures(family: str, target: str) -> None:
    q, k, v = tensors("fp16", 1, 1, 1, 33, 70, 64, 64)
    result = attend(family, q, k, v, "fp16", "bottom_right", target=target)
    result.raise_for_findings()
    assert_right(result, q, k, v, "fp16", "bottom_right")


def test_row_ranges_of_fa1_give_equal_bits() -> None:
    q, k, v = tensors("fp16", 1, 1, 1, 100, 75, 40, 40)
    one, three = (attend("cuda_fa1", q, k, v, "fp16", "bottom_right", tile=(32, 32), row_ranges=g) for g in (1, 3))
    one.raise_for_findings()
    three.raise_for_findings()
    np.testing.assert_array_equal(one.out.view(np.uint16), three.out.view(np.uint16))
    np.testing.assert_array_equal(one.lse.view(np.uint32), three.lse.view(np.uint32))


@pytest.mark.parametrize("row_ranges", [1, 2])
def test_bytes_of_fa1_are_its_closed_form(row_ranges: int) -> None:
    """K and V once for each CTA; Q once for each K/V block; O, l and m in HBM between the blocks."""
    b, h, sq, sk, d, dv = 2, 2, 70, 75, 40, 24
    q, k, v = tensors("fp16", b, h, h, sq, sk, d, dv)
    result = attend("cuda_fa1", q, k, v, "fp16", tile=(32, 32), row_ranges=row_ranges)
    result.raise_for_findings()
    traffic, blocks = result.reports[0].traffic, -(-sk // 32)
    assert traffic["k"].load_bytes == row_ranges * k.nbytes and traffic["v"].load_bytes == row_ranges * v.nbytes
    assert traffic["q"].load_bytes == blocks * q.nbytes
    state = (blocks - 1) * b * h * sq * (dv + 2) * 4
    assert (traffic["workspace"].load_bytes, traffic["workspace"].store_bytes) == (state, state)
    assert (traffic["out"].load_bytes, traffic["out"].store_bytes) == (0, result.out.nbytes)
    assert (traffic["lse"].load_bytes, traffic["lse"].store_bytes) == (0, result.lse.nbytes)


@pytest.mark.parametrize("dtype,d,dv", [("fp32", 64, 64), ("fp64", 80, 40), ("bf16", 40, 72), ("fp16", 256, 192)])
def test_fa1_and_fa2_agree_to_rounding(dtype: str, d: int, dv: int) -> None:
    q, k, v = tensors(dtype, 1, 2, 1, 70, 130, d, dv)
    one, two = (attend(family, q, k, v, dtype, True, tile=(16, 32)) for family in ("cuda_fa1", "cuda_fa2_simt"))
    one.raise_for_findings()
    two.raise_for_findings()
    np.testing.assert_allclose(two.out.astype(float), one.out.astype(float), rtol=0, atol=TOLERANCES[dtype])
    np.testing.assert_allclose(two.lse, one.lse, rtol=1e-6, atol=0)


@pytest.mark.parametrize("dtype,d,dv,tile", [
    ("fp32", 40, 40, (128, 64)), ("fp32", 80, 112, (64, 64)), ("fp32", 128, 96, (32, 32)), ("fp32", 33, 7, (16, 32)),
    ("fp32", 256, 256, (64, 64)), ("fp64", 64, 64, (64, 64)), ("fp64", 72, 200, (32, 32)), ("bf16", 64, 80, (128, 64)),
])  # fmt: skip
def test_no_bank_conflicts_of_fa2_at_any_head_dim(dtype: str, d: int, dv: int, tile: tuple[int, int]) -> None:
    q, k, v = tensors(dtype, 1, 1, 1, 33, 70, d, dv)
    (report,) = attend("cuda_fa2_simt", q, k, v, dtype, tile=tile).reports
    assert report.shared.accesses > 0
    assert report.shared.conflicts == 0


@pytest.mark.parametrize("family", CUDA_FAMILIES)
def test_no_bank_conflicts(family: str) -> None:
    q, k, v = tensors(USUAL[family], 1, 1, 1, 64, 64, 64, 64)
    result = attend(family, q, k, v, USUAL[family])
    assert sum(report.shared.accesses for report in result.reports) > 0 or family == "cuda_standard"
    assert sum(report.shared.conflicts for report in result.reports) == 0


_BARRIER = re.compile(r"__sync(?:threads|warp)\(\);")


@pytest.mark.parametrize("family", CUDA_FAMILIES)
def test_every_barrier_is_needed(family: str) -> None:
    """Each barrier of each kernel, taken away, is missed, in every order."""
    q, k, v = tensors(USUAL[family], 1, 1, 1, 70, 100, 40, 40)
    _, source, plan = compiled(family, 40, 40, USUAL[family], False, "sm_80", (32, 32))
    barriers = list(_BARRIER.finditer(source.text))
    assert barriers
    for barrier in barriers:
        mutant = _compile_text(source.text[: barrier.start()] + ";" + source.text[barrier.end() :])
        for order in ORDERS:
            result = attend(family, q, k, v, USUAL[family], order=order, kernel=(mutant, source, plan))
            kinds = {finding.kind for report in result.reports for finding in report.findings}
            line = source.text[: barrier.start()].count("\n") + 1
            assert kinds & {"race", "uninitialised-read"}, f"{family}, line {line}, {order}: {kinds}"


def _compile_text(text: str) -> Module:
    libraries = find_nvrtc()
    if not libraries:
        pytest.skip("NVRTC is not installed")
    program = libraries[0].compile(text, "mutant.cu", ("-arch=compute_80", "--std=c++17", "-lineinfo"))
    assert program.succeeded, program.log
    return Module(program.ptx, source=text)
