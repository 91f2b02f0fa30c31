"""The Python API: plain arguments in, a plan or a callable out."""

from __future__ import annotations

import os
import threading
from collections.abc import Hashable, Mapping
from typing import Any

from flashgen.errors import BudgetError
from flashgen.families import decoding, family_named, serving
from flashgen.families.base import Family
from flashgen.pipeline import build_and_load, loader_for
from flashgen.runtime.arguments import expected_error
from flashgen.runtime.device import limits_of, resolve_target, target_of_device
from flashgen.runtime.dispatch import DECODE, GENERAL, SMALL, SMALL_ROWS, Attention
from flashgen.runtime.kernel import CompiledKernel, Problem
from flashgen.runtime.tensors import framework_of
from flashgen.settings import uses_tuned
from flashgen.spec import AttentionSpec, CausalArgument, make_spec
from flashgen.target import Target
from flashgen.tile_plan import TilePlan
from flashgen.tiling import plan_tiles
from flashgen.tuning.records.bucket import Bucket, bucket_of
from flashgen.tuning.records.lookup import tuned_plans
from flashgen.units import parse_bytes

_built: dict[Hashable, Attention] = {}
# By process too: a forked child must not wait for a build that a thread of its parent was busy with.
_building: dict[Hashable, threading.Lock] = {}


def plan(
    d: int,
    dtype: str = "fp16",
    sram: str | int | None = None,
    causal: CausalArgument = False,
    target: str = "auto",
    algorithm: str = "auto",
    d_v: int | None = None,
    br: int | None = None,
    bc: int | None = None,
) -> TilePlan:
    """Chooses the tile of a kernel, and says how. Needs no compiler and no GPU.

    Args:
        d: head dim of q and k, 1 to 512.
        dtype: ``fp16``, ``bf16``, ``fp32`` or ``fp64``.
        sram: on-chip memory that the kernel may use, ``"96KB"`` (= 98,304 bytes) or a number of bytes; on a
            CPU, one thread's working set. None: the family's default tile.
        causal: False, True (= ``"bottom_right"``), ``"bottom_right"`` or ``"top_left"``.
        target: ``auto``, ``cpu``, ``cpu:x86-64-v3``, ``sm_80``, ...
        algorithm: ``auto``, ``standard``, ``fa1``, ``fa2`` or ``decode``; ``auto`` takes the best that serves, and a
            decode kernel for calls with few query rows.
        d_v: head dim of v; d if None.
        br: query rows of a tile; chosen if None.
        bc: keys of a tile; chosen if None.

    Raises:
        SpecError: the request makes no sense, or nothing serves it.
        BudgetError: no tile fits.
    """
    spec = make_spec(d, dtype, causal, d_v)
    return _plan(spec, resolve_target(target), algorithm, sram, br, bc)


def build(
    d: int,
    dtype: str = "fp16",
    sram: str | int | None = None,
    causal: CausalArgument = False,
    target: str = "auto",
    algorithm: str = "auto",
    d_v: int | None = None,
    br: int | None = None,
    bc: int | None = None,
    loader: str = "auto",
    tuned: bool | None = None,
) -> Attention:
    """Builds a kernel and returns the callable. The same request again returns the same object.

    Where `autotune` has found a plan that beats the default at a call's shapes, the call runs that one; it is built
    on first use.

    Arguments are those of `plan`, and:
        loader: how the artifact is brought into the process.
        tuned: whether to use what `autotune` has found; None: unless FLASHGEN_TUNED says ``0``. A tile of your own
            (``br``, ``bc``) is always honoured.

    Raises:
        SpecError, BudgetError: see `plan`.
        ToolchainError: a compiler is missing; the message says how to get it.
        CompileError: the compiler refused the source.
        LaunchError: this machine cannot run the target.
    """
    tuned = uses_tuned() if tuned is None else tuned
    key = repr((d, str(dtype), sram, causal, target, algorithm, d_v, br, bc, loader, tuned))
    found = _built.get(key)
    if found is not None:
        return found
    with _building.setdefault((os.getpid(), key), threading.Lock()):
        if key not in _built:
            spec = make_spec(d, dtype, causal, d_v)
            _built[key] = _build(spec, resolve_target(target), algorithm, sram, br, bc, loader, tuned)
        return _built[key]


def attention(
    q: Any,
    k: Any,
    v: Any,
    *,
    causal: CausalArgument = False,
    sram: str | int | None = None,
    target: str = "auto",
    algorithm: str = "auto",
    tuned: bool | None = None,
    **call: Any,
) -> Any:
    """Computes attention, building the kernel that q and v ask for on first use.

    Args:
        q: see `Attention.__call__`; dtype and head dims follow the tensors.
        k: see there.
        v: see there.
        causal: see `plan`.
        sram: see `plan`.
        target: see `plan`.
        algorithm: see `plan`.
        tuned: see `build`.
        **call: passed on: ``return_lse``, ``softmax_scale``, ``seqlens_k``, ``out``, ``layout``.

    Raises:
        ArgumentError: a tensor does not fit.
        FlashgenError: as `build`.
    """
    view = framework_of(q, "q").view(q)
    if view.dtype is None:
        raise expected_error("q", "fp16, bf16, fp32 or fp64", view.dtype_name, "Convert it.")
    d, d_v = (_last_axis(name, x) for name, x in (("q", q), ("v", v)))
    if target == "auto" and view.device.startswith("cuda"):
        target = str(target_of_device(view.device))
    kernel = build(d, view.dtype.name, sram, causal, target, algorithm, d_v, tuned=tuned)
    return kernel(q, k, v, **call)


