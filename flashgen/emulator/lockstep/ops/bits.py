"""Logic, shifts, bit fields, byte permutation: the manual's pseudocode, on arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from flashgen.emulator.lockstep.ops.table import INTEGERS, Array, Lanewise, aux, define, define_by
from flashgen.emulator.program.ops import Op

_ONES_IN = np.array([bin(k).count("1") for k in range(256)], np.uint8)
_NONE = 0xFFFFFFFF


def _width(a: Array) -> int:
    return 8 * a.itemsize


def shift_left(a: Array, by: Array) -> Array:
    """Bits beyond the width are gone."""
    result: Array = np.where(by < _width(a), a << np.minimum(by, _width(a) - 1).astype(a.dtype), a.dtype.type(0))
    return result


def shift_right(a: Array, by: Array) -> Array:
    """Fills with the sign of a signed type, else with zeros."""
    shifted: Array = a >> np.minimum(by, _width(a) - 1).astype(a.dtype)
    return shifted if a.dtype.kind == "i" else np.where(by < _width(a), shifted, a.dtype.type(0))


def _ones(count: Array, dtype: np.dtype[Any]) -> Array:
    """The lowest ``count`` bits."""
    none = np.zeros(len(count), dtype)
    return ~shift_left(~none, count)


def _population(a: Array) -> Array:
    result: Array = _ONES_IN[a.view(np.uint8).reshape(len(a), -1)].sum(axis=1, dtype=np.uint32)
    return result


def _smeared(a: Array) -> Array:
    """All bits below the leading one set, too."""
    for k in (1, 2, 4, 8, 16, 32)[: 5 if a.itemsize == 4 else 6]:
        a = a | a >> a.dtype.type(k)
    return a


def _leading_zeros(a: Array) -> Array:
    return np.uint32(_width(a)) - _population(_smeared(a))


def _find(a: Array, shift: bool) -> Array:
    unsigned = np.dtype(f"u{a.itemsize}")
    size = np.where(a < 0, ~a, a).view(unsigned) if a.dtype.kind == "i" else a
    leading = _leading_zeros(size)
    found = leading if shift else np.uint32(_width(a) - 1) - leading
    return np.where(size == 0, np.uint32(_NONE), found)


def _reversed(a: Array) -> Array:
    bits = np.unpackbits(a.view(np.uint8).reshape(len(a), -1), axis=1, bitorder="little")
    return np.packbits(bits[:, ::-1], axis=1, bitorder="little").reshape(-1).view(a.dtype)


def _extract(a: Array, b: Array, c: Array) -> Array:
    top = np.uint32(_width(a) - 1)
    unsigned = a.view(f"u{a.itemsize}")
    start, length = b & np.uint32(0xFF), c & np.uint32(0xFF)
    inside = np.where(start > top, np.uint32(0), np.minimum(length, top + 1 - np.minimum(start, top)))
    mask = _ones(inside, unsigned.dtype)
    field = shift_right(unsigned, start) & mask
    if a.dtype.kind == "u":
        return field
    last = np.minimum(start + length - np.uint32(1), top)
    negative = (shift_right(unsigned, last) & unsigned.dtype.type(1)).astype(bool) & (length > 0)
    return np.where(negative, field | ~mask, field).view(a.dtype)


def _insert(a: Array, b: Array, c: Array, d: Array) -> Array:
    start, length = c & np.uint32(0xFF), d & np.uint32(0xFF)
    field = shift_left(_ones(length, a.dtype), start)
    return (b & ~field) | (shift_left(a, start) & field)


def _mask(a: Array, b: Array, wrap: bool) -> Array:
    start, length = a & np.uint32(31), b & np.uint32(31)
    all_ones = np.full(len(a), _NONE, np.uint32)
    above_start, above_end = shift_left(all_ones, start), shift_left(all_ones, start + length)
    if not wrap:
        above_end = np.where(b >= 32, np.uint32(0), above_end)
        above_start = np.where(a >= 32, np.uint32(0), above_start)
    return above_start & ~above_end


def _sign_or_zero_extend(a: Array, b: Array, wrap: bool) -> Array:
    count = b & np.uint32(31) if wrap else np.minimum(b, np.uint32(32))
    unused = np.uint32(32) - count
    extended = shift_right(shift_left(a.view(np.uint32), unused).view(a.dtype), unused)
    return np.where(count > 0, extended, a.dtype.type(0))


def _find_nth_set(mask: Array, base: Array, offset: Array) -> Array:
    """One lane at a time, as the manual tells it."""
    found = np.full(len(mask), _NONE, np.uint32)
    for k, (m, start, n) in enumerate(zip(mask.tolist(), base.tolist(), offset.tolist(), strict=True)):
        if start > 31:
            continue
        if n == 0:
            found[k] = start if m >> start & 1 else _NONE
            continue
        walk = range(start, 32) if n > 0 else range(start, -1, -1)
        set_bits = [at for at in walk if m >> at & 1]
        if len(set_bits) >= abs(n):
            found[k] = set_bits[abs(n) - 1]
    return found


def _funnel(a: Array, b: Array, c: Array, left: bool, wrap: bool) -> Array:
    """The 64-bit value {b, a}, shifted; the left shift keeps the upper word, the right one the lower."""
    count = (c & np.uint32(31) if wrap else np.minimum(c, np.uint32(32))).astype(np.uint64)
    both = b.astype(np.uint64) << np.uint64(32) | a
    shifted = both << count >> np.uint64(32) if left else both >> count
    return shifted.astype(np.uint32)


def _any_logic(op: Op) -> Lanewise:
    """lop3: the union of the minterms that the table lists."""
    table = op.imm

    def of(a: Array, b: Array, c: Array) -> Array:
        result = np.zeros_like(a)
        for k in range(8):
            if table >> k & 1:
                result |= (a if k & 4 else ~a) & (b if k & 2 else ~b) & (c if k & 1 else ~c)
        return result

    return Lanewise(("b32",), ("b32", "b32", "b32"), of)


def combined(how: int, value: Array, other: Array, negated: int) -> Array:
    """``value BoolOp {!}other``; 0: the value alone."""
    other = ~other if negated else other
    return (value, value & other, value | other, value ^ other)[how]


def _of_predicates(how: int) -> Callable[[Op], Lanewise]:
    """Either operand may be negated."""

    def entry(op: Op) -> Lanewise:
        first, second = aux(op, 0), aux(op, 1)
        return Lanewise(("pred",), ("pred", "pred"), lambda a, b: combined(how, ~a if first else a, b, second))

    return entry


def _nonzero(op: Op) -> Lanewise:
    """lop3.BoolOp: (d != 0) BoolOp q."""
    return Lanewise(("pred",), ("b32", "pred"), lambda d, q: combined(aux(op, 0), d != 0, q, aux(op, 1)))


def _permute(op: Op) -> Lanewise:
    mode = aux(op, 0)
    place = np.arange(4, dtype=np.uint32)

    def selectors(c: Array) -> Array:
        n = (c & np.uint32(3))[:, None]
        if mode == 0:
            listed: Array = c[:, None] >> np.uint32(4) * place & np.uint32(15)
            return listed
        regular: Array = {
            1: n + place,  # f4e
            2: (n - place) & np.uint32(7),  # b4e
            3: n + 0 * place,  # rc8
            4: np.maximum(n, place),  # ecl
            5: np.minimum(n, place),  # ecr
            6: (n & np.uint32(1)) * np.uint32(2) + (place & np.uint32(1)),  # rc16
        }[mode]
        return regular

    def of(a: Array, b: Array, c: Array) -> Array:
        source = np.concatenate([a.view(np.uint8).reshape(-1, 4), b.view(np.uint8).reshape(-1, 4)], axis=1)
        chosen = selectors(c)
        picked = np.take_along_axis(source, (chosen & np.uint32(7)).astype(np.intp), axis=1)
        sign = np.where(picked & 0x80, np.uint8(0xFF), np.uint8(0))
        return np.ascontiguousarray(np.where(chosen & np.uint32(8), sign, picked)).reshape(-1).view(np.uint32)

    return Lanewise(("b32",), ("b32", "b32", "b32"), of)


def _define_logic() -> None:
    for w in (16, 32, 64):
        t = f"b{w}"
        define(f"and.{t}", t, f"{t} {t}", np.bitwise_and)
        define(f"or.{t}", t, f"{t} {t}", np.bitwise_or)
        define(f"xor.{t}", t, f"{t} {t}", np.bitwise_xor)
        define(f"not.{t}", t, t, np.invert)
        define(f"cnot.{t}", t, t, lambda a: (a == 0).astype(a.dtype))
        define(f"shl.{t}", t, f"{t} u32", shift_left)
    for t in INTEGERS:
        define(f"shr.{t}", t, f"{t} u32", shift_right)
    for how, name in enumerate(("and", "or", "xor"), 1):
        define_by(f"{name}.pred", _of_predicates(how))
    define_by("not.pred", lambda op: Lanewise(("pred",), ("pred",), lambda a: a if aux(op, 0) else ~a))


def _define_fields() -> None:
    for w in (32, 64):
        define(f"popc.b{w}", "b32", f"b{w}", _population)
        define(f"clz.b{w}", "b32", f"b{w}", _leading_zeros)
        define(f"brev.b{w}", f"b{w}", f"b{w}", _reversed)
        define(f"bfi.b{w}", f"b{w}", f"b{w} b{w} u32 u32", _insert)
        for t in (f"u{w}", f"s{w}"):
            define(f"bfe.{t}", t, f"{t} u32 u32", _extract)
            define(f"bfind.{t}", "b32", t, lambda a: _find(a, shift=False))
            define(f"bfind.shiftamt.{t}", "b32", t, lambda a: _find(a, shift=True))
    for mode in ("clamp", "wrap"):
        wrap = mode == "wrap"
        define(f"bmsk.{mode}", "b32", "b32 b32", lambda a, b, x=wrap: _mask(a, b, x))
        for t in ("u32", "s32"):
            define(f"szext.{mode}.{t}", t, f"{t} u32", lambda a, b, x=wrap: _sign_or_zero_extend(a, b, x))
        for way in ("l", "r"):
            left = way == "l"
            define(f"shf.{way}.{mode}", "b32", "b32 b32 u32", lambda a, b, c, x=left, y=wrap: _funnel(a, b, c, x, y))
    define("fns.b32", "b32", "b32 b32 s32", _find_nth_set)


_define_logic()
_define_fields()
define_by("lop3.b32", _any_logic)
define_by("nonzero.bool", _nonzero)
define_by("prmt.b32", _permute)
