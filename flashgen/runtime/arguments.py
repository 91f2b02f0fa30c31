"""Checks of a call's tensors, and what follows from them: the Problem and the shapes of the results.

This is the slow path: it runs once for each new combination of shapes, strides and types.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from flashgen.errors import ArgumentError
from flashgen.runtime.kernel import Problem, Strides
from flashgen.runtime.tensors import Framework, TensorView
from flashgen.spec import AttentionSpec

LAYOUTS = ("bhsd", "bshd")
_AXES = {"bhsd": ("B, H, S, d", "H, S, d", "S, d"), "bshd": ("B, S, H, d", "S, H, d", "S, d")}


@dataclass(frozen=True, slots=True)
class Checked:
    """What the checks found.

    Attributes:
        problem: sizes and strides for the kernel.
        copies: which of q, k, v must be copied to be read.
        out_shape, lse_shape: shapes of the results, of the input's rank.
    """

    problem: Problem
    copies: tuple[bool, bool, bool]
    out_shape: tuple[int, ...]
    lse_shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Sizes:
    batch: int
    heads: int
    seqlen: int
    dim: int
    strides: Strides


def check_tensors(
    spec: AttentionSpec, device_kind: str, framework: Framework, tensors: Mapping[str, Any], layout: str
) -> Checked:
    """Checks q, k, v (and out, if it is among the tensors) against a spec and against each other.

    Raises:
        ArgumentError: names the tensor, what was expected and what came.
    """
    if layout not in LAYOUTS:
        raise ArgumentError(
            f"layout={layout!r} is not known. Use 'bhsd' or 'bshd'.",
            expected="bhsd or bshd",
            got=repr(layout),
        )
    views = {name: _view(framework, name, x) for name, x in tensors.items()}
    _check_types(spec, device_kind, views)
    sizes = {name: _canonical(name, view, layout, len(views["q"].shape)) for name, view in views.items()}
    q, k, v = sizes["q"], sizes["k"], sizes["v"]
    _check_sizes(spec, q, k, v)
    out_shape, lse_shape = _result_shapes(views["q"].shape, spec.head_dim_v, layout)
    out_strides = _canonical_strides(out_shape, _contiguous(out_shape), layout)
    if "out" in tensors:
        _check_out(views["out"], out_shape)
        out_strides = sizes["out"].strides
    sizes_and_strides = (
        q.batch, q.heads, k.heads, q.seqlen, k.seqlen, q.strides, k.strides, v.strides, out_strides
    )  # fmt: skip
    problem = Problem(*sizes_and_strides, device=views["q"].device, library=framework.name)
    copies = (not views["q"].direct, not views["k"].direct, not views["v"].direct)
    return Checked(problem, copies, out_shape, lse_shape)


def expected_error(name: str, expected: str, got: str, advice: str = "") -> ArgumentError:
    """The one form of argument errors: which tensor, what was expected, what came, what to do."""
    tail = f" {advice}" if advice else ""
    return ArgumentError(f"{name} must be {expected}, but is {got}.{tail}", tensor=name, expected=expected, got=got)


def _view(framework: Framework, name: str, x: Any) -> TensorView:
    from flashgen.runtime.tensors import framework_of

    if framework_of(x, name) is not framework:
        raise expected_error(name, f"a {framework.name} tensor like q", f"of type {type(x).__name__}")
    reason = framework.refusal(x)
    if reason:
        raise expected_error(name, "a plain dense tensor", reason)
    return framework.view(x)


def _check_types(spec: AttentionSpec, device_kind: str, views: Mapping[str, TensorView]) -> None:
    for name, view in views.items():
        if view.dtype != spec.dtype:
            if view.dtype and name == "q":
                advice = f"Convert it, or build with dtype='{view.dtype}'."
            else:
                advice = "Convert it: q, k, v and out have one dtype."
            raise expected_error(name, str(spec.dtype), view.dtype_name, advice)
        if view.device.partition(":")[0] != device_kind:
            advice = "Move the tensor, or build for another target."
            raise expected_error(
                name, f"on a {device_kind} device, where this kernel runs", f"on {view.device}", advice
            )
        if view.device != views["q"].device:
            raise expected_error(name, f"on {views['q'].device} like q", f"on {view.device}")


def _canonical(name: str, view: TensorView, layout: str, rank: int) -> _Sizes:
    """Sizes and strides by meaning, whatever the layout and rank."""
    shape = view.shape
    if len(shape) not in (2, 3, 4):
        axes = " or ".join(f"({axes})" for axes in _AXES[layout])
        raise expected_error(name, f"of shape {axes}", f"of shape {shape}")
    if len(shape) != rank:
        raise expected_error(name, f"{rank}-dimensional like q", f"of shape {shape}")
    missing = 4 - len(shape)
    full = _lift(shape, 1, layout, missing)
    batch_axis, head_axis, row_axis = (0, 1, 2) if layout == "bhsd" else (0, 2, 1)
    strides = view.strides if view.direct else _contiguous(shape)
    return _Sizes(
        full[batch_axis], full[head_axis], full[row_axis], full[3], _canonical_strides(shape, strides, layout)
    )


def _lift(values: tuple[int, ...], filler: int, layout: str, missing: int) -> tuple[int, ...]:
    """Adds the axes that a 3-D (no batch) or 2-D (no head either) tensor leaves out."""
    if missing == 0:
        return values
    if missing == 1:
        return (filler, *values)
    rows, dim = values
    return (filler, filler, rows, dim) if layout == "bhsd" else (filler, rows, filler, dim)


def _canonical_strides(shape: tuple[int, ...], strides: tuple[int, ...], layout: str) -> Strides:
    full = _lift(strides, 0, layout, 4 - len(shape))
    return (full[0], full[1], full[2]) if layout == "bhsd" else (full[0], full[2], full[1])


def _contiguous(shape: tuple[int, ...]) -> tuple[int, ...]:
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def _check_sizes(spec: AttentionSpec, q: _Sizes, k: _Sizes, v: _Sizes) -> None:
    for name, size, dim, label in (
        ("q", q, spec.head_dim, "d"),
        ("k", k, spec.head_dim, "d"),
        ("v", v, spec.head_dim_v, "dv"),
    ):
        if size.dim != dim:
            advice = f"The kernel was built for {spec.summary}."
            raise expected_error(name, f"of head dim {label}={dim}", f"of head dim {size.dim}", advice)
    for name, size in (("k", k), ("v", v)):
        if size.batch != q.batch:
            raise expected_error(name, f"of batch {q.batch} like q", f"of batch {size.batch}")
    if v.heads != k.heads:
        raise expected_error("v", f"of {k.heads} heads like k", f"of {v.heads} heads")
    if v.seqlen != k.seqlen:
        raise expected_error("v", f"of {k.seqlen} rows like k", f"of {v.seqlen} rows")
    if (k.heads == 0 and q.heads != 0) or (k.heads and q.heads % k.heads):
        raise expected_error("k", f"of a number of heads that divides q's {q.heads}", f"of {k.heads} heads")


def _result_shapes(q_shape: tuple[int, ...], dv: int, layout: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Shapes of out (q's layout and rank) and lse ((B, H, S) in either layout, without q's missing axes)."""
    lead = q_shape[:-1]
    if layout == "bshd" and len(lead) >= 2:
        *batch, rows, heads = lead
        return (*lead, dv), (*batch, heads, rows)
    return (*lead, dv), lead


def _check_out(view: TensorView, shape: tuple[int, ...]) -> None:
    if view.shape != shape:
        raise expected_error("out", f"of shape {shape}", f"of shape {view.shape}")
    if not view.direct:
        raise expected_error("out", "contiguous along its last axis and aligned", f"of strides {view.strides}")
    if _overlaps(view):
        raise expected_error("out", "free of overlapping elements", f"of strides {view.strides}")


def _overlaps(view: TensorView) -> bool:
    """Whether two elements may share an address: each axis must step over all that the smaller steps span."""
    axes = sorted((abs(stride), size) for size, stride in zip(view.shape, view.strides, strict=True) if size > 1)
    span = 1
    for stride, size in axes:
        if stride < span:
            return 0 not in view.shape
        span += stride * (size - 1)
    return False
