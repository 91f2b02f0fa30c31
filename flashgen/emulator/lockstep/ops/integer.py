"""Integer arithmetic, as the PTX manual defines it. NumPy's integers wrap, as PTX's do."""

from __future__ import annotations

import numpy as np

from flashgen.emulator.lockstep.ops.table import BITS, INTEGERS, VIEWS, Array, Lanewise, aux, define, define_by
from flashgen.emulator.program.ops import Op

_WIDER = {"u16": "u32", "s16": "s32", "u32": "u64", "s32": "s64"}
_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)


def wide_product(a: Array, b: Array) -> tuple[Array, Array]:
    """(high, low) words of the product of two unsigned 64-bit numbers."""
    a1, a0, b1, b0 = a >> _HALF, a & _LOW, b >> _HALF, b & _LOW
    low, first, second = a0 * b0, a1 * b0, a0 * b1
    middle = (low >> _HALF) + (first & _LOW) + (second & _LOW)
    high = a1 * b1 + (first >> _HALF) + (second >> _HALF) + (middle >> _HALF)
    return high, a * b


def high_product(a: Array, b: Array) -> Array:
    """The upper half of the product."""
    bits = 8 * a.itemsize
    if bits < 64:
        wide = np.dtype(f"{a.dtype.kind}{2 * a.itemsize}")
        upper: Array = a.astype(wide) * b.astype(wide) >> bits
        return upper.astype(a.dtype)
    high = wide_product(a.view("u8"), b.view("u8"))[0]
    if a.dtype.kind == "i":  # a negative factor counts 2^64 too much
        high = high - np.where(a < 0, b.view("u8"), 0) - np.where(b < 0, a.view("u8"), 0)
    return high.view(a.dtype)


def _clamp(x: Array) -> Array:
    return np.clip(x, -(1 << 31), (1 << 31) - 1).astype(np.int32)


def _widened(x: Array) -> Array:
    return x.astype(np.int64)


def quotient(a: Array, b: Array) -> Array:
    """Rounds towards zero. PTX leaves division by zero open; all ones, as hardware gives."""
    zero = b == 0
    safe = np.where(zero, b.dtype.type(1), b)
    if a.dtype.kind == "u":
        q = a // safe
    else:
        unsigned = f"u{a.itemsize}"
        size = np.abs(a).view(unsigned) // np.abs(safe).view(unsigned)  # of the most negative number, too
        q = np.where((a < 0) != (safe < 0), -size.view(a.dtype), size.view(a.dtype))
    return np.where(zero, ~a.dtype.type(0), q)


def remainder(a: Array, b: Array) -> Array:
    """Has the sign of the dividend; of a division by zero, the dividend."""
    return np.where(b == 0, a, a - quotient(a, b) * b)


def _distance(a: Array, b: Array, c: Array) -> Array:
    return c + np.where(a < b, b - a, a - b)


def _cut24(a: Array) -> Array:
    if a.dtype.kind == "u":
        return (a & np.uint32(0xFFFFFF)).astype(np.uint64)
    return ((a << 8) >> 8).astype(np.int64)


def _mul24_low(a: Array, b: Array) -> Array:
    return (_cut24(a) * _cut24(b)).astype(a.dtype)


def _mul24_high(a: Array, b: Array) -> Array:
    return (_cut24(a) * _cut24(b) >> 16).astype(a.dtype)


def _define_products() -> None:
    for w in (16, 32, 64):
        define(f"mul.lo.b{w}", f"b{w}", f"b{w} b{w}", np.multiply)
        define(f"mad.lo.b{w}", f"b{w}", f"b{w} b{w} b{w}", lambda a, b, c: a * b + c)
    for t in INTEGERS:
        define(f"mul.hi.{t}", t, f"{t} {t}", high_product)
        define(f"mad.hi.{t}", t, f"{t} {t} {t}", lambda a, b, c: high_product(a, b) + c)
    for t, wide in _WIDER.items():
        kind = VIEWS[wide]
        define(f"mul.wide.{t}", wide, f"{t} {t}", lambda a, b, k=kind: a.astype(k) * b.astype(k))
        define(f"mad.wide.{t}", wide, f"{t} {t} {wide}", lambda a, b, c, k=kind: a.astype(k) * b.astype(k) + c)
    for t in ("u32", "s32"):
        define(f"mul24.lo.{t}", t, f"{t} {t}", _mul24_low)
        define(f"mul24.hi.{t}", t, f"{t} {t}", _mul24_high)
        define(f"mad24.lo.{t}", t, f"{t} {t} {t}", lambda a, b, c: _mul24_low(a, b) + c)
        define(f"mad24.hi.{t}", t, f"{t} {t} {t}", lambda a, b, c: _mul24_high(a, b) + c)
    three = "s32 s32 s32"
    define("mad.hi.sat.s32", "s32", three, lambda a, b, c: _clamp(_widened(high_product(a, b)) + c))
    define("mad24.hi.sat.s32", "s32", three, lambda a, b, c: _clamp(_widened(_mul24_high(a, b)) + c))


