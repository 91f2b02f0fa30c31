"""Attention: what build() returns. It picks the kernel for a call's shape and launches it."""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from flashgen.compilation.artifact import Artifact
from flashgen.dtypes import FP32, FP64, DType
from flashgen.errors import ArgumentError
from flashgen.runtime.arguments import Checked, check_tensors, expected_error
from flashgen.runtime.kernel import CompiledKernel, Launch, Problem
from flashgen.runtime.tensors import Framework, framework_of
from flashgen.source import KernelSource
from flashgen.spec import AttentionSpec
from flashgen.target import Target
from flashgen.tile_plan import TilePlan

GENERAL = "prefill"
SMALL = "small"
DECODE = "decode"
SMALL_ROWS = 64  # up to so many query rows a call is of the class SMALL
_MAX_REMEMBERED = 4096


@dataclass(frozen=True, slots=True)
class _Bound:
    """A call's signature, checked: everything that only depends on shapes, strides and types."""

    framework: Framework
    checked: Checked
    launch: Launch | None  # None: nothing to compute
    copies: bool


class Attention:
    """A callable that computes out = softmax(softmax_scale * q k^T + mask) v.

    Calls are thread-safe. Kernels for shape classes other than the general one are built on first use.
    """

    def __init__(
        self,
        spec: AttentionSpec,
        target: Target,
        device_kind: str,
        classify: Callable[[Problem], str],
        build_kernel: Callable[[str], CompiledKernel],
    ) -> None:
        """Makes the callable; the general kernel is built at once.

        Args:
            spec: what it computes.
            target: where.
            device_kind: of the tensors that it takes, ``cpu`` or ``cuda``.
            classify: the shape class of a problem, for instance ``prefill`` or ``small``.
            build_kernel: makes the kernel of a class.
        """
        self.spec = spec
        self.target = target
        self._classify = classify
        self._build_kernel = build_kernel
        self._locks: dict[int, threading.Lock] = {}  # by process: a forked child must not wait for its parent's
        self._kernels = {GENERAL: build_kernel(GENERAL)}
        self._bound: dict[Hashable, _Bound] = {}
        self._default_scale = 1.0 / math.sqrt(spec.head_dim)
        self._lse_dtype: DType = FP64 if spec.dtype is FP64 else FP32
        self._device_kind = device_kind

    def __call__(
        self,
        q: Any,
        k: Any,
        v: Any,
        *,
        return_lse: bool = False,
        softmax_scale: float | None = None,
        seqlens_k: Any = None,
        out: Any = None,
        layout: str = "bhsd",
    ) -> Any:
        """Computes attention.

        Args:
            q: (B, Hq, Sq, d) for layout ``bhsd``, (B, Sq, Hq, d) for ``bshd``; a 3-D tensor lacks the batch
                axis, a 2-D one is (S, d). Any strides; where the last axis is not contiguous it is copied.
            k: (B, Hkv, Sk, d); Hkv divides Hq, and query head h reads key head h // (Hq / Hkv).
            v: (B, Hkv, Sk, dv).
            return_lse: also return the natural log of the row sums of exp of the scaled logits.
            softmax_scale: any finite number; 1 / sqrt(d) if None.
            seqlens_k: (B,) whole numbers: how many keys of each batch entry are valid; all if None.
            out: where to write the result, of the shape that would be returned.
            layout: ``bhsd`` or ``bshd``.

        Returns:
            out, of q's rank and layout, with last axis dv; or (out, lse), where lse has shape (B, Hq, Sq) and
            is float32 (float64 for fp64). A row that sees no key has out 0 and lse -inf.

        Raises:
            ArgumentError: a tensor does not fit; the message names it.
            LaunchError: the kernel could not run.
        """
        framework = framework_of(q, "q")
        try:
            key: Hashable = (layout, framework.signature(q), framework.signature(k), framework.signature(v))
            if out is not None:
                key = (key, framework.signature(out))
            bound = self._bound.get(key)
        except (AttributeError, TypeError, RuntimeError):  # not of q's library, or of a kind without strides
            key, bound = (), None
        if bound is None:
            bound = self._bind(key, framework, q, k, v, out, layout)
        if out is not None:
            _refuse_out(framework, out, q, k, v)
        if framework.tracks_gradient(q, k, v):
            raise _needs_no_grad()
        scale = self._default_scale if softmax_scale is None else _finite(softmax_scale)
        checked = bound.checked
        if bound.copies:
            q, k, v = (framework.direct(x) if copy else x for x, copy in zip((q, k, v), checked.copies, strict=True))
        result = framework.empty(checked.out_shape, self.spec.dtype, q) if out is None else out
        lse = framework.empty(checked.lse_shape, self._lse_dtype, q) if return_lse else None
        lengths = None if seqlens_k is None else _lengths(framework, seqlens_k, q, checked.problem)
        pointer = framework.pointer
        if bound.launch is not None:
            bound.launch(
                pointer(q),
                pointer(k),
                pointer(v),
                pointer(result),
                0 if lse is None else pointer(lse),
                0 if lengths is None else pointer(lengths),
                scale,
            )
        else:
            framework.fill(result, 0.0)
            if lse is not None:
                framework.fill(lse, -math.inf)
        return (result, lse) if return_lse else result

    @property
    def kernel(self) -> CompiledKernel:
        """The general kernel."""
        return self._kernels[GENERAL]

    @property
    def plan(self) -> TilePlan:
        """The general kernel's plan."""
        return self.kernel.plan

    @property
    def source(self) -> KernelSource:
        """The general kernel's source."""
        return self.kernel.source

    @property
    def artifact(self) -> Artifact:
        """The general kernel's artifact."""
        return self.kernel.artifact

    @property
    def seconds(self) -> Mapping[str, float]:
        """Seconds that the general kernel's render, compile and load took."""
        return self.kernel.seconds

    def plan_for(self, q: Any, k: Any, *, layout: str = "bhsd") -> TilePlan:
        """The plan of the kernel that a call with these tensors would run (built if need be).

        Raises:
            ArgumentError: q or k does not fit.
        """
        framework = framework_of(q, "q")
        v = framework.empty((*k.shape[:-1], self.spec.head_dim_v), self.spec.dtype, q)
        checked = check_tensors(self.spec, self._device_kind, framework, {"q": q, "k": k, "v": v}, layout)
        return self._kernel(self._classify(checked.problem)).plan

    def warm(self, shapes: Iterable[tuple[int, ...]]) -> None:
        """Builds ahead what calls of these shapes would build.

        Args:
            shapes: (seqlen_q, seqlen_k); where plans were tuned (heads, seqlen_q, seqlen_k), with heads = batch *
                num_heads; where heads share a K and V (heads, heads_kv, seqlen_q, seqlen_k).
        """
        for *heads, seqlen_q, seqlen_k in shapes:
            num_heads, num_heads_kv = (heads[0], heads[-1]) if heads else (1, 1)
            self._kernel(self._classify(Problem.of_sizes(1, num_heads, num_heads_kv, seqlen_q, seqlen_k)))

    def __repr__(self) -> str:
        plan = self.plan
        return f"<flashgen.Attention {self.spec.summary} on {self.target}: {plan.family}, tile {plan.br} x {plan.bc}>"

    def _bind(self, key: Hashable, framework: Framework, q: Any, k: Any, v: Any, out: Any, layout: str) -> _Bound:
        tensors = {"q": q, "k": k, "v": v} | ({} if out is None else {"out": out})
        checked = check_tensors(self.spec, self._device_kind, framework, tensors, layout)
        problem = checked.problem
        empty = 0 in (problem.batch, problem.num_heads, problem.seqlen_q, problem.seqlen_k)
        launch = None if empty else self._kernel(self._classify(problem)).executable.prepare(problem)
        bound = _Bound(framework, checked, launch, any(checked.copies))
        if len(self._bound) >= _MAX_REMEMBERED:
            self._bound.clear()
        self._bound[key] = bound
        return bound

    def _kernel(self, shape_class: str) -> CompiledKernel:
        kernel = self._kernels.get(shape_class)
        if kernel is None:
            with self._locks.setdefault(os.getpid(), threading.Lock()):
                kernel = self._kernels.get(shape_class)
                if kernel is None:
                    kernel = self._kernels[shape_class] = self._build_kernel(shape_class)
        return kernel


