"""cvt: between integers, between floats, and from one to the other, in every rounding mode."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from flashgen.emulator.lockstep.ops.floating import canonical, flush, saturate
from flashgen.emulator.lockstep.ops.rounding import FORMATS, RNA, decode, encode, nudge, quantise
from flashgen.emulator.lockstep.ops.table import VIEWS, Array, Lanewise, aux, define, define_by
from flashgen.emulator.program.ops import Op

_CONTAINERS = ("b16", "b32", "b64")
_FLOATS = ("f16", "bf16", "f32", "f64")
_TO_INTEGER = 4  # rounding modes from here on: to an integral value
_RELU, _FINITE = 1, 2


def _widened(x: Array, kind: str) -> Array:
    """Any float as doubles."""
    return x.astype(np.float64) if kind in ("f32", "f64") else decode(x, kind)


def _narrowed(high: Array, low: Array | float, kind: str, mode: int) -> Array:
    """Doubles, rounded to a format; still as doubles."""
    if kind == "f64":
        return nudge(high, np.broadcast_to(low, high.shape), mode)
    return quantise(high, low, FORMATS[kind], mode)


def _as_register(x: Array, kind: str) -> Array:
    if kind in ("f16", "bf16"):
        return encode(x, kind)
    return canonical(x.astype(np.float32) if kind == "f32" else x)


def _integral(x: Array, mode: int) -> Array:
    return (np.rint, np.trunc, np.floor, np.ceil)[mode & 3](x)


def _finished(x: Array, kind: str, op: Op) -> Array:
    """.sat, .relu, .satfinite, and .ftz of the result."""
    finish = aux(op, 7)
    if aux(op, 6):
        return saturate(x)
    if finish & _RELU:
        x = np.where(x <= 0, 0.0, x)
    if finish & _FINITE:
        x = np.where(np.isinf(x), np.copysign(FORMATS[kind].largest, x), x)
    if aux(op, 5) and kind == "f32":
        x = np.where(np.abs(x) < 2.0**-126, np.copysign(0.0, x), x)
    return x


def _source(x: Array, kind: str, op: Op) -> Array:
    return _widened(flush(x) if kind == "f32" and aux(op, 5) else x, kind)


def _float_of_float(d: str, s: str) -> Callable[[Op], Lanewise]:
    def entry(op: Op) -> Lanewise:
        return Lanewise((d,), (s,), lambda x: _as_register(_float_to(x, d, s, op), d))

    return entry


def _float_to(x: Array, d: str, s: str, op: Op) -> Array:
    mode, value = aux(op, 4), _source(x, s, op)
    if mode >= _TO_INTEGER:
        return _finished(_integral(value, mode), d, op)
    return _finished(_narrowed(value, 0.0, d, mode), d, op)


def _cut(x: Array, width: int, signed: bool) -> Array:
    """The low bits of 64-bit integers, extended again."""
    shift = np.uint64(64 - width)
    up = x.view(np.uint64) << shift
    return (up.view(np.int64) >> shift.astype(np.int64)).view(np.uint64) if signed else up >> shift


def _integer_source(x: Array, op: Op) -> Array:
    return _cut(x.astype(np.uint64), aux(op, 0), bool(aux(op, 1)))


def _limits(op: Op) -> tuple[int, int]:
    width, signed = aux(op, 2), aux(op, 3)
    return (-(1 << (width - 1)), (1 << (width - 1)) - 1) if signed else (0, (1 << width) - 1)


def _integer_of_integer(d: str, s: str) -> Callable[[Op], Lanewise]:
    container = np.dtype(f"u{int(d[1:]) // 8}")

    def entry(op: Op) -> Lanewise:
        low, high = _limits(op)

        def of(x: Array) -> Array:
            value = _integer_source(x, op)
            if aux(op, 6):  # .sat
                if aux(op, 1):
                    signed = np.maximum(value.view(np.int64), low)
                    value = np.where(
                        signed > 0, np.minimum(signed.view(np.uint64), np.uint64(high)), signed.view(np.uint64)
                    )
                else:
                    value = np.minimum(value, np.uint64(high))
            return _cut(value, aux(op, 2), bool(aux(op, 3))).astype(container)

        return Lanewise((d,), (s,), of)

    return entry


def _integer_of_float(d: str, s: str) -> Callable[[Op], Lanewise]:
    """Out of range: the nearest number there is. NaN: 0, or the top bit alone where a 64-bit type takes part."""
    container = np.dtype(f"u{int(d[1:]) // 8}")

    def entry(op: Op) -> Lanewise:
        low, high = _limits(op)
        width, signed = aux(op, 2), bool(aux(op, 3))
        of_nan = 1 << (width - 1) if s == "f64" or width == 64 else 0

        def of(x: Array) -> Array:
            value = _integral(_source(x, s, op), aux(op, 4))
            above, below, nan = value >= float(high) + (width == 64) * 0.0, value <= float(low), np.isnan(value)
            safe = np.where(above | below | nan, 0.0, value)
            bits = safe.astype(np.int64).view(np.uint64) if signed else safe.astype(np.uint64)
            bits = np.where(above, np.uint64(high), np.where(below, np.uint64(low & (1 << 64) - 1), bits))
            return _cut(np.where(nan, np.uint64(of_nan), bits), width, signed).astype(container)

        return Lanewise((d,), (s,), of)

    return entry


def _float_of_integer(d: str, s: str) -> Callable[[Op], Lanewise]:
    def entry(op: Op) -> Lanewise:
        mode, signed = aux(op, 4) & 3, bool(aux(op, 1))

        def of(x: Array) -> Array:
            value = _integer_source(x, op)
            # Two halves of 32 bits are exact in double, and so is what their sum leaves over.
            upper = (
                (value.view(np.int64) >> 32).astype(np.float64)
                if signed
                else (value >> np.uint64(32)).astype(np.float64)
            )
            lower = (value & np.uint64(0xFFFFFFFF)).astype(np.float64)
            high = upper * 2.0**32 + lower
            low = lower - (high - upper * 2.0**32)
            return _as_register(_finished(_narrowed(high, low, d, mode), d, op), d)

        return Lanewise((d,), (s,), of)

    return entry


def _pair(kind: str) -> Callable[[Op], Lanewise]:
    """cvt.f16x2.f32 d, a, b: a becomes the high half."""

    def entry(op: Op) -> Lanewise:
        def of(a: Array, b: Array) -> Array:
            halves = [encode(_float_to(x, kind, "f32", op), kind) for x in (b, a)]
            return np.stack(halves, axis=1).reshape(-1)

        return Lanewise((f"{kind}x2",), ("f32", "f32"), of)

    return entry


def _tf32(a: Array) -> Array:
    """Ties away from zero; the register keeps 13 zero bits."""
    return canonical(quantise(a.astype(np.float64), 0.0, FORMATS["tf32"], RNA).astype(np.float32))


def _define_plain() -> None:
    """The conversions that are common enough to have names of their own."""
    for d, s in (("u64", "u32"), ("s64", "s32"), ("u32", "u64"), ("u32", "u16"), ("u16", "u32")):
        define(f"cvt.plain.{d}.{s}", d, s, lambda x, t=VIEWS[d]: x.astype(t))
    define("cvt.plain.f32.s32", "f32", "s32", lambda x: x.astype(np.float32))
    for kind in ("f16", "bf16"):
        define(f"cvt.plain.f32.{kind}", "f32", kind, lambda x, k=kind: canonical(decode(x, k).astype(np.float32)))
        define_by(f"cvt.plain.{kind}.f32", _float_of_float(kind, "f32"))
        define_by(f"cvt.plain.{kind}x2.f32", _pair(kind))
        define_by(f"cvt.pair.{kind}", _pair(kind))
    define("cvt.rna.tf32", "f32", "f32", _tf32)


_define_plain()
for _s in (*_CONTAINERS, *_FLOATS):
    for _d in _CONTAINERS:
        define_by(f"cvt.{_d}.{_s}", (_integer_of_integer if _s in _CONTAINERS else _integer_of_float)(_d, _s))
    for _d in _FLOATS:
        define_by(f"cvt.{_d}.{_s}", (_float_of_integer if _s in _CONTAINERS else _float_of_float)(_d, _s))
