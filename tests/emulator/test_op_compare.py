# ruff: noqa: E501 - lines of PTX and of case tables read best whole
"""setp, set, selp, slct against relations on exact values."""

from __future__ import annotations

import operator

import pytest
from emulator_harness import Case, check
from emulator_oracle import BF16, F16, F32, F64, FORMATS, relation, signed
from test_op_float import operands
from test_op_integer import values

_INTEGER = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}
_UNSIGNED = {"lo": operator.lt, "ls": operator.le, "hi": operator.gt, "hs": operator.ge}
_FLOATING = ("eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan")


def _integers():
    for w in (16, 32, 64):
        for t in (f"u{w}", f"s{w}"):

            def read(x, t=t, w=w):
                return signed(x, w) if t[0] == "s" else x

            for name, op in _INTEGER.items():
                yield Case(
                    f"setp.{name}.{t} %d, %a, %b;",
                    (f"b{w}",) * 2,
                    ("pred",),
                    values(w, w),
                    lambda a, b, r=read, op=op: int(op(r(a), r(b))),
                )
        for name, op in _UNSIGNED.items():
            yield Case(
                f"setp.{name}.u{w} %d, %a, %b;",
                (f"b{w}",) * 2,
                ("pred",),
                values(w, w),
                lambda a, b, op=op: int(op(a, b)),
            )
        yield Case(f"setp.eq.b{w} %d, %a, %b;", (f"b{w}",) * 2, ("pred",), values(w, w), lambda a, b: int(a == b))


def _floats():
    for t, f in FORMATS.items():
        kind = f"b{f.width}"
        for name in _FLOATING:
            yield Case(
                f"setp.{name}.{t} %d, %a, %b;",
                (kind,) * 2,
                ("pred",),
                operands(f, 2),
                lambda a, b, n=name, f=f: int(relation(n, f, a, b)),
            )
        if t in ("f32", "f16"):
            for name in _FLOATING:
                yield Case(
                    f"setp.{name}.ftz.{t} %d, %a, %b;", (kind,) * 2, ("pred",), operands(f, 2),
                    lambda a, b, n=name, f=f: int(relation(n, f, f.flush(a), f.flush(b))),
                )  # fmt: skip
    for f, t in ((F16, "f16x2"), (BF16, "bf16x2")):
        columns = operands(f, 2)
        pairs = tuple([x | column[(k * 5 + 1) % len(column)] << 16 for k, x in enumerate(column)] for column in columns)
        for name in ("gt", "neu", "nan"):
            yield Case(
                f"setp.{name}.{t} %d|%g, %a, %b;", ("b32",) * 2, ("pred", "pred"), pairs,
                lambda a, b, n=name, f=f: (int(relation(n, f, a & 0xFFFF, b & 0xFFFF)), int(relation(n, f, a >> 16, b >> 16))),
            )  # fmt: skip


def _combined():
    for name, op in (("and", lambda x, c: x and c), ("or", lambda x, c: x or c), ("xor", lambda x, c: x != c)):
        for bang in ("", "!"):

            def both(a, b, c, op=op, bang=bang):
                third = bool(c) != bool(bang)
                return int(op(a < b, third)), int(op(not a < b, third))

            yield Case(
                f"setp.lt.{name}.u32 %d|%g, %a, %b, {bang}%c;", ("b32", "b32", "pred"), ("pred", "pred"),
                values(32, 32, 16, extra={2: [0, 1]}), both, f"setp.{name}{bang}",
            )  # fmt: skip
    # p is a source, too: both results come from what it was.
    yield Case(
        "mov.pred %d, %c; setp.lt.and.u32 %d|%g, %a, %b, %d;", ("b32", "b32", "pred"), ("pred", "pred"),
        values(32, 32, 16, extra={2: [0, 1]}), lambda a, b, c: (int(a < b and c), int(not a < b and c)), "setp into its source",
    )  # fmt: skip
    for name, op in (("and", operator.and_), ("or", operator.or_), ("xor", operator.xor)):
        yield Case(
            f"{name}.pred %d, %a, !%b;",
            ("pred", "pred"),
            ("pred",),
            ([0, 0, 1, 1], [0, 1, 0, 1]),
            lambda a, b, op=op: op(a, 1 - b),
        )
    yield Case("not.pred %d, %a;", ("pred",), ("pred",), ([0, 1],), lambda a: 1 - a)
    yield Case("mov.pred %d, !%a;", ("pred",), ("pred",), ([0, 1],), lambda a: 1 - a)


def _selections():
    for w in (16, 32, 64):
        yield Case(
            f"selp.b{w} %d, %a, %b, %c;", (f"b{w}", f"b{w}", "pred"), (f"b{w}",), values(w, w, 16, extra={2: [0, 1]}),
            lambda a, b, c: a if c else b,
        )  # fmt: skip
        yield Case(
            f"slct.b{w}.s32 %d, %a, %b, %c;", (f"b{w}", f"b{w}", "b32"), (f"b{w}",), values(w, w, 32),
            lambda a, b, c: a if signed(c, 32) >= 0 else b,
        )  # fmt: skip
        floats = operands(F32, 1)[0]
        for dot in ("", ".ftz"):

            def choose(a, b, c, dot=dot):
                c = F32.flush(c) if dot else c
                return a if relation("ge", F32, c, 0) else b

            columns = values(w, w)
            cs = [floats[k % len(floats)] for k in range(len(columns[0]))]
            yield Case(
                f"slct{dot}.u{w}.f32 %d, %a, %b, %c;", (f"b{w}", f"b{w}", "b32"), (f"b{w}",), (*columns, cs), choose
            )


def _sets():
    f32 = operands(F32, 2)
    yield Case(
        "set.lt.u32.f32 %d, %a, %b;",
        ("b32",) * 2,
        ("b32",),
        f32,
        lambda a, b: 0xFFFFFFFF if relation("lt", F32, a, b) else 0,
    )
    yield Case(
        "set.geu.f32.f32 %d, %a, %b;",
        ("b32",) * 2,
        ("b32",),
        f32,
        lambda a, b: 0x3F800000 if relation("geu", F32, a, b) else 0,
    )
    yield Case(
        "set.gt.and.s32.f64 %d, %a, %b, %c;", ("b64", "b64", "pred"), ("b32",), (*operands(F64, 2), [0, 1] * (len(operands(F64, 2)[0]) // 2)),
        lambda a, b, c: 0xFFFFFFFF if relation("gt", F64, a, b) and c else 0,
    )  # fmt: skip
    yield Case(
        "set.hi.u32.u32 %d, %a, %b;", ("b32",) * 2, ("b32",), values(32, 32), lambda a, b: 0xFFFFFFFF if a > b else 0
    )


CASES = [*_integers(), *_floats(), *_combined(), *_selections(), *_sets()]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.label)
def test_compare(case: Case) -> None:
    check(case)
