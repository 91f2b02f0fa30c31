"""The approximate functions, in double and rounded once: inside the error that the manual grants them."""

from __future__ import annotations

import numpy as np

from flashgen.emulator.lockstep.ops.floating import canonical, flush
from flashgen.emulator.lockstep.ops.table import Array, Function, define

_FUNCTIONS: dict[str, Function] = {
    "ex2": np.exp2,
    "lg2": np.log2,
    "rcp": np.reciprocal,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1.0 / np.sqrt(x),
    "sin": np.sin,
    "cos": np.cos,
    "tanh": np.tanh,
}


def _approximate(function: Function, ftz: bool) -> Function:
    def of(a: Array) -> Array:
        x = flush(a) if ftz else a
        result = function(x.astype(np.float64)).astype(np.float32)
        return canonical(flush(result) if ftz else result)

    return of


def _quotient(ftz: bool) -> Function:
    """Beyond 2^126 the divisor's reciprocal underflows, and the quotient is 0 (of infinities: NaN)."""

    def of(a: Array, b: Array) -> Array:
        if ftz:
            a, b = flush(a), flush(b)
        result = a / b
        result = flush(result) if ftz else result
        vanishes = (np.abs(b) > np.float32(2.0**126)) & np.isfinite(b)
        return canonical(np.where(vanishes, a * np.copysign(np.float32(0), b), result))

    return of


def _upper_word(x: Array) -> Array:
    return (x.view(np.uint64) & np.uint64(0xFFFFFFFF00000000)).view(np.float64)


def _seed(function: Function) -> Function:
    """Of the upper word of a double, to the upper word of the result: seeds of Newton's iteration."""
    return lambda a: canonical(_upper_word(flush(function(flush(_upper_word(a))))))


for _name, _function in _FUNCTIONS.items():
    define(f"{_name}.approx.f32", "f32", "f32", _approximate(_function, ftz=False))
    define(f"{_name}.approx.ftz.f32", "f32", "f32", _approximate(_function, ftz=True))
for _name in ("rcp", "rsqrt"):
    define(f"{_name}.approx.ftz.f64", "f64", "f64", _seed(_FUNCTIONS[_name]))
define("rsqrt.approx.f64", "f64", "f64", lambda a: canonical(_FUNCTIONS["rsqrt"](a)))
define("div.approx.f32", "f32", "f32 f32", _quotient(ftz=False))
define("div.approx.ftz.f32", "f32", "f32 f32", _quotient(ftz=True))