def _last_axis(name: str, x: Any) -> int:
    framework_of(x, name)
    if len(x.shape) not in (2, 3, 4):
        raise expected_error(name, "of 2, 3 or 4 dimensions", f"of shape {tuple(x.shape)}")
    return int(x.shape[-1])


def _plan(
    spec: AttentionSpec,
    target: Target,
    algorithm: str,
    sram: str | int | None,
    br: int | None,
    bc: int | None,
) -> TilePlan:
    family = serving(spec, target, algorithm)[0]
    budget = None if sram is None else parse_bytes(sram)
    return plan_tiles(family, spec, target, limits_of(target), sram_bytes=budget, br=br, bc=bc)


def _build(
    spec: AttentionSpec,
    target: Target,
    algorithm: str,
    sram: str | int | None,
    br: int | None,
    bc: int | None,
    loader: str,
    tuned: bool,
) -> Attention:
    plans = {GENERAL: _plan(spec, target, algorithm, sram, br, bc)}
    buckets: Mapping[Bucket, str] = {}
    if br is None and bc is None:
        plans |= _small_plan(plans[GENERAL], spec, target)
        if tuned:
            buckets = _add_tuned(plans, spec, target)
        if algorithm == "auto":
            plans |= _decode_plan(plans[GENERAL], spec, target)
    most_packed_rows = family_named(plans[DECODE].family).most_packed_rows(spec, target) if DECODE in plans else 0
    chosen_loader = loader_for(target, loader)

    def kernel_of(shape_class: str) -> CompiledKernel:
        return build_and_load(spec, plans[shape_class], target, chosen_loader)

    def classify(p: Problem) -> str:
        if p.seqlen_q * (p.num_heads // p.num_heads_kv) <= most_packed_rows:
            return DECODE
        untuned = _untuned_class(plans, p.seqlen_q)
        return buckets.get(bucket_of(p.batch * p.num_heads, p.seqlen_q, p.seqlen_k), untuned) if buckets else untuned

    return Attention(spec, target, chosen_loader.device_kind, classify, kernel_of)


def _add_tuned(plans: dict[str, TilePlan], spec: AttentionSpec, target: Target) -> dict[Bucket, str]:
    """Adds the plans that autotune has found, one class for each; returns which class serves a bucket."""
    general = plans[GENERAL]
    found = tuned_plans(spec, target, family_named(general.family), general.sram_bytes)
    classes: dict[tuple[int, int, object], str] = {}
    buckets = {}
    for bucket, plan in found.items():
        name = classes.setdefault((plan.br, plan.bc, plan.knobs), f"tuned for {bucket.name}")
        plans.setdefault(name, plan)
        buckets[bucket] = name
    return buckets


def default_plan(
    spec: AttentionSpec, target: Target, family: Family, sram_bytes: int | None, seqlen_q: int
) -> TilePlan:
    """The plan that `build` uses for calls with so many query rows if nothing was tuned."""
    plans = {GENERAL: plan_tiles(family, spec, target, limits_of(target), sram_bytes=sram_bytes)}
    plans |= _small_plan(plans[GENERAL], spec, target)
    return plans[_untuned_class(plans, seqlen_q)]


def _decode_plan(general: TilePlan, spec: AttentionSpec, target: Target) -> dict[str, TilePlan]:
    """The plan for few query rows against many keys, where a family for that fits the budget."""
    family = decoding(spec, target)
    if family is None:
        return {}
    try:
        plan = plan_tiles(family, spec, target, limits_of(target), sram_bytes=general.sram_bytes)
    except BudgetError:  # then the general kernel serves these calls too
        return {}
    return {DECODE: plan}


def forget_built() -> None:
    """Makes later builds of this process plan anew; kernels that callers hold stay as they are."""
    _built.clear()


def _untuned_class(plans: Mapping[str, TilePlan], seqlen_q: int) -> str:
    return SMALL if SMALL in plans and seqlen_q <= SMALL_ROWS else GENERAL


def _small_plan(general: TilePlan, spec: AttentionSpec, target: Target) -> dict[str, TilePlan]:
    """The plan for short sequences, where the family has a tile for them that the budget allows."""
    family = family_named(general.family)
    tile = family.small_tile(spec, target)
    if tile is None:
        return {}
    br, bc = tile
    knobs = family.knobs(spec, target, br, bc)
    footprint = family.footprint(spec, br, bc, knobs)
    if footprint.total >= general.footprint.total:
        return {}
    trail = (f"small: {family.name} uses a {br} x {bc} tile for up to {SMALL_ROWS} query rows",)
    return {SMALL: TilePlan(family.name, br, bc, knobs, footprint, "default", trail, general.sram_bytes, general.rule)}
