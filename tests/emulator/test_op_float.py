# ruff: noqa: E501 - lines of PTX and of case tables read best whole
"""Single, double and half precision against exact rational arithmetic, rounded once."""

from __future__ import annotations

import math
import random
import struct
from fractions import Fraction

import pytest
from emulator_harness import Case, check
from emulator_oracle import BF16, F16, F32, F64, Format, add, div, extreme, fma, mul, saturate, sqrt, sub

_BINARY = {"add": add, "sub": sub, "mul": mul, "div": div}


def specials(f: Format) -> list[int]:
    one, inf = f.bias << f.mantissa_bits, f.infinity
    positive = [0, 1, 2, (1 << f.mantissa_bits) - 1, 1 << f.mantissa_bits, (1 << f.mantissa_bits) + 1, one - 1, one, one + 1,
                one + (1 << f.mantissa_bits), inf - 1, inf]  # fmt: skip
    return [*positive, *(x | f.sign for x in positive), f.nan, inf | 1]


def operands(f: Format, count: int, seed: int = 0, near: bool = True) -> tuple[list[int], ...]:
    """Special values against each other, random bits, and numbers close enough to interact."""
    rng = random.Random(seed + count)
    special = specials(f)
    rows = [
        [x, y, *(rng.choice(special) for _ in range(count - 2))][:count]
        for x in special
        for y in (special if count > 1 else [0])
    ]
    rows += [[rng.getrandbits(f.width) for _ in range(count)] for _ in range(120)]
    spread = f.mantissa_bits + 4 if near else 3
    for _ in range(200):
        base = rng.randrange(2 * f.bias - spread)
        rows.append([
            rng.getrandbits(1) << (f.width - 1) | (base + rng.randrange(spread) + 1) << f.mantissa_bits | rng.getrandbits(f.mantissa_bits)
            for _ in range(count)
        ])  # fmt: skip
    return tuple(list(column) for column in zip(*rows, strict=True))


def kind(f: Format) -> str:
    return f"b{f.width}"


def case(body, f, count, formula, *, ftz=False, name="", seed=0):
    def expected(*bits):
        if ftz:
            return f.flush(formula(*(f.flush(b) for b in bits)))
        return formula(*bits)

    return Case(body, (kind(f),) * count, (kind(f),), operands(f, count, seed), expected, name)


def _rounded():
    for t, f in (("f32", F32), ("f64", F64)):
        flushes = ("", ".ftz") if t == "f32" else ("",)
        for flush in flushes:
            for op, exact in _BINARY.items():
                rounding = ".rn" if op == "div" else ""
                yield case(
                    f"{op}{rounding}{flush}.{t} %d, %a, %b;",
                    f,
                    2,
                    lambda a, b, e=exact, f=f: e(f, a, b),
                    ftz=bool(flush),
                )
                for mode in ("rz", "rm", "rp"):
                    yield case(
                        f"{op}.{mode}{flush}.{t} %d, %a, %b;",
                        f,
                        2,
                        lambda a, b, e=exact, f=f, m=mode: e(f, a, b, m),
                        ftz=bool(flush),
                    )
            for mode in ("rn", "rz", "rm", "rp"):
                yield case(
                    f"fma.{mode}{flush}.{t} %d, %a, %b, %c;",
                    f,
                    3,
                    lambda a, b, c, f=f, m=mode: fma(f, a, b, c, m),
                    ftz=bool(flush),
                )
                yield case(
                    f"sqrt.{mode}{flush}.{t} %d, %a;", f, 1, lambda a, f=f, m=mode: sqrt(f, a, m), ftz=bool(flush)
                )
                one = f.bias << f.mantissa_bits
                yield case(
                    f"rcp.{mode}{flush}.{t} %d, %a;",
                    f,
                    1,
                    lambda a, f=f, m=mode, one=one: div(f, one, a, m),
                    ftz=bool(flush),
                )
    for op in ("add", "sub", "mul"):
        yield case(f"{op}.sat.f32 %d, %a, %b;", F32, 2, lambda a, b, e=_BINARY[op]: saturate(F32, e(F32, a, b)))
    yield case("fma.rn.sat.f32 %d, %a, %b, %c;", F32, 3, lambda a, b, c: saturate(F32, fma(F32, a, b, c)))
    yield case(
        "fma.rz.ftz.sat.f32 %d, %a, %b, %c;", F32, 3, lambda a, b, c: saturate(F32, fma(F32, a, b, c, "rz")), ftz=True
    )
    yield case("mad.rn.f32 %d, %a, %b, %c;", F32, 3, lambda a, b, c: fma(F32, a, b, c))
    yield case("div.full.f32 %d, %a, %b;", F32, 2, lambda a, b: div(F32, a, b))


