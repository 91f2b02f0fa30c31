"""Half precision, single and in pairs, against exact rational arithmetic, rounded once."""

from __future__ import annotations

import pytest
from emulator_harness import Case, check
from emulator_oracle import BF16, F16, F32, FORMATS, Format, add, extreme, fma, mul, saturate, sub
from test_op_float import case, operands, real, to_bits

_BINARY = {"add": add, "sub": sub, "mul": mul}


def _halves():
    for t, f in (("f16", F16), ("bf16", BF16)):
        for op in ("add", "sub", "mul"):
            yield case(f"{op}.rn.{t} %d, %a, %b;", f, 2, lambda a, b, e=_BINARY[op], f=f: e(f, a, b))
        yield case(f"fma.rn.{t} %d, %a, %b, %c;", f, 3, lambda a, b, c, f=f: fma(f, a, b, c))

        def relu(bits, f=f):
            return bits if f.is_nan(bits) or not f.negative(bits) else 0

        yield case(f"fma.rn.relu.{t} %d, %a, %b, %c;", f, 3, lambda a, b, c, f=f, relu=relu: relu(fma(f, a, b, c)))
        yield case(f"abs.{t} %d, %a;", f, 1, lambda a, f=f: a & ~f.sign)
        yield case(f"neg.{t} %d, %a;", f, 1, lambda a, f=f: a ^ f.sign)
        for larger, op in ((False, "min"), (True, "max")):
            for nan in (False, True):
                dot = ".NaN" if nan else ""
                yield case(
                    f"{op}{dot}.{t} %d, %a, %b;", f, 2, lambda a, b, f=f, g=larger, n=nan: extreme(f, a, b, g, n)
                )

                def xorsign(a, b, f=f, g=larger, n=nan):
                    return extreme(f, a & ~f.sign, b & ~f.sign, g, n) | ((a ^ b) & f.sign)

                yield case(f"{op}{dot}.xorsign.abs.{t} %d, %a, %b;", f, 2, xorsign)
    yield case("add.ftz.f16 %d, %a, %b;", F16, 2, lambda a, b: add(F16, a, b), ftz=True)
    yield case("mul.sat.f16 %d, %a, %b;", F16, 2, lambda a, b: saturate(F16, mul(F16, a, b)))
    yield case("fma.rn.ftz.sat.f16 %d, %a, %b, %c;", F16, 3, lambda a, b, c: saturate(F16, fma(F16, a, b, c)), ftz=True)
    yield from _half_pairs()


def _half_pairs():
    for t, f in (("f16x2", F16), ("bf16x2", BF16)):

        def both(g, f=f):
            def of(*bits):
                return g(f, *(b & 0xFFFF for b in bits)) | g(f, *(b >> 16 for b in bits)) << 16

            return of

        ops = [("add.rn", 2, add), ("sub.rn", 2, sub), ("mul.rn", 2, mul), ("fma.rn", 3, fma),
               ("abs", 1, lambda f, a: a & ~f.sign), ("neg", 1, lambda f, a: a ^ f.sign)]  # fmt: skip
        for larger, op in ((False, "min"), (True, "max")):
            for nan in (False, True):
                dot = ".NaN" if nan else ""
                ops.append((f"{op}{dot}", 2, lambda f, a, b, g=larger, n=nan: extreme(f, a, b, g, n)))
                ops.append((
                    f"{op}{dot}.xorsign.abs", 2,
                    lambda f, a, b, g=larger, n=nan: extreme(f, a & ~f.sign, b & ~f.sign, g, n) | ((a ^ b) & f.sign),
                ))  # fmt: skip
        for op, count, g in ops:
            columns = operands(f, count)
            pairs = tuple(
                [x | column[(k * 5 + 1) % len(column)] << 16 for k, x in enumerate(column)] for column in columns
            )
            args = ", ".join(f"%{n}" for n in "dabc"[: count + 1])
            yield Case(f"{op}.{t} {args};", ("b32",) * count, ("b32",), pairs, both(g))


CASES = [*_halves()]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.label)
def test_half(case: Case) -> None:
    check(case)


def test_every_half_converts_exactly() -> None:
    """All 65,536 bit patterns of both half formats, to float and back."""
    for name in ("f16", "bf16"):
        f = FORMATS[name]
        patterns = list(range(1 << 16))

        def widened(a: int, f: Format = f) -> int:
            return F32.nan if f.is_nan(a) else to_bits(F32, real(f, a))

        check(Case(f"cvt.f32.{name} %d, %a;", ("b16",), ("b32",), (patterns,), widened))
        back = Case(
            f".reg .f32 x; cvt.f32.{name} x, %a; cvt.rn.{name}.f32 %d, x;", ("b16",), ("b16",), (patterns,),
            lambda a, f=f: f.nan if f.is_nan(a) else a,
        )  # fmt: skip
        check(back)
