"""cvt between all types, in all rounding modes, against exact values."""

from __future__ import annotations

import math
import random
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from emulator_harness import Case, check
from emulator_oracle import F16, F32, FORMATS, Format, saturate, signed, unsigned
from test_op_float import operands

_INTEGERS = [f"{s}{w}" for w in (8, 16, 32, 64) for s in "us"]


def _register(width: int) -> int:
    return max(width, 16)


def _integer_values(width: int) -> list[int]:
    rng = random.Random(width)
    edges = {0, 1, 2, 100}
    for w in (8, 16, 32, 64):
        edges |= {
            (1 << w) - 1,
            1 << w,
            (1 << (w - 1)) - 1,
            1 << (w - 1),
            (1 << (w - 1)) + 1,
            (1 << 64) - (1 << (w - 1)),
            (1 << 64) - 1 - (1 << (w - 1)),
        }
    return [x & ((1 << width) - 1) for x in sorted(edges)] + [rng.getrandbits(width) for _ in range(64)]


def _read(bits: int, t: str) -> int:
    w = int(t[1:])
    return signed(bits, w) if t[0] == "s" else unsigned(bits, w)


def _range(t: str) -> tuple[int, int]:
    w = int(t[1:])
    return (-(1 << (w - 1)), (1 << (w - 1)) - 1) if t[0] == "s" else (0, (1 << w) - 1)


def _between_integers():
    for s in _INTEGERS:
        for d in _INTEGERS:
            sw, dw = _register(int(s[1:])), _register(int(d[1:]))

            def plain(a, s=s, d=d, dw=dw):
                return unsigned(_read(unsigned(_read(a, s), 64), d), dw)

            def clamped(a, s=s, d=d, dw=dw):
                low, high = _range(d)
                return unsigned(max(low, min(high, _read(a, s))), dw)

            yield Case(f"cvt.{d}.{s} %d, %a;", (f"b{sw}",), (f"b{dw}",), (_integer_values(sw),), plain)
            yield Case(f"cvt.sat.{d}.{s} %d, %a;", (f"b{sw}",), (f"b{dw}",), (_integer_values(sw),), clamped)
    # A byte may stand in a wider register, on either side; the result is extended by its own type.
    yield Case("cvt.u32.u8 %d, %a;", ("b32",), ("b32",), (_integer_values(32),), lambda a: a & 0xFF, "cvt u8 in b32")
    yield Case(
        "cvt.s8.s32 %d, %a;",
        ("b32",),
        ("b32",),
        (_integer_values(32),),
        lambda a: unsigned(signed(a, 8), 32),
        "cvt s8 to b32",
    )


_ROUND = {"rni": round, "rzi": math.trunc, "rmi": math.floor, "rpi": math.ceil}


def _float_values(f: Format) -> list[int]:
    rng = random.Random(f.width)
    values = list(operands(f, 1)[0])
    for power in (7, 8, 15, 16, 31, 32, 63, 64):
        for delta in (-1.5, -1, -0.5, 0, 0.5, 1):
            for sign in (1, -1):
                values.append(f.round(Fraction(sign) * (Fraction(2) ** power + Fraction(delta))))
    halves = [Fraction(k, 2) for k in range(-9, 10)]
    return values + [f.round(x) for x in halves] + [f.round(Fraction(rng.uniform(-300, 300))) for _ in range(40)]


def _to_integers():
    for s, f in FORMATS.items():
        for d in _INTEGERS:
            for mode in ("rni", "rzi", "rmi", "rpi"):
                if mode in ("rmi", "rpi") and d not in ("s32", "u8", "s64"):
                    continue
                dw = _register(int(d[1:]))

                def convert(a, f=f, d=d, dw=dw, mode=mode, s=s):
                    low, high = _range(d)
                    if f.is_nan(a):
                        return unsigned(1 << (int(d[1:]) - 1), dw) if s == "f64" or d in ("u64", "s64") else 0
                    if f.is_inf(a):
                        return unsigned(low if f.negative(a) else high, dw)
                    return unsigned(max(low, min(high, _ROUND[mode](f.value(a)))), dw)

                if s == "f64" and int(d[1:]) < 32:  # the NaN of a narrow type is extended as the type is

                    def convert(a, inner=convert, f=f, d=d, dw=dw):
                        return (
                            unsigned(
                                signed(1 << (int(d[1:]) - 1), int(d[1:])) if d[0] == "s" else 1 << (int(d[1:]) - 1), dw
                            )
                            if f.is_nan(a)
                            else inner(a)
                        )

                yield Case(f"cvt.{mode}.{d}.{s} %d, %a;", (f"b{f.width}",), (f"b{dw}",), (_float_values(f),), convert)
    yield Case("cvt.rni.ftz.s32.f32 %d, %a;", ("b32",), ("b32",), (operands(F32, 1)[0],),
               lambda a: 0 if F32.is_nan(a) else unsigned(max(-(1 << 31), min((1 << 31) - 1, 0 if F32.subnormal(a) else
               (1 << 40) * (-1 if F32.negative(a) else 1) if F32.is_inf(a) else round(F32.value(a)))), 32))  # fmt: skip


