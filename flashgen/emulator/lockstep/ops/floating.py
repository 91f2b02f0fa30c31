"""Single and double precision: IEEE arithmetic, each operation rounded once, NaN results canonical."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np

from flashgen.emulator.lockstep.ops.exact import exact_lanes
from flashgen.emulator.lockstep.ops.rounding import FORMATS, RN, nudge, quantise, to_odd, two_product, two_sum
from flashgen.emulator.lockstep.ops.table import Array, Function, Lanewise, aux, define, define_by
from flashgen.emulator.program.ops import Op

_TINY = {np.dtype(np.float32): np.float32(2.0**-126), np.dtype(np.float64): np.float64(2.0**-1022)}
_NAN = {
    np.dtype(np.float32): np.array([FORMATS["f32"].nan], np.uint32).view(np.float32)[0],
    np.dtype(np.float64): np.array([FORMATS["f64"].nan], np.uint64).view(np.float64)[0],
}


def canonical(x: Array) -> Array:
    """Every NaN the same one."""
    nan = np.isnan(x)
    return np.where(nan, _NAN[x.dtype], x) if nan.any() else x


def flush(x: Array) -> Array:
    """Subnormals to zeros of their sign."""
    small = np.abs(x) < _TINY[x.dtype]
    result: Array = np.where(small, np.copysign(x.dtype.type(0), x), x) if small.any() else x
    return result


def saturate(x: Array) -> Array:
    """To [0, 1]; NaN to +0."""
    result: Array = np.where(x > 0, np.minimum(x, x.dtype.type(1)), x.dtype.type(0))
    return result


def fma32(a: Array, b: Array, c: Array) -> Array:
    """The sum a b + c of floats. The product is exact in double, and the sum's error known."""
    product = a.astype(np.float64) * b
    total = product + c
    result = total.astype(np.float32)
    # Rounding twice differs from once only from a tie that was none, or among subnormals.
    tie = (total.view(np.uint64) & np.uint64(0x1FFFFFFF)) == np.uint64(0x10000000)
    doubtful = tie | (np.abs(total) < _TINY[np.dtype(np.float32)])
    if doubtful.any():
        total, error = two_sum(product, c.astype(np.float64))
        result = np.where(doubtful, to_odd(total, error).astype(np.float32), result)
    return result


def _exponent(x: Array) -> Array:
    return np.frexp(x)[1]


def fma64(a: Array, b: Array, c: Array, mode: int = RN) -> Array:
    """The sum a b + c of doubles, by Boldo and Melquiond's way of rounding the tail to odd."""
    product = a * b
    zero = (a == 0) | (b == 0)
    plain = np.where(zero | (c != 0), product + c, product)  # right wherever an operand is zero, infinite or NaN
    simple = ~np.isfinite(plain) & ~(np.isfinite(a) & np.isfinite(b) & np.isfinite(c)) | zero
    if mode == RN:
        simple |= c == 0
        high, low = two_product(a, b)
        mid, rest = two_sum(c, low)
        top, mid = two_sum(high, mid)
        result = np.where(top == 0, plain, top + to_odd(*two_sum(rest, mid)))
        # Where exponents are extreme the errors of product and sums are no numbers themselves.
        size = _exponent(a) + _exponent(b)
        extreme = (np.abs(size) > 900) | (np.abs(_exponent(a)) > 900) | (np.abs(_exponent(b)) > 900)
        rational = ~simple & (extreme | (np.abs(_exponent(c)) > 900))
    else:
        result, rational = plain, ~simple
    result = np.where(simple | rational, plain, result)
    if mode == 2:  # terms that cancel give -0 when rounding down
        negative = np.signbit(product) | np.signbit(c)
        result = np.where((plain == 0) & np.isfinite(product), np.where(negative, -0.0, 0.0), result)
    return exact_lanes(result, rational, (a, b, c), lambda x, y, z: x * y + z, mode)


# What an exact result is, and how its rounded value errs: (a, b) -> (value, sign of exact - value), in double.
def _sum_pair(a: Array, b: Array) -> tuple[Array, Array]:
    return two_sum(a, b)


def _difference_pair(a: Array, b: Array) -> tuple[Array, Array]:
    return two_sum(a, -b)


def _product_pair(a: Array, b: Array) -> tuple[Array, Array]:
    return two_product(a, b)


def _quotient_pair(a: Array, b: Array) -> tuple[Array, Array]:
    value = a / b
    product, error = two_product(value, b)
    residual = ((a - product) - error) * np.sign(b)
    return value, np.where(np.isfinite(value) & np.isfinite(b), residual, 0.0)


def _reciprocal_pair(a: Array) -> tuple[Array, Array]:
    return _quotient_pair(np.ones_like(a), a)


def _root_pair(a: Array) -> tuple[Array, Array]:
    value = np.sqrt(a)
    square, error = two_product(value, value)
    return value, np.where(np.isfinite(value), (a - square) - error, 0.0)


def _fma_pair(a: Array, b: Array, c: Array) -> tuple[Array, Array]:
    return two_sum(a * b, c)  # of floats: their product is exact