def _refuse_out(framework: Framework, out: Any, *inputs: Any) -> None:
    """What no signature tells: whether ``out`` may be written, and whether it lies on an input."""
    if not framework.writable(out):
        raise expected_error("out", "writable", "read-only")
    begin, end = framework.extent(out)
    for name, x in zip(("q", "k", "v"), inputs, strict=True):
        first, last = framework.extent(x)
        if first < end and begin < last:
            raise expected_error("out", "apart from its inputs in memory", f"overlapping {name}")


def _finite(scale: Any) -> float:
    try:
        value = float(scale)
    except (TypeError, ValueError):
        value = math.nan
    if not math.isfinite(value):
        raise expected_error("softmax_scale", "a finite number", repr(scale))
    return value


def _lengths(framework: Framework, seqlens_k: Any, like: Any, problem: Problem) -> Any:
    try:
        lengths = framework.lengths(seqlens_k, like)
    except (TypeError, ValueError, RuntimeError) as error:
        raise expected_error("seqlens_k", "whole numbers", f"something else ({error})") from error
    if tuple(lengths.shape) != (problem.batch,):
        raise expected_error("seqlens_k", f"of shape ({problem.batch},)", f"of shape {tuple(lengths.shape)}")
    bounds = framework.bounds(lengths) if problem.batch else None
    if bounds is not None:
        low, high = bounds
        if low < 0 or high > problem.seqlen_k:
            raise expected_error("seqlens_k", f"between 0 and {problem.seqlen_k}", f"between {low} and {high}")
    return lengths


def _needs_no_grad() -> ArgumentError:
    return ArgumentError(
        "q, k or v requires a gradient, and flashgen has no backward pass yet. "
        "Call it under torch.no_grad(), or detach the tensors.",
        expected="no gradient",
        got="requires_grad in grad mode",
    )
