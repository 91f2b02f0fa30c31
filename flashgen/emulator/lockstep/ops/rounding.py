"""Rounding to any binary format, in any mode, once.

A value is a pair of doubles, ``high + low`` exactly, with ``low`` below half a unit in the last place of
``high``: sums and products of narrower numbers fit. `quantise` rounds such a pair to a format.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from flashgen.emulator.lockstep.ops.table import Array

RN, RZ, RM, RP, RNA = 0, 1, 2, 3, 4
_SPLITTER = 134217729.0  # 2^27 + 1


class Format(NamedTuple):
    """A binary floating-point format.

    Attributes:
        digits: of the significand, the hidden one included.
        lowest: exponent of the smallest normal number.
        largest: the largest finite number.
        nan: the one NaN that operations give.
    """

    digits: int
    lowest: int
    largest: float
    nan: int


FORMATS = {
    "f16": Format(11, -14, 65504.0, 0x7FFF),
    "bf16": Format(8, -126, float.fromhex("0x1.fep127"), 0x7FFF),
    "tf32": Format(11, -126, float.fromhex("0x1.ffcp127"), 0x7FFFFFFF),
    "f32": Format(24, -126, float.fromhex("0x1.fffffep127"), 0x7FFFFFFF),
    "f64": Format(53, -1022, float.fromhex("0x1.fffffffffffffp1023"), 0x7FF8000000000000),
}


def two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """(sum, its error), exactly."""
    total = a + b
    part = total - a
    error = (a - (total - part)) + (b - part)
    return total, np.where(np.isfinite(total), error, 0.0)


def two_product(a: Array, b: Array) -> tuple[Array, Array]:
    """(product, its error), exactly unless it over- or underflows."""
    product = a * b
    a1, b1 = a * _SPLITTER, b * _SPLITTER
    a1, b1 = a1 - (a1 - a), b1 - (b1 - b)
    a2, b2 = a - a1, b - b1
    error = ((a1 * b1 - product) + a1 * b2 + a2 * b1) + a2 * b2
    return product, np.where(np.isfinite(product), error, 0.0)


def to_odd(high: Array, low: Array) -> Array:
    """Rounds to odd: cut off, the last digit set if anything was lost. Rounding again is then as good as once."""
    bits = np.ascontiguousarray(high).view(np.int64)
    inexact = (low != 0) & np.isfinite(high)
    toward_zero = (low < 0) != (high < 0)
    odd = np.where(toward_zero, bits - 1, bits) | 1
    return np.where(inexact, odd, bits).view(np.float64)


def quantise(high: Array, low: Array | float, form: Format, mode: int = RN) -> Array:
    """The pair, rounded to a format narrower than double; as a double."""
    x = to_odd(high, np.broadcast_to(low, high.shape))
    _, exponent = np.frexp(x)  # |x| = m 2^exponent, 1/2 <= m < 1
    unit = np.maximum(exponent - form.digits, form.lowest + 1 - form.digits)
    scaled = np.ldexp(np.abs(x), -unit)
    whole = np.floor(scaled)
    rest, negative = scaled - whole, np.signbit(x)
    if mode == RN:
        up = (rest > 0.5) | ((rest == 0.5) & (whole % 2 == 1))
    elif mode == RNA:
        up = rest >= 0.5
    else:
        away = {RZ: np.False_, RM: negative, RP: ~negative}[mode]
        up = (rest > 0) & away
    size = np.ldexp(whole + up, unit)
    size = np.where(size > form.largest, _overflow(form, mode, negative), size)
    return np.where(np.isfinite(x), np.copysign(size, x), x)


def _overflow(form: Format, mode: int, negative: Array) -> Array:
    """Infinity, unless the mode points back to the numbers."""
    never, always = np.zeros_like(negative), np.ones_like(negative)
    stays = {RN: never, RNA: never, RZ: always, RM: ~negative, RP: negative}[mode]
    result: Array = np.where(stays, form.largest, np.inf)
    return result


def nudge(value: Array, residual: Array, mode: int) -> Array:
    """A double rounded to nearest, corrected to another mode by the sign of ``exact - value``."""
    if mode == RN:
        return value
    down = (residual < 0) & (value > 0 if mode == RZ else mode == RM)
    up = (residual > 0) & (value < 0 if mode == RZ else mode == RP)
    return np.where(down, np.nextafter(value, -np.inf), np.where(up, np.nextafter(value, np.inf), value))


def decode(bits: Array, kind: str) -> Array:
    """Half-width numbers as doubles."""
    if kind == "f16":
        return bits.view(np.float16).astype(np.float64)
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32).astype(np.float64)


def encode(values: Array, kind: str) -> Array:
    """Doubles that a half-width format holds, as its bits."""
    if kind == "f16":
        bits = values.astype(np.float16).view(np.uint16)
    else:
        bits = (values.astype(np.float32).view(np.uint32) >> np.uint32(16)).astype(np.uint16)
    return np.where(np.isnan(values), np.uint16(FORMATS[kind].nan), bits)