_PAIRS: dict[str, tuple[int, Callable[..., tuple[Array, Array]], Callable[..., Fraction]]] = {
    "add": (2, _sum_pair, lambda a, b: a + b),
    "sub": (2, _difference_pair, lambda a, b: a - b),
    "mul": (2, _product_pair, lambda a, b: a * b),
    "div": (2, _quotient_pair, lambda a, b: a / b),
    "fma": (3, _fma_pair, lambda a, b, c: a * b + c),
    "rcp": (1, _reciprocal_pair, lambda a: 1 / a),
    "sqrt": (1, _root_pair, lambda a: a),
}


def _directed32(name: str) -> Callable[[Op], Lanewise]:
    count, pair, _ = _PAIRS[name]

    def entry(op: Op) -> Lanewise:
        mode, ftz, sat = aux(op, 0), aux(op, 1), aux(op, 2)

        def of(*operands: Array) -> Array:
            given = [flush(x) if ftz else x for x in operands]
            high, low = pair(*(x.astype(np.float64) for x in given))
            if mode == 2 and name in ("add", "sub", "fma"):
                high = _rounded_down_zero(name, high, low, given)
            result = quantise(high, low, FORMATS["f32"], mode).astype(np.float32)
            result = flush(result) if ftz else result
            return saturate(result) if sat else canonical(result)

        return Lanewise(("f32",), ("f32",) * count, of)

    return entry


def _rounded_down_zero(name: str, high: Array, low: Array, operands: list[Array]) -> Array:
    """Terms that cancel give -0 when rounding down; +0 only from two zeros that are both +0."""
    *factors, last = operands
    first = factors[0] if name != "fma" else factors[0].astype(np.float64) * factors[1]
    negative = np.signbit(first) | (np.signbit(last) != (name == "sub"))
    return np.where((high == 0) & (low == 0), np.where(negative, -0.0, 0.0), high)


def _directed64(name: str) -> Callable[[Op], Lanewise]:
    """The nearest double, corrected by the sign of its error; by rationals where that is not exact."""
    count, pair, value = _PAIRS[name]

    def entry(op: Op) -> Lanewise:
        mode = aux(op, 0)

        def of(*operands: Array) -> Array:
            if name == "fma":
                a, b, c = operands
                return canonical(fma64(a, b, c, mode))
            nearest, residual = pair(*operands)
            finite = np.logical_and.reduce([np.isfinite(x) for x in operands])
            if mode == 2 and name in ("add", "sub"):
                nearest = np.where(finite, _rounded_down_zero(name, nearest, residual, list(operands)), nearest)
            result = nudge(nearest, residual, mode)
            unsafe = np.logical_or.reduce([np.abs(_exponent(x)) > 480 for x in (*operands, nearest)])
            zero = operands[-1] == 0 if name in ("div", "rcp") else np.False_
            if name == "sqrt":
                return canonical(_root_unsafe(result, operands[0], mode))
            return canonical(exact_lanes(result, unsafe & finite & ~zero, operands, value, mode))

        return Lanewise(("f64",), ("f64",) * count, of)

    return entry


def _root_unsafe(result: Array, a: Array, mode: int) -> Array:
    """Scaling by a power of four moves a number to where the error of its root is exact."""
    far = np.isfinite(a) & (a > 0) & (np.abs(_exponent(a)) > 480)
    shift = np.where(_exponent(a) > 0, -512, 512)
    value, residual = _root_pair(np.ldexp(np.where(far, a, 1.0), shift))
    return np.where(far, np.ldexp(nudge(value, residual, mode), -shift // 2), result)


def _plain(name: str, count: int, function: Function) -> None:
    """An operation of floats, with and without .ftz."""
    define(f"{name}.f32", "f32", " ".join(["f32"] * count), lambda *x: canonical(function(*x)))
    define(f"{name}.ftz.f32", "f32", " ".join(["f32"] * count), flushed(function))


def flushed(function: Function) -> Function:
    """With subnormal operands and results flushed."""
    return lambda *x: canonical(flush(function(*(flush(value) for value in x))))


def _define_arithmetic() -> None:
    binary: dict[str, Function] = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide}
    unary: dict[str, Function] = {"rcp": np.reciprocal, "sqrt": np.sqrt}
    for name, function in binary.items():
        _plain(name, 2, function)
        define(f"{name}.f64", "f64", "f64 f64", lambda a, b, f=function: canonical(f(a, b)))
    for name, function in unary.items():
        _plain(name, 1, function)
        define(f"{name}.f64", "f64", "f64", lambda a, f=function: canonical(f(a)))
    _plain("fma", 3, fma32)
    define("fma.f64", "f64", "f64 f64 f64", lambda a, b, c: canonical(fma64(a, b, c)))
    for name, count in (("add", 2), ("sub", 2), ("mul", 2), ("fma", 3)):
        function = fma32 if name == "fma" else binary[name]
        sources = " ".join(["f32x2"] * count)
        define(f"{name}.f32x2", "f32x2", sources, lambda *x, f=function: canonical(f(*x)))
        define(f"{name}.ftz.f32x2", "f32x2", sources, flushed(function))
    for name in _PAIRS:
        define_by(f"{name}.rnd.f32", _directed32(name))
        define_by(f"{name}.rnd.f64", _directed64(name))


_define_arithmetic()
