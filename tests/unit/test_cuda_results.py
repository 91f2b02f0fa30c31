"""The results of CUDA kernels: their PTX, run by the emulator, against the float64 oracle.

Inputs are views of NaN-filled buffers and outputs start as NaN, so a kernel that reads or writes beside its
tensors, or leaves any of an output unwritten, shows. The emulator itself finds races and stray accesses.
"""

import struct
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flashgen.compilation.toolchains.cuda import cuda_toolchain
from flashgen.compilation.toolchains.nvrtc_library import find_nvrtc
from flashgen.emulator import In, InOut, Module, Report, Schedule, Struct
from flashgen.families import FAMILIES, family_named
from flashgen.families.base import snap
from flashgen.launch_plan import resolve
from flashgen.reference import attention_reference
from flashgen.render.renderer import render
from flashgen.source import KernelSource
from flashgen.spec import CausalArgument, make_spec
from flashgen.target import PRESETS, parse_target
from flashgen.tiling import plan_tiles

pytestmark = pytest.mark.skipif(not find_nvrtc(), reason="no NVRTC: pip install 'flashgen[cuda]'")

CUDA_FAMILIES = [family.name for family in FAMILIES if family.kind == "cuda"]
ARGUMENTS = "=6Q5q12qdQq"
# Rounding of out (one ulp at its size of about 1), of P on tensor cores, and of fp32 sums.
TOLERANCE = {"fp16": 1e-3, "bf16": 8e-3, "fp32": 3e-6, "fp64": 4e-15}
Array = np.ndarray[Any, Any]


def taken(family: str, dtype: str = "fp32", target: str = "sm_80") -> str:
    """The dtype if the family takes it there, else one of those that it takes."""
    for name in (dtype, "bf16", "fp16"):
        if family_named(family).refusal(make_spec(16, name), parse_target(target)) is None:
            return name
    raise AssertionError(f"{family} takes nothing on {target}")


@dataclass(frozen=True)
class Kernel:
    source: KernelSource
    module: Module


@cache
def kernel_of(
    family: str,
    d: int,
    dtype: str,
    causal: CausalArgument = False,
    d_v: int | None = None,
    tile: tuple[int | None, int | None] = (16, 16),
    sram: int | None = None,
    target: str = "sm_80",
) -> Kernel:
    where, chosen, spec = parse_target(target), family_named(family), make_spec(d, dtype, causal, d_v)
    grid = chosen.grid(spec, where)
    br, bc = (size and snap(size, legal) for size, legal in zip(tile, (grid.br, grid.bc), strict=True))
    plan = plan_tiles(chosen, spec, where, PRESETS[where], sram_bytes=sram, br=br, bc=bc)
    source = render(chosen, spec, plan, where)
    compiled = cuda_toolchain(where).compile(source, Path())
    return Kernel(source, Module(compiled.files["ptx"], source=source.text))