def _from_integers():
    for d, f in FORMATS.items():
        for s in _INTEGERS:
            sw = _register(int(s[1:]))
            for mode in ("rn", "rz", "rm", "rp"):
                if mode != "rn" and s not in ("s32", "u64", "s64"):
                    continue
                yield Case(
                    f"cvt.{mode}.{d}.{s} %d, %a;", (f"b{sw}",), (f"b{f.width}",), (_integer_values(sw),),
                    lambda a, f=f, s=s, mode=mode: f.round(Fraction(_read(a, s)), mode),
                )  # fmt: skip
    yield Case(
        "cvt.rn.sat.f32.s32 %d, %a;",
        ("b32",),
        ("b32",),
        (_integer_values(32),),
        lambda a: saturate(F32, F32.round(Fraction(signed(a, 32)))),
    )


def _convert(a: int, f: Format, g: Format, mode: str) -> int:
    if f.is_nan(a):
        return g.nan
    if f.is_inf(a):
        return g.infinity | (g.sign if f.negative(a) else 0)
    return g.round(f.value(a), mode, f.negative(a))


def _between_floats():
    for s, f in FORMATS.items():
        for d, g in FORMATS.items():
            if s == d:
                for mode, rounding in _ROUND.items():

                    def integral(a, f=f, rounding=rounding):
                        if f.is_nan(a):
                            return f.nan
                        return a if f.is_inf(a) else f.round(Fraction(rounding(f.value(a))), "rn", f.negative(a))

                    yield Case(
                        f"cvt.{mode}.{d}.{s} %d, %a;", (f"b{f.width}",), (f"b{f.width}",), (_float_values(f),), integral
                    )
                yield Case(
                    f"cvt.sat.{d}.{s} %d, %a;",
                    (f"b{f.width}",),
                    (f"b{f.width}",),
                    (_float_values(f),),
                    lambda a, f=f: saturate(f, a),
                )
                continue
            widens = f.mantissa_bits <= g.mantissa_bits and f.exponent_bits <= g.exponent_bits
            for mode in ("",) if widens else ("rn", "rz", "rm", "rp"):
                dot = f".{mode}" if mode else ""
                yield Case(
                    f"cvt{dot}.{d}.{s} %d, %a;", (f"b{f.width}",), (f"b{g.width}",), (_float_values(f),),
                    lambda a, f=f, g=g, mode=mode or "rn": _convert(a, f, g, mode),
                )  # fmt: skip
    for s in ("f16", "bf16"):
        yield Case(
            f"cvt.sat.f32.{s} %d, %a;", ("b16",), ("b32",), (_float_values(FORMATS[s]),),
            lambda a, f=FORMATS[s]: saturate(F32, _convert(a, f, F32, "rn")),
        )  # fmt: skip
    yield Case(
        "cvt.rn.ftz.f32.f64 %d, %a;", ("b64",), ("b32",), (operands(FORMATS["f64"], 1)[0],),
        lambda a: F32.flush(_convert(a, FORMATS["f64"], F32, "rn")),
    )  # fmt: skip