def _signs():
    for t, f in (("f32", F32), ("f64", F64)):
        yield case(f"abs.{t} %d, %a;", f, 1, lambda a, f=f: a & ~f.sign)
        yield case(f"neg.{t} %d, %a;", f, 1, lambda a, f=f: a ^ f.sign)
        yield case(f"copysign.{t} %d, %a, %b;", f, 2, lambda a, b, f=f: a & f.sign | b & ~f.sign)
        yield case(f"min.{t} %d, %a, %b;", f, 2, lambda a, b, f=f: extreme(f, a, b, False))
        yield case(f"max.{t} %d, %a, %b;", f, 2, lambda a, b, f=f: extreme(f, a, b, True))
        for name, test in {
            "finite": lambda a, f: not f.is_nan(a) and not f.is_inf(a),
            "infinite": lambda a, f: f.is_inf(a),
            "number": lambda a, f: not f.is_nan(a),
            "notanumber": lambda a, f: f.is_nan(a),
            "normal": lambda a, f: not (f.is_nan(a) or f.is_inf(a) or f.subnormal(a) or a & ~f.sign == 0),
            "subnormal": lambda a, f: f.subnormal(a),
        }.items():
            yield Case(
                f"testp.{name}.{t} %d, %a;",
                (kind(f),),
                ("pred",),
                operands(f, 1),
                lambda a, f=f, test=test: int(test(a, f)),
            )
    yield case("abs.ftz.f32 %d, %a;", F32, 1, lambda a: a & ~F32.sign, ftz=True)
    yield case("neg.ftz.f32 %d, %a;", F32, 1, lambda a: a ^ F32.sign, ftz=True)
    for larger, op in ((False, "min"), (True, "max")):
        for flush in (False, True):
            for nan in (False, True):
                suffix = (".ftz" if flush else "") + (".NaN" if nan else "")
                yield case(
                    f"{op}{suffix}.f32 %d, %a, %b;",
                    F32,
                    2,
                    lambda a, b, g=larger, n=nan: extreme(F32, a, b, g, n),
                    ftz=flush,
                )
                yield case(
                    f"{op}{suffix}.f32 %d, %a, %b, %c;", F32, 3,
                    lambda a, b, c, g=larger, n=nan: extreme(F32, extreme(F32, a, b, g, n), c, g, n), ftz=flush, name=f"{op}3{suffix}",
                )  # fmt: skip

                def xorsign(a, b, g=larger, n=nan):
                    size = extreme(F32, a & ~F32.sign, b & ~F32.sign, g, n)
                    return size | ((a ^ b) & F32.sign)

                yield case(f"{op}{suffix}.xorsign.abs.f32 %d, %a, %b;", F32, 2, xorsign, ftz=flush)


def _packed():
    def both(g):
        def of(*bits):
            return g(*(b & 0xFFFFFFFF for b in bits)) | g(*(b >> 32 for b in bits)) << 32

        return of

    def pairs(count):
        columns = operands(F32, count)
        return tuple([x | column[(k * 7 + 3) % len(column)] << 32 for k, x in enumerate(column)] for column in columns)

    for flush in (False, True):

        def flushed(g, flush=flush):
            return (lambda *bits: F32.flush(g(*map(F32.flush, bits)))) if flush else g

        dot = ".ftz" if flush else ""
        for op in ("add", "sub", "mul"):
            g = flushed(lambda a, b, e=_BINARY[op]: e(F32, a, b))
            yield Case(f"{op}.rn{dot}.f32x2 %d, %a, %b;", ("b64", "b64"), ("b64",), pairs(2), both(g))
        g = flushed(lambda a, b, c: fma(F32, a, b, c))
        yield Case(f"fma.rn{dot}.f32x2 %d, %a, %b, %c;", ("b64",) * 3, ("b64",), pairs(3), both(g))


def real(f: Format, bits: int) -> float:
    if f.is_nan(bits):
        return math.nan
    if f.is_inf(bits):
        return -math.inf if f.negative(bits) else math.inf
    return math.copysign(float(f.value(bits)), -1.0 if f.negative(bits) else 1.0)


def to_bits(f: Format, x: float) -> int:
    if math.isnan(x):
        return f.nan
    if math.isinf(x):
        return f.infinity | (f.sign if x < 0 else 0)
    return f.round(Fraction(x), "rn", math.copysign(1.0, x) < 0)


