"""The Python API: plain arguments in, a plan or a callable out."""

from __future__ import annotations

import os
import threading
from collections.abc import Hashable
from typing import Any

from flashgen.choice import choose
from flashgen.pipeline import build_and_load, loader_for
from flashgen.runtime.arguments import expected_error
from flashgen.runtime.device import resolve_target, target_of_device
from flashgen.runtime.dispatch import GENERAL, Attention
from flashgen.runtime.kernel import CompiledKernel
from flashgen.runtime.tensors import framework_of
from flashgen.settings import uses_tuned
from flashgen.spec import AttentionSpec, CausalArgument, make_spec
from flashgen.target import Target
from flashgen.tile_plan import TilePlan
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
    budget = None if sram is None else parse_bytes(sram)
    return choose(spec, resolve_target(target), algorithm, budget, br, bc).plans[GENERAL]


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
    budget = None if sram is None else parse_bytes(sram)
    choice = choose(spec, target, algorithm, budget, br, bc)
    if tuned and br is None and bc is None:
        choice.add_tuned(spec, target)
    chosen_loader = loader_for(target, loader)

    def kernel_of(shape_class: str) -> CompiledKernel:
        return build_and_load(spec, choice.plans[shape_class], target, chosen_loader)

    return Attention(spec, target, chosen_loader.device_kind, choice.classify, kernel_of)


def forget_built() -> None:
    """Makes later builds of this process plan anew; kernels that callers hold stay as they are."""
    _built.clear()