def _define_sums() -> None:
    for w in (16, 32, 64):
        define(f"add.b{w}", f"b{w}", f"b{w} b{w}", np.add)
        define(f"sub.b{w}", f"b{w}", f"b{w} b{w}", np.subtract)
    define("add.b16x2", "u16x2", "u16x2 u16x2", np.add)
    define("sub.b16x2", "u16x2", "u16x2 u16x2", np.subtract)
    define("add.sat.s32", "s32", "s32 s32", lambda a, b: _clamp(_widened(a) + b))
    define("sub.sat.s32", "s32", "s32 s32", lambda a, b: _clamp(_widened(a) - b))
    for t in INTEGERS:
        define(f"div.{t}", t, f"{t} {t}", quotient)
        define(f"rem.{t}", t, f"{t} {t}", remainder)
        define(f"sad.{t}", t, f"{t} {t} {t}", _distance)
        if t[0] == "s":
            define(f"abs.{t}", t, t, np.abs)
            define(f"neg.{t}", t, t, np.negative)


def _define_extremes() -> None:
    for name, function in (("min", np.minimum), ("max", np.maximum)):
        for t in (*INTEGERS, "u16x2", "s16x2"):
            define(f"{name}.{t}", t, f"{t} {t}", function)
        for t in ("s32", "s16x2"):
            define(f"{name}.relu.{t}", t, f"{t} {t}", lambda a, b, f=function: np.maximum(f(a, b), a.dtype.type(0)))


def _dot(op: Op) -> Lanewise:
    """dp4a and dp2a: four bytes with four bytes, or two halves with two bytes of either half of b."""
    signed_a, signed_b, halves, upper = (bool(aux(op, k)) for k in range(4))
    kind_a, kind_b = (
        ("i2" if signed_a else "u2") if halves else ("i1" if signed_a else "u1"),
        "i1" if signed_b else "u1",
    )

    def of(a: Array, b: Array, c: Array) -> Array:
        left = a.view(kind_a).reshape(len(a), -1).astype(np.int64)
        right = b.view(kind_b).reshape(len(b), -1).astype(np.int64)
        if halves:
            right = right[:, 2:] if upper else right[:, :2]
        total: Array = (left * right).sum(axis=1) + c
        return total.astype(np.uint32)

    return Lanewise(("b32",), ("b32", "b32", "s32"), of)


def _with_carry(name: str, make: str, t: str) -> None:
    """``aux`` of add and sub: uses the carry, leaves a carry; of mad also: the high half of the product."""

    def entry(op: Op) -> Lanewise:
        uses, leaves, high = aux(op, 0), aux(op, 1), aux(op, 2)
        unsigned = f"b{BITS[t]}"

        def of(*operands: Array) -> tuple[Array, ...]:
            *values, cc = operands
            carry = cc if uses else np.zeros_like(cc)
            if make == "mad":
                a, b, c = values
                product = high_product(a, b).view(c.dtype) if high else (a * b).view(c.dtype)
                result, out = _sum_with_carry(product, c, carry)
            elif make == "add":
                result, out = _sum_with_carry(values[0], values[1], carry)
            else:
                a, b = values
                result = a - b - carry.astype(a.dtype)
                out = (a < b) | ((a == b) & carry)
            return result, out if leaves else cc

        factors = f"{t} {t} {unsigned}" if make == "mad" else f"{unsigned} {unsigned}"
        return Lanewise((unsigned, "cc"), (*factors.split(), "cc"), of)

    define_by(name, entry)


def _sum_with_carry(a: Array, b: Array, carry: Array) -> tuple[Array, Array]:
    partial = a + b
    result = partial + carry.astype(a.dtype)
    return result, (partial < a) | ((result == 0) & carry)


_define_products()
_define_sums()
_define_extremes()
define_by("dot", _dot)
for _w in (32, 64):
    _with_carry(f"carry.add.b{_w}", "add", f"b{_w}")
    _with_carry(f"carry.sub.b{_w}", "sub", f"b{_w}")
    for _t in (f"u{_w}", f"s{_w}"):
        _with_carry(f"carry.mad.{_t}", "mad", _t)