def _exp2(x: float) -> float:
    return math.inf if x >= 1024 else 0.0 if x < -1070 else 2.0**x


def _log2(x: float) -> float:
    return -math.inf if x == 0 else math.nan if x < 0 else x if math.isinf(x) else math.log2(x)


def _rsqrt(x: float) -> float:
    return math.copysign(math.inf, x) if x == 0 else math.nan if x < 0 else 1 / math.sqrt(x)


def _rcp(x: float) -> float:
    return math.copysign(math.inf, x) if x == 0 else 1 / x


def _root(x: float) -> float:
    return math.nan if x < 0 else math.sqrt(x)


def _trig(g):
    return lambda x: math.nan if math.isinf(x) else g(x)


_APPROXIMATE = {
    "ex2": _exp2, "lg2": _log2, "rsqrt": _rsqrt, "rcp": _rcp, "sqrt": _root,
    "sin": _trig(math.sin), "cos": _trig(math.cos), "tanh": math.tanh,
}  # fmt: skip


def _approximations():
    """Computed in double here and there: one unit in the last place is far inside the manual's bounds."""
    rng = random.Random(5)
    small = [struct.unpack("<I", struct.pack("<f", rng.uniform(-150, 150)))[0] for _ in range(300)]
    for op, g in _APPROXIMATE.items():
        for dot in ("", ".ftz"):

            def expected(a, g=g, dot=dot):
                x = math.nan if F32.is_nan(a) else real(F32, F32.flush(a) if dot else a)
                bits = to_bits(F32, x if math.isnan(x) else g(x))
                return F32.flush(bits) if dot else bits

            yield Case(
                f"{op}.approx{dot}.f32 %d, %a;", ("b32",), ("b32",), ([*operands(F32, 1)[0], *small],), expected, ulps=1
            )
    for t, f in (("f16", F16), ("bf16", BF16)):
        for op in ("ex2", "tanh"):

            def half(a, f=f, g=_APPROXIMATE[op]):
                return f.nan if f.is_nan(a) else to_bits(f, g(real(f, a)))

            column = operands(f, 1)[0]
            yield Case(f"{op}.approx.{t} %d, %a;", ("b16",), ("b16",), (column,), half)
            pairs = [x | column[(k * 5 + 1) % len(column)] << 16 for k, x in enumerate(column)]
            yield Case(
                f"{op}.approx.{t}x2 %d, %a;",
                ("b32",),
                ("b32",),
                (pairs,),
                lambda a, h=half: h(a & 0xFFFF) | h(a >> 16) << 16,
            )


def _double_seeds():
    def high(bits: int) -> int:
        return bits & ~0xFFFFFFFF

    for op, g in (("rcp", _rcp), ("rsqrt", _rsqrt)):

        def expected(a, g=g):
            x = F64.flush(high(a))
            return high(F64.nan if F64.is_nan(x) else high(F64.flush(to_bits(F64, g(real(F64, x))))))

        yield Case(
            f"{op}.approx.ftz.f64 %d, %a; and.b64 %d, %d, 0x7fffffffffffffff;", ("b64",), ("b64",), (_finite_doubles(),),
            lambda a, e=expected: e(a) & ~F64.sign, ulps=1 << 32,
        )  # fmt: skip
    yield Case(
        "rsqrt.approx.f64 %d, %a;", ("b64",), ("b64",), ([x & ~F64.sign for x in _finite_doubles()],),
        lambda a: to_bits(F64, _rsqrt(real(F64, a))), ulps=1,
    )  # fmt: skip


def _finite_doubles() -> list[int]:
    return [x for x in operands(F64, 1)[0] if not F64.is_nan(x) and not (F64.negative(x) and x != F64.sign)]


def _div_approx():
    def expected(a, b):
        size = b & ~F32.sign
        sign = (a ^ b) & F32.sign
        if F32.is_nan(a) or F32.is_nan(b):
            return F32.nan
        if 0x7E800000 < size < F32.infinity:  # the manual: a/b is 0 (or NaN if a is infinite) beyond 2^126
            return F32.nan if F32.is_inf(a) else sign
        return div(F32, a, b)

    yield case("div.approx.f32 %d, %a, %b;", F32, 2, expected)
    yield case("div.approx.ftz.f32 %d, %a, %b;", F32, 2, expected, ftz=True)


CASES = [*_rounded(), *_signs(), *_packed(), *_approximations(), *_double_seeds(), *_div_approx()]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.label)
def test_float(case: Case) -> None:
    check(case)
