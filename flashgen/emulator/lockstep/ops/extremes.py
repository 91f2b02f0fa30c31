"""Signs, minima and maxima, classes of floats."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from flashgen.emulator.lockstep.ops.floating import canonical, flush
from flashgen.emulator.lockstep.ops.table import Array, Function, Lanewise, aux, define, define_by
from flashgen.emulator.program.ops import Op


def extreme(larger: bool, with_nan: bool) -> Function:
    """The min or max of two: -0 is less than +0; a NaN loses, or wins if ``with_nan``."""

    def of(a: Array, b: Array) -> Array:
        first = (a > b) if larger else (a < b)
        zeros = (a == 0) & (b == 0)
        first = np.where(zeros, np.signbit(b) if larger else np.signbit(a), first)
        result = np.where(first | np.isnan(b), a, b)
        return np.where(np.isnan(a) | np.isnan(b), a.dtype.type(np.nan), result) if with_nan else result

    return of


def _xorsign(function: Function) -> Function:
    """Of the magnitudes, with the product's sign; NaN results get it, too."""

    def of(a: Array, b: Array) -> Array:
        result = canonical(function(np.abs(a), np.abs(b)))
        return np.where(np.signbit(a) != np.signbit(b), -result, result)

    return of


def _three(function: Function) -> Function:
    return lambda a, b, c: canonical(function(function(a, b), c))


def _prepared(function: Function, ftz: str) -> Function:
    return (lambda *x: function(*(flush(value) for value in x))) if ftz else function


def _define_extremes(name: str, larger: bool) -> None:
    for dot, with_nan in (("", False), (".NaN", True)):
        two = extreme(larger, with_nan)
        plain, signed, three = (lambda a, b, f=two: canonical(f(a, b))), _xorsign(two), _three(two)
        for ftz in ("", ".ftz"):
            define(f"{name}{ftz}{dot}.f32", "f32", "f32 f32", _prepared(plain, ftz))
            define(f"{name}{ftz}{dot}.xorsign.f32", "f32", "f32 f32", _prepared(signed, ftz))
            define(f"{name}3{ftz}{dot}.f32", "f32", "f32 f32 f32", _prepared(three, ftz))
        if not with_nan:
            define(f"{name}.f64", "f64", "f64 f64", plain)


def _testp(t: str) -> Callable[[Op], Lanewise]:
    def normal(a: Array) -> Array:
        is_normal: Array = np.isfinite(a) & (flush(a) != 0)
        return is_normal

    def subnormal(a: Array) -> Array:
        is_subnormal: Array = (a != 0) & (flush(a) == 0)
        return is_subnormal

    questions = (np.isfinite, np.isinf, lambda a: ~np.isnan(a), np.isnan, normal, subnormal)
    return lambda op: Lanewise(("pred",), (t,), questions[aux(op, 0)])


_define_extremes("min", larger=False)
_define_extremes("max", larger=True)
for _t in ("f32", "f64"):  # signs are bits, of a NaN as well: which NaN results the manual leaves open
    define(f"abs.{_t}", _t, _t, np.abs)
    define(f"neg.{_t}", _t, _t, np.negative)
    define(f"copysign.{_t}", _t, f"{_t} {_t}", lambda a, b: np.copysign(b, a))
    define_by(f"testp.{_t}", _testp(_t))
define("abs.ftz.f32", "f32", "f32", lambda a: flush(np.abs(a)))
define("neg.ftz.f32", "f32", "f32", lambda a: flush(np.negative(a)))
