"""Half precision, one or two in a register: through doubles, rounded once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from flashgen.emulator.lockstep.ops.extremes import extreme
from flashgen.emulator.lockstep.ops.floating import saturate
from flashgen.emulator.lockstep.ops.rounding import FORMATS, decode, encode, quantise, two_sum
from flashgen.emulator.lockstep.ops.table import Array, Function, Lanewise, aux, define_by
from flashgen.emulator.program.ops import Op

_SIGN = np.uint16(0x8000)
# Exact results as pairs of doubles: a product of halves has at most 22 digits.
_ARITHMETIC: dict[str, tuple[int, Callable[..., tuple[Array, Array | float]]]] = {
    "add": (2, two_sum),
    "sub": (2, lambda a, b: two_sum(a, -b)),
    "mul": (2, lambda a, b: (a * b, 0.0)),
    "fma": (3, lambda a, b, c: two_sum(a * b, c)),
    "ex2": (1, lambda a: (np.exp2(a), 0.0)),
    "tanh": (1, lambda a: (np.tanh(a), 0.0)),
}


def flush_half(x: Array, kind: str) -> Array:
    """Subnormals of the format to zero."""
    return np.where(np.abs(x) < 2.0 ** FORMATS[kind].lowest, np.copysign(0.0, x), x)


def _rounded(kind: str, count: int, function: Callable[..., tuple[Array, Array | float]]) -> Callable[[Op], Lanewise]:
    form = kind.removesuffix("x2")

    def entry(op: Op) -> Lanewise:
        ftz, sat, relu = aux(op, 0), aux(op, 1), aux(op, 2)

        def of(*operands: Array) -> Array:
            values = [decode(bits, form) for bits in operands]
            if ftz:
                values = [flush_half(x, form) for x in values]
            result = quantise(*function(*values), FORMATS[form])
            result = flush_half(result, form) if ftz else result
            result = saturate(result) if sat else result
            if relu:
                result = np.where(result < 0, 0.0, np.where(result == 0, 0.0, result))
            return encode(result, form)

        return Lanewise((kind,), (kind,) * count, of)

    return entry


def _sign_only(kind: str, function: Callable[[Array], Array]) -> Callable[[Op], Lanewise]:
    """Of abs and neg: they change the sign bit, a NaN's as well: which NaN results the manual leaves open."""
    form = kind.removesuffix("x2")
    smallest = {"f16": np.uint16(0x0400), "bf16": np.uint16(0x0080)}[form]

    def entry(op: Op) -> Lanewise:
        def of(bits: Array) -> Array:
            if aux(op, 0):
                bits = np.where(bits & np.uint16(0x7FFF) < smallest, bits & _SIGN, bits)
            result: Array = function(bits)
            return result

        return Lanewise((kind,), (kind,), of)

    return entry


def _selected(kind: str, function: Function, signed: bool) -> Callable[[Op], Lanewise]:
    """Of min and max; with .xorsign of the magnitudes, and the product's sign set on the result's bits."""
    form = kind.removesuffix("x2")

    def entry(op: Op) -> Lanewise:
        def of(a: Array, b: Array) -> Array:
            x, y = decode(a, form), decode(b, form)
            if aux(op, 0):
                x, y = flush_half(x, form), flush_half(y, form)
            if not signed:
                return encode(function(x, y), form)
            result: Array = encode(function(np.abs(x), np.abs(y)), form) | ((a ^ b) & _SIGN)
            return result

        return Lanewise((kind,), (kind, kind), of)

    return entry


for _kind in ("f16", "f16x2", "bf16", "bf16x2"):
    for _name, (_count, _function) in _ARITHMETIC.items():
        define_by(f"{_name}.{_kind}", _rounded(_kind, _count, _function))
    define_by(f"abs.{_kind}", _sign_only(_kind, lambda bits: bits & ~_SIGN))
    define_by(f"neg.{_kind}", _sign_only(_kind, lambda bits: bits ^ _SIGN))
    for _name, _larger in (("min", False), ("max", True)):
        for _dot, _nan in (("", False), (".NaN", True)):
            define_by(f"{_name}{_dot}.{_kind}", _selected(_kind, extreme(_larger, _nan), signed=False))
            define_by(f"{_name}{_dot}.xorsign.{_kind}", _selected(_kind, extreme(_larger, _nan), signed=True))