@dataclass
class Call:
    q: Array
    k: Array
    v: Array
    scale: float | None = None
    seqlens_k: list[int] | None = None
    row_ranges: int | None = None
    schedule: Schedule | None = None
    want_lse: bool = True

    def run(self, kernel: Kernel) -> tuple[Array, Array, list[Report]]:
        spec, plan = kernel.source.spec, kernel.source.plan
        batch, heads, rows, d = self.q.shape
        compute = np.float64 if spec.dtype.name == "fp64" else np.float32
        out = np.full((batch, heads, rows, spec.head_dim_v), np.nan, spec.dtype.numpy())
        lse = np.full((batch, heads, rows), np.nan, compute)
        launch = family_named(plan.family).launch_plan(spec, plan)
        sizes = (batch, heads, self.k.shape[1], rows, self.k.shape[2])
        strides = tuple(tuple(s // x.itemsize for s in x.strides[:3]) for x in (self.q, self.k, self.v, out))
        geometry = resolve(launch, sizes, strides, sm_count=4, row_ranges=self.row_ranges)
        workspace = np.full(max(geometry.workspace_bytes // compute().itemsize, 1), np.nan, compute)
        lengths = None if self.seqlens_k is None else In(np.array(self.seqlens_k, np.int64), "seqlens_k")
        argument = Struct(
            ARGUMENTS,
            *(In(_whole(x), name) for x, name in ((self.q, "q"), (self.k, "k"), (self.v, "v"))),
            InOut(out, "out"),
            InOut(lse, "lse") if self.want_lse else 0,
            lengths or 0,
            *struct.unpack("=5q12q", geometry.sizes),
            d**-0.5 if self.scale is None else self.scale,
            InOut(workspace, "workspace"),
            geometry.row_ranges,
        )
        reports = []
        for step, grid in geometry.launches(launch):
            report = kernel.module.launch(
                step.entry, grid, step.block, [argument], shared=step.shared_bytes, schedule=self.schedule
            )
            report.raise_for_findings()
            reports.append(report)
        return out, lse, reports

    def check(self, kernel: Kernel) -> Array:
        out, lse, _ = self.run(kernel)
        spec = kernel.source.spec
        want, want_lse = attention_reference(
            self.q, self.k, self.v, causal=spec.causal, softmax_scale=self.scale, seqlens_k=self.seqlens_k
        )
        tolerance = TOLERANCE[spec.dtype.name]
        np.testing.assert_allclose(out.astype(np.float64), want, atol=tolerance, rtol=tolerance)
        np.testing.assert_allclose(lse, want_lse, atol=1e-5 if lse.itemsize == 4 else 1e-13, rtol=1e-6)
        return out


def _whole(view: Array) -> Array:
    """The buffer that a view of its first elements lies in."""
    return view if view.base is None else view.base


def tensors(
    dtype: str, batch: int, heads: int, heads_kv: int, rows: int, keys: int, d: int, d_v: int | None = None
) -> tuple[Array, Array, Array]:
    rng = np.random.default_rng([batch, heads, rows, keys, d])
    kind = make_spec(d, dtype).dtype.numpy()

    def embedded(shape: tuple[int, ...]) -> Array:
        buffer = np.full((*shape[:2], shape[2] + 1, shape[3] + 3), np.nan, kind)
        view = buffer[:, :, : shape[2], : shape[3]]
        view[...] = rng.standard_normal(shape)
        return view

    return (
        embedded((batch, heads, rows, d)),
        embedded((batch, heads_kv, keys, d)),
        embedded((batch, heads_kv, keys, d_v or d)),
    )


@pytest.mark.parametrize("family", CUDA_FAMILIES)
@pytest.mark.parametrize("dtype", ["fp16", "bf16", "fp32", "fp64"])
def test_the_owners_kernel(family: str, dtype: str) -> None:
    """d=64, 96 KB, tails in both directions, two query heads for each kv head."""
    dtype = taken(family, dtype)
    kernel = kernel_of(family, 64, dtype, tile=(None, None), sram=98304)
    Call(*tensors(dtype, 1, 4, 2, 70, 200, 64)).check(kernel)


@pytest.mark.parametrize("family", CUDA_FAMILIES)
@pytest.mark.parametrize("causal", ["bottom_right", "top_left"])
@pytest.mark.parametrize(("rows", "keys"), [(40, 77), (77, 40), (33, 33), (1, 50), (50, 1)])
def test_masks_and_tails(family: str, causal: CausalArgument, rows: int, keys: int) -> None:
    kernel = kernel_of(family, 20, taken(family), causal, 24)
    Call(*tensors(taken(family), 2, 2, 2, rows, keys, 20, 24)).check(kernel)


@pytest.mark.parametrize("family", CUDA_FAMILIES)
@pytest.mark.parametrize(
    ("d", "d_v", "dtype"),
    [
        (1, 1, "fp16"),
        (3, 5, "bf16"),
        (33, 31, "fp16"),
        (40, 64, "bf16"),
        (80, 80, "fp32"),
        (256, 256, "fp16"),
        (130, 7, "fp64"),
    ],
)
def test_head_dims(family: str, d: int, d_v: int, dtype: str) -> None:
    dtype = taken(family, dtype)
    kernel = kernel_of(family, d, dtype, False, d_v)
    Call(*tensors(dtype, 1, 2, 1, 30, 45, d, d_v)).check(kernel)


@pytest.mark.parametrize("family", CUDA_FAMILIES)
@pytest.mark.parametrize("tile", [(8, 8), (24, 48), (64, 16), (8, 160), (32, 144)])
def test_tiles(family: str, tile: tuple[int, int]) -> None:
    kernel = kernel_of(family, 16, taken(family), True, tile=tile)
    Call(*tensors(taken(family), 1, 1, 1, 70, 190, 16)).check(kernel)


@pytest.mark.parametrize("family", CUDA_FAMILIES)
@pytest.mark.parametrize("causal", [False, True])
def test_seqlens_hide_padding_of_nan(family: str, causal: bool) -> None:
    q, k, v = tensors(taken(family), 3, 2, 1, 40, 50, 16)
    lengths = [0, 17, 50]
    for b, length in enumerate(lengths):
        k[b, :, length:] = v[b, :, length:] = np.nan
    out = Call(q, k, v, seqlens_k=lengths).check(kernel_of(family, 16, taken(family), causal))
    assert not out[0].any()


@pytest.mark.parametrize("family", CUDA_FAMILIES)
def test_lengths_beyond_the_tensor_are_clamped(family: str) -> None:
    q, k, v = tensors(taken(family), 2, 1, 1, 20, 30, 16)
    kernel = kernel_of(family, 16, taken(family))
    wild, _, _ = Call(q, k, v, seqlens_k=[-5, 10**12]).run(kernel)
    tame, _, _ = Call(q, k, v, seqlens_k=[0, 30]).run(kernel)
    np.testing.assert_array_equal(wild, tame)


@pytest.mark.parametrize("family", CUDA_FAMILIES)
@pytest.mark.parametrize("scale", [0.0, -0.7, 1e-30, 3.0])
def test_scales(family: str, scale: float) -> None:
    Call(*tensors(taken(family), 1, 2, 1, 20, 30, 16), scale=scale).check(kernel_of(family, 16, taken(family)))


def _huge(q: Array, k: Array, v: Array) -> None:
    q *= 2.0**50
    k *= 2.0**45


def _all_far_below(q: Array, k: Array, v: Array) -> None:
    q[...] = 0
    k[...] = 0
    q[..., 0] = 2.0**50
    k[..., 0] = -(2.0**50)


def _nan_query(q: Array, k: Array, v: Array) -> None:
    q[0, 0, 7] = np.nan


def _nan_key(q: Array, k: Array, v: Array) -> None:
    k[0, 0, 20] = np.nan


def _nan_first_value(q: Array, k: Array, v: Array) -> None:
    v[0, 0, 0] = np.inf


@pytest.mark.parametrize("family", CUDA_FAMILIES)
@pytest.mark.parametrize("spoil", [_huge, _all_far_below, _nan_query, _nan_key, _nan_first_value])
def test_values_that_hurt(family: str, spoil: Callable[..., None]) -> None:
    q, k, v = tensors(taken(family), 1, 2, 2, 40, 40, 16)
    spoil(q, k, v)
    Call(q, k, v, scale=1.0).check(kernel_of(family, 16, taken(family), True))


def test_a_row_that_sees_none_of_a_blocks_keys_is_not_touched_by_them() -> None:
    """Rows 0 to 23 share a tile of queries with rows that see keys 24 to 31, whose V is NaN here."""
    q, k, v = tensors("fp32", 1, 1, 1, 32, 32, 16)
    v[0, 0, 30] = np.nan
    out, _, _ = Call(q, k, v).run(kernel_of("cuda_fa1", 16, "fp32", True, tile=(32, 8)))
    want, _ = attention_reference(q, k, v, causal=make_spec(16, "fp32", True).causal)
    np.testing.assert_allclose(out[:, :, :24], want[:, :, :24], atol=3e-6)
    assert np.isnan(out[:, :, 30:]).all()


def test_the_wider_form_of_fa1_has_the_same_bits() -> None:
    kernel = kernel_of("cuda_fa1", 16, "fp16", True)
    q, k, v = tensors("fp16", 2, 2, 1, 100, 90, 16)
    paper, paper_lse, _ = Call(q, k, v, row_ranges=1).run(kernel)
    for row_ranges in (2, 3, 7):
        out, lse, _ = Call(q, k, v, row_ranges=row_ranges).run(kernel)
        np.testing.assert_array_equal(out.view(np.uint16), paper.view(np.uint16))
        np.testing.assert_array_equal(lse, paper_lse)


@pytest.mark.parametrize("family", CUDA_FAMILIES)
def test_no_order_of_warps_changes_a_bit(family: str) -> None:
    kernel = kernel_of(family, 16, taken(family), True)
    q, k, v = tensors(taken(family), 1, 2, 1, 50, 60, 16)
    plain, _, _ = Call(q, k, v).run(kernel)
    for schedule in (Schedule("reverse"), Schedule("random", "random", 1), Schedule("random", "random", 2)):
        out, _, _ = Call(q, k, v, schedule=schedule).run(kernel)
        np.testing.assert_array_equal(out, plain)


@pytest.mark.parametrize("family", CUDA_FAMILIES)
def test_a_head_gives_the_same_bits_wherever_it_stands(family: str) -> None:
    kernel = kernel_of(family, 16, taken(family))
    q, k, v = tensors(taken(family), 3, 2, 2, 20, 40, 16)
    for x in (q, k, v):
        x[...] = x[:1, :1]
    out, _, _ = Call(q, k, v).run(kernel)
    np.testing.assert_array_equal(out, np.broadcast_to(out[:1, :1], out.shape))


@pytest.mark.parametrize("family", CUDA_FAMILIES)
def test_lse_is_left_alone_where_it_is_not_wanted(family: str) -> None:
    q, k, v = tensors(taken(family), 1, 1, 1, 20, 20, 16)
    kernel = kernel_of(family, 16, taken(family))
    with_lse, _, _ = Call(q, k, v).run(kernel)
    without, lse, _ = Call(q, k, v, want_lse=False).run(kernel)
    np.testing.assert_array_equal(with_lse, without)
    assert np.isnan(lse).all()


@pytest.mark.parametrize("family", CUDA_FAMILIES)
@pytest.mark.parametrize("dtype", ["fp16", "fp32"])
def test_shared_memory_has_no_bank_conflicts_and_hbm_no_wasted_sectors(family: str, dtype: str) -> None:
    dtype = taken(family, dtype)
    kernel = kernel_of(family, 64, dtype, tile=(64, 64))
    q, k, v = (np.ascontiguousarray(x) for x in tensors(dtype, 1, 1, 1, 128, 128, 64))
    _, _, reports = Call(q, k, v).run(kernel)
    whole = []
    for report in reports:
        assert report.shared.conflicts == 0
        for name in ("q", "k", "v"):
            moved = report.traffic.get(name)
            if moved is not None and moved.load_bytes:
                assert moved.load_sectors * 32 == moved.load_bytes
                whole.append(name)
    assert set(whole) == {"q", "k", "v"}


@pytest.mark.parametrize("target", ["sm_75", "sm_90a", "sm_120"])
def test_other_architectures(target: str) -> None:
    for family in CUDA_FAMILIES:
        dtype = taken(family, "bf16", target)
        Call(*tensors(dtype, 1, 2, 1, 20, 40, 32)).check(kernel_of(family, 32, dtype, True, target=target))
