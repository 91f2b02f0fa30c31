"""Arithmetic by definition: exact rationals, rounded once. Nothing here shares code with the emulator."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

RN, RZ, RM, RP, RNA = "rn", "rz", "rm", "rp", "rna"
INF, NAN = "inf", "nan"


@dataclass(frozen=True)
class Format:
    """A binary floating-point format."""

    exponent_bits: int
    mantissa_bits: int
    nan: int

    @property
    def width(self) -> int:
        return 1 + self.exponent_bits + self.mantissa_bits

    @property
    def bias(self) -> int:
        return (1 << (self.exponent_bits - 1)) - 1

    @property
    def sign(self) -> int:
        return 1 << (self.width - 1)

    @property
    def infinity(self) -> int:
        return ((1 << self.exponent_bits) - 1) << self.mantissa_bits

    def is_nan(self, bits: int) -> bool:
        return bits & ~self.sign > self.infinity

    def is_inf(self, bits: int) -> bool:
        return bits & ~self.sign == self.infinity

    def negative(self, bits: int) -> bool:
        return bool(bits & self.sign)

    def subnormal(self, bits: int) -> bool:
        return bits & self.infinity == 0 and bits & ~self.sign != 0

    def flush(self, bits: int) -> int:
        return bits & self.sign if self.subnormal(bits) else bits

    def value(self, bits: int) -> Fraction:
        """The exact value of a finite number."""
        exponent = (bits & self.infinity) >> self.mantissa_bits
        mantissa = bits & ((1 << self.mantissa_bits) - 1)
        if exponent:
            mantissa += 1 << self.mantissa_bits
        scale = max(exponent, 1) - self.bias - self.mantissa_bits
        value = Fraction(mantissa) * Fraction(2) ** scale
        return -value if self.negative(bits) else value

    def round(self, x: Fraction, mode: str = RN, zero_sign: bool = False) -> int:
        """The bits of the rounded value; an exact zero gets ``zero_sign``."""
        if x == 0:
            return self.sign if zero_sign else 0
        negative, size = x < 0, abs(x)
        least = 1 - self.bias - self.mantissa_bits
        exponent = max(_floor_log2(size) - self.mantissa_bits, least)
        units = size / Fraction(2) ** exponent
        whole = math.floor(units)
        rest = units - whole
        up = {
            RN: rest > Fraction(1, 2) or (rest == Fraction(1, 2) and whole % 2 == 1),
            RNA: rest >= Fraction(1, 2),
            RZ: False,
            RM: negative and rest > 0,
            RP: not negative and rest > 0,
        }[mode]
        whole += up
        # Counting units also counts up through the exponents.
        steps = whole + ((exponent - least) << self.mantissa_bits)
        if steps >= self.infinity:
            toward_zero = mode == RZ or (mode == RM and not negative) or (mode == RP and negative)
            steps = self.infinity - 1 if toward_zero else self.infinity
        return steps | (self.sign if negative else 0)


def _floor_log2(x: Fraction) -> int:
    guess = x.numerator.bit_length() - x.denominator.bit_length()
    return guess if Fraction(2) ** guess <= x else guess - 1


F16 = Format(5, 10, 0x7FFF)
BF16 = Format(8, 7, 0x7FFF)
F32 = Format(8, 23, 0x7FFFFFFF)
F64 = Format(11, 52, 0x7FF8000000000000)
FORMATS = {"f16": F16, "bf16": BF16, "f32": F32, "f64": F64}


def add(f: Format, a: int, b: int, mode: str = RN) -> int:
    if f.is_nan(a) or f.is_nan(b):
        return f.nan
    if f.is_inf(a) or f.is_inf(b):
        if f.is_inf(a) and f.is_inf(b):
            return a if a == b else f.nan
        return a if f.is_inf(a) else b
    x, y = f.value(a), f.value(b)
    both_negative = f.negative(a) and f.negative(b)
    zero_sign = both_negative if x == 0 and y == 0 and f.negative(a) == f.negative(b) else mode == RM
    return f.round(x + y, mode, zero_sign)


def sub(f: Format, a: int, b: int, mode: str = RN) -> int:
    return f.nan if f.is_nan(b) else add(f, a, b ^ f.sign, mode)


def mul(f: Format, a: int, b: int, mode: str = RN) -> int:
    sign = f.negative(a) != f.negative(b)
    if f.is_nan(a) or f.is_nan(b):
        return f.nan
    if f.is_inf(a) or f.is_inf(b):
        if a & ~f.sign == 0 or b & ~f.sign == 0:
            return f.nan
        return f.infinity | (f.sign if sign else 0)
    return f.round(f.value(a) * f.value(b), mode, sign)


def fma(f: Format, a: int, b: int, c: int, mode: str = RN) -> int:
    if f.is_nan(a) or f.is_nan(b) or f.is_nan(c):
        return f.nan
    sign = f.negative(a) != f.negative(b)
    if f.is_inf(a) or f.is_inf(b):
        if a & ~f.sign == 0 or b & ~f.sign == 0:
            return f.nan
        product = f.infinity | (f.sign if sign else 0)
        return f.nan if f.is_inf(c) and c != product else product
    if f.is_inf(c):
        return c
    product, addend = f.value(a) * f.value(b), f.value(c)
    both_zero_alike = product == 0 and addend == 0 and sign == f.negative(c)
    zero_sign = sign if both_zero_alike else mode == RM
    return f.round(product + addend, mode, zero_sign)


def div(f: Format, a: int, b: int, mode: str = RN) -> int:
    sign = f.sign if f.negative(a) != f.negative(b) else 0
    if f.is_nan(a) or f.is_nan(b) or (f.is_inf(a) and f.is_inf(b)):
        return f.nan
    zero_a, zero_b = a & ~f.sign == 0, b & ~f.sign == 0
    if zero_a and zero_b:
        return f.nan
    if f.is_inf(a) or zero_b:
        return f.infinity | sign
    if f.is_inf(b):
        return sign
    return f.round(f.value(a) / f.value(b), mode, bool(sign))


def sqrt(f: Format, a: int, mode: str = RN) -> int:
    if f.is_nan(a):
        return f.nan
    if a & ~f.sign == 0 or a == f.infinity:
        return a
    if f.negative(a):
        return f.nan
    x = f.value(a)
    # Enough digits below the last bit, and a sticky one for what is cut off.
    shift = 4 * f.width + 2 * f.bias
    scaled = x * Fraction(4) ** shift
    root = math.isqrt(math.floor(scaled))
    exact = root * root == scaled
    return f.round((root + (0 if exact else Fraction(1, 2))) / Fraction(2) ** shift, mode)


def extreme(f: Format, a: int, b: int, larger: bool, nan_wins: bool = False) -> int:
    if f.is_nan(a) or f.is_nan(b):
        if nan_wins or (f.is_nan(a) and f.is_nan(b)):
            return f.nan
        return b if f.is_nan(a) else a

    def order(bits: int) -> int:  # -0 below +0
        return -1 - (bits & ~f.sign) if f.negative(bits) else bits

    return max(a, b, key=order) if larger else min(a, b, key=order)


def saturate(f: Format, bits: int) -> int:
    one = f.bias << f.mantissa_bits
    if f.is_nan(bits) or f.negative(bits):
        return 0
    return min(bits, one)


def relation(name: str, f: Format, a: int, b: int) -> bool:
    """A floating-point comparison by its PTX name."""
    unordered = f.is_nan(a) or f.is_nan(b)
    if name in ("num", "nan"):
        return unordered == (name == "nan")
    if unordered:
        return name.endswith("u")
    x, y = ((math.inf if not f.negative(v) else -math.inf) if f.is_inf(v) else f.value(v) for v in (a, b))
    plain = name.removesuffix("u")
    return {"eq": x == y, "ne": x != y, "lt": x < y, "le": x <= y, "gt": x > y, "ge": x >= y}[plain]


def signed(x: int, width: int) -> int:
    """Two's complement."""
    x &= (1 << width) - 1
    return x - (1 << width) if x >> (width - 1) else x


def unsigned(x: int, width: int) -> int:
    return x & ((1 << width) - 1)
