"""setp, selp, slct."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from flashgen.emulator.lockstep.ops.bits import combined
from flashgen.emulator.lockstep.ops.floating import flush
from flashgen.emulator.lockstep.ops.half import flush_half
from flashgen.emulator.lockstep.ops.rounding import decode
from flashgen.emulator.lockstep.ops.table import Array, Function, Lanewise, aux, define, define_by
from flashgen.emulator.program.ops import Op


def _ordered(function: Function) -> Function:
    return lambda a, b: function(a, b) & ~np.isnan(a) & ~np.isnan(b)


def _unordered(function: Function) -> Function:
    return lambda a, b: function(a, b) | np.isnan(a) | np.isnan(b)


_INTEGER: dict[str, Function] = {"eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal}
# In the order in which the comparison of halves numbers them.
_FLOATING: dict[str, Function] = {
    **{name: _ordered(function) for name, function in _INTEGER.items()},
    "equ": _unordered(np.equal),
    "neu": _unordered(np.not_equal),
    "ltu": _unordered(np.less),
    "leu": _unordered(np.less_equal),
    "num": lambda a, b: ~np.isnan(a) & ~np.isnan(b),
    "nan": lambda a, b: np.isnan(a) | np.isnan(b),
}


def _compared(function: Function, t: str) -> Callable[[Op], Lanewise]:
    """Sets p = (a ? b) BoolOp {!}c, and if there is one q = !(a ? b) BoolOp {!}c."""

    def entry(op: Op) -> Lanewise:
        how, negated, has_q = (aux(op, k) for k in range(3))

        def of(a: Array, b: Array, *c: Array) -> Array | tuple[Array, Array]:
            holds = function(a, b)
            other = c[0] if c else holds
            p = combined(how, holds, other, negated)
            return (p, combined(how, ~holds, other, negated)) if has_q else p

        return Lanewise(("pred", "pred")[: 1 + has_q], (t, t, "pred")[: 3 if how else 2], of)

    return entry


def _compared_halves(kind: str) -> Callable[[Op], Lanewise]:
    """Of a pair, p is about the low half and q about the high one."""
    form = kind.removesuffix("x2")

    def entry(op: Op) -> Lanewise:
        how, negated, has_q = (aux(op, k) for k in range(3))
        function = list(_FLOATING.values())[aux(op, 3)]

        def of(a: Array, b: Array, *c: Array) -> Array | tuple[Array, Array]:
            x, y = decode(a, form), decode(b, form)
            if aux(op, 4):
                x, y = flush_half(x, form), flush_half(y, form)
            holds = function(x, y)
            first, second = (holds[::2], holds[1::2]) if kind != form else (holds, ~holds)
            other = c[0] if c else first
            p = combined(how, first, other, negated)
            return (p, combined(how, second, other, negated)) if has_q else p

        return Lanewise(("pred", "pred")[: 1 + has_q], (kind, kind, "pred")[: 3 if how else 2], of)

    return entry


def _define_comparisons() -> None:
    for name, function in _INTEGER.items():
        kinds = "b" if name in ("eq", "ne") else "us"
        for t in (f"{kind}{w}" for kind in kinds for w in (16, 32, 64)):
            define_by(f"setp.{name}.{t}", _compared(function, t))
    for name, function in _FLOATING.items():
        for t in ("f32", "f64"):
            define_by(f"setp.{name}.{t}", _compared(function, t))
        define_by(f"setp.{name}.ftz.f32", _compared(lambda a, b, f=function: f(flush(a), flush(b)), "f32"))
    for kind in ("f16", "f16x2", "bf16", "bf16x2"):
        define_by(f"setp.{kind}", _compared_halves(kind))


def _select(t: str) -> Callable[[Op], Lanewise]:
    def entry(op: Op) -> Lanewise:
        negated = aux(op, 0)
        return Lanewise((t,), (t, t, "pred"), lambda a, b, p: np.where(~p if negated else p, a, b))

    return entry


_define_comparisons()
for _w in (16, 32, 64):
    define_by(f"selp.b{_w}", _select(f"b{_w}"))
    define(f"slct.b{_w}.s32", f"b{_w}", f"b{_w} b{_w} s32", lambda a, b, c: np.where(c >= 0, a, b))
    define(f"slct.b{_w}.f32", f"b{_w}", f"b{_w} b{_w} f32", lambda a, b, c: np.where(c >= 0, a, b))
    define(f"slct.b{_w}.ftz.f32", f"b{_w}", f"b{_w} b{_w} f32", lambda a, b, c: np.where(flush(c) >= 0, a, b))
