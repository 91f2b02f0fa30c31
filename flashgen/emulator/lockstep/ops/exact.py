"""Double precision where pairs of doubles do not suffice: rationals, one lane at a time. Rare."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np

from flashgen.emulator.lockstep.ops.rounding import RM, RN, RP, RZ
from flashgen.emulator.lockstep.ops.table import Array

_LOWEST, _DIGITS = -1022, 53
_LARGEST = Fraction(2) ** 1024


def exact_lanes(
    result: Array, lanes: Array, operands: tuple[Array, ...], value: Callable[..., Fraction], mode: int
) -> Array:
    """``result`` with the lanes that ``lanes`` selects computed anew. Their operands are finite."""
    if not lanes.any():
        return result
    fixed = result.copy()
    for lane in np.flatnonzero(lanes).tolist():
        numbers = [float(operand[lane]) for operand in operands]
        exact = value(*(Fraction(number) for number in numbers))
        if exact != 0:  # the sign of an exact zero is what the plain operation gave
            fixed[lane] = round_double(exact, mode)
    return fixed


def round_double(exact: Fraction, mode: int) -> float:
    """A rational, not 0, as a double."""
    size, negative = abs(exact), exact < 0
    exponent = _floor_log2(size)
    unit = max(exponent, _LOWEST) - (_DIGITS - 1)
    scaled = size / Fraction(2) ** unit
    whole = scaled.numerator // scaled.denominator
    rest = scaled - whole
    if mode == RN:
        whole += rest > Fraction(1, 2) or (rest == Fraction(1, 2) and whole % 2 == 1)
    elif rest and mode == (RM if negative else RP):
        whole += 1
    rounded = whole * Fraction(2) ** unit
    if rounded >= _LARGEST:
        stays = mode == RZ or mode == (RP if negative else RM)
        result = float(np.finfo(np.float64).max) if stays else math.inf
    else:
        result = float(rounded)
    return -result if negative else result


def _floor_log2(size: Fraction) -> int:
    guess = size.numerator.bit_length() - size.denominator.bit_length()
    return guess if size >= Fraction(2) ** guess else guess - 1