def _pairs():
    columns = operands(F32, 2, near=False)
    near = tuple([F32.round(Fraction(random.Random(k + c).uniform(-7e4, 7e4))) for k in range(200)] for c in range(2))
    values = tuple([*a, *b] for a, b in zip(columns, near, strict=True))
    for t in ("f16", "bf16"):
        g = FORMATS[t]
        for mode in ("rn", "rz"):
            for relu in ("", ".relu"):

                def one(x, g=g, mode=mode, relu=relu):
                    bits = _convert(x, F32, g, mode)
                    return 0 if relu and g.negative(bits) and not g.is_nan(bits) else bits

                yield Case(
                    f"cvt.{mode}{relu}.{t}x2.f32 %d, %a, %b;",
                    ("b32", "b32"),
                    ("b32",),
                    values,
                    lambda a, b, one=one: one(a) << 16 | one(b),
                )
        yield Case(
            f"cvt.rn.satfinite.{t}x2.f32 %d, %a, %b;", ("b32", "b32"), ("b32",), values,
            lambda a, b, g=g: _finite(a, g) << 16 | _finite(b, g), f"satfinite {t}x2",
        )  # fmt: skip

    def tf32(a):
        if F32.is_nan(a):
            return F32.nan
        return a if F32.is_inf(a) else Format(8, 10, 0).round(F32.value(a), "rna", F32.negative(a)) << 13

    yield Case("cvt.rna.tf32.f32 %d, %a;", ("b32",), ("b32",), (values[0],), tf32)
    yield Case(
        "cvt.rn.relu.f16.f32 %d, %a;", ("b32",), ("b16",), (values[0],),
        lambda a: 0 if F32.negative(a) and not F32.is_nan(a) else _convert(a, F32, F16, "rn"),
    )  # fmt: skip


def _finite(a: int, g: Format) -> int:
    bits = _convert(a, F32, g, "rn")
    return (g.infinity - 1) | (bits & g.sign) if g.is_inf(bits) else bits


_EIGHT_BITS = {"e4m3": (ml_dtypes.float8_e4m3fn, 448.0), "e5m2": (ml_dtypes.float8_e5m2, 57344.0)}


def _to_eight_bits(x: float, t: str, relu: bool) -> int:
    """ml_dtypes rounds to nearest even, too, but overflows where .satfinite gives the largest."""
    if math.isnan(x):
        return 0x7F
    dtype, largest = _EIGHT_BITS[t]
    clamped = np.float32(max(min(x, largest), 0.0 if relu else -largest))
    return 0 if relu and clamped == 0 else int(clamped.astype(dtype).view(np.uint8))


def _eight_bits():
    halves = np.arange(0, 1 << 16, 7, dtype=np.uint16)
    # Every value of the format, the middle to the next one, and a hair beside it; then anything.
    floats = [F32.nan, F32.infinity, F32.infinity | F32.sign, 0, F32.sign]
    for dtype, _ in _EIGHT_BITS.values():
        exact = np.arange(128, dtype=np.uint8).view(dtype).astype(np.float32)
        exact = np.sort(exact[np.isfinite(exact)])
        points = np.concatenate([exact, (exact[1:] + exact[:-1]) / 2])
        around = np.concatenate([points, np.nextafter(points, np.float32(1e9)), np.nextafter(points, np.float32(-1))])
        floats += np.concatenate([around, -around]).view(np.uint32).tolist()
    floats += operands(F32, 1)[0]
    for t in _EIGHT_BITS:
        for relu in ("", ".relu"):

            def from_float(bits, t=t, relu=relu):
                return _to_eight_bits(float(np.uint32(bits).view(np.float32)), t, bool(relu))

            def from_half(bits, t=t, relu=relu):
                return _to_eight_bits(float(np.uint16(bits).view(np.float16)), t, bool(relu))

            def to_half(byte, t=t, relu=relu):
                x = np.uint8(byte).view(_EIGHT_BITS[t][0]).astype(np.float16)
                return 0x7FFF if np.isnan(x) else 0 if relu and x <= 0 else int(x.view(np.uint16))

            yield Case(
                f"cvt.rn.satfinite{relu}.{t}x2.f32 %d, %a, %b;", ("b32", "b32"), ("b16",), (floats, floats[::-1]),
                lambda a, b, of=from_float: of(a) << 8 | of(b),
            )  # fmt: skip
            pairs = (halves.astype(np.uint32) << 16 | halves[::-1]).tolist()
            yield Case(
                f"cvt.rn.satfinite{relu}.{t}x2.f16x2 %d, %a;", ("b32",), ("b16",), (pairs,),
                lambda a, of=from_half: of(a >> 16) << 8 | of(a & 0xFFFF),
            )  # fmt: skip
            bytes_ = [k << 8 | (k * 37 & 255) for k in range(256)]
            yield Case(
                f"cvt.rn{relu}.f16x2.{t}x2 %d, %a;", ("b16",), ("b32",), (bytes_,),
                lambda a, of=to_half: of(a >> 8) << 16 | of(a & 255),
            )  # fmt: skip


CASES = [*_between_integers(), *_to_integers(), *_from_integers(), *_between_floats(), *_pairs(), *_eight_bits()]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.label)
def test_convert(case: Case) -> None:
    check(case)
