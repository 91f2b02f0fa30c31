# ruff: noqa: E501 - lines of PTX and of case tables read best whole
"""Every integer opcode against a formula on Python's integers, with the PTX manual's edge cases."""

from __future__ import annotations

import random

import pytest
from emulator_harness import Case, check
from emulator_oracle import signed, unsigned

_EDGES = {
    16: [0, 1, 2, 0x7FFE, 0x7FFF, 0x8000, 0x8001, 0xFFFE, 0xFFFF, 0x00FF, 0xFF00, 0x5555],
    32: [0, 1, 2, 31, 32, 33, 0x7FFFFFFF, 0x80000000, 0x80000001, 0xFFFFFFFE, 0xFFFFFFFF, 0x00FFFFFF, 0xFF000000],
    64: [0, 1, 2, 63, 64, (1 << 63) - 1, 1 << 63, (1 << 63) + 1, (1 << 64) - 2, (1 << 64) - 1, 0xFFFFFFFF, 1 << 32],
}


def values(*widths: int, extra: dict[int, list[int]] | None = None) -> tuple[list[int], ...]:
    """All pairs of edge cases of the first two operands, then random bits."""
    rng = random.Random(sum(widths) * 7 + len(widths))
    edges = [(extra or {}).get(k, _EDGES[width]) for k, width in enumerate(widths)]
    second = edges[1] if len(edges) > 1 else [0]
    rows = [[x, y, *(rng.choice(e) for e in edges[2:])][: len(widths)] for x in edges[0] for y in second]
    for _ in range(96):
        rows.append(
            [
                rng.choice(e) if (extra or {}).get(k) else rng.getrandbits(w)
                for k, (w, e) in enumerate(zip(widths, edges, strict=True))
            ]
        )
    return tuple(list(column) for column in zip(*rows, strict=True))


def _typed(name: str) -> tuple[int, bool]:
    return int(name[1:]), name[0] == "s"


def _read(bits: int, name: str) -> int:
    width, is_signed = _typed(name)
    return signed(bits, width) if is_signed else bits


def _case(body, types, result_width, formula, extra=None, name=""):
    widths = [int("".join(c for c in t if c.isdigit())) for t in types]
    return Case(
        body, tuple(f"b{w}" for w in widths), (f"b{result_width}",), values(*widths, extra=extra),
        lambda *bits: unsigned(formula(*(_read(b, t) for b, t in zip(bits, types, strict=True))), result_width), name,
    )  # fmt: skip


def _trunc_div(a: int, b: int) -> int:
    q = abs(a) // abs(b)
    return -q if (a < 0) != (b < 0) else q


def _clamp(x: int, width: int = 32) -> int:
    return max(-(1 << (width - 1)), min((1 << (width - 1)) - 1, x))


def _arithmetic():
    for t in ("u16", "s16", "u32", "s32", "u64", "s64"):
        w, _ = _typed(t)
        two, three = (t, t), (t, t, t)
        yield _case(f"add.{t} %d, %a, %b;", two, w, lambda a, b: a + b)
        yield _case(f"sub.{t} %d, %a, %b;", two, w, lambda a, b: a - b)
        yield _case(f"mul.lo.{t} %d, %a, %b;", two, w, lambda a, b: a * b)
        yield _case(f"mul.hi.{t} %d, %a, %b;", two, w, lambda a, b, w=w: (a * b) >> w)
        yield _case(f"mad.lo.{t} %d, %a, %b, %c;", three, w, lambda a, b, c: a * b + c)
        yield _case(f"mad.hi.{t} %d, %a, %b, %c;", three, w, lambda a, b, c, w=w: ((a * b) >> w) + c)
        yield _case(f"min.{t} %d, %a, %b;", two, w, min)
        yield _case(f"max.{t} %d, %a, %b;", two, w, max)
        yield _case(f"sad.{t} %d, %a, %b, %c;", three, w, lambda a, b, c: c + abs(a - b))
        # Division by zero: all ones, and the dividend as the remainder.
        yield _case(f"div.{t} %d, %a, %b;", two, w, lambda a, b: _trunc_div(a, b) if b else -1)
        yield _case(f"rem.{t} %d, %a, %b;", two, w, lambda a, b: a - b * _trunc_div(a, b) if b else a)
        yield _case(
            f"shr.{t} %d, %a, %b;",
            (t, "u32"),
            w,
            lambda a, b: a >> min(b, 64),
            {1: [0, 1, w - 1, w, w + 1, 255, 0xFFFFFFFF]},
        )
        if t[0] == "s":
            yield _case(f"abs.{t} %d, %a;", (t,), w, abs)
            yield _case(f"neg.{t} %d, %a;", (t,), w, lambda a: -a)
        if w < 64:
            wide = 2 * w
            yield _case(f"mul.wide.{t} %d, %a, %b;", two, wide, lambda a, b: a * b)
            yield _case(f"mad.wide.{t} %d, %a, %b, %c;", (t, t, f"{t[0]}{wide}"), wide, lambda a, b, c: a * b + c)
    yield _case("add.sat.s32 %d, %a, %b;", ("s32", "s32"), 32, lambda a, b: _clamp(a + b))
    yield _case("sub.sat.s32 %d, %a, %b;", ("s32", "s32"), 32, lambda a, b: _clamp(a - b))
    yield _case("mad.hi.sat.s32 %d, %a, %b, %c;", ("s32",) * 3, 32, lambda a, b, c: _clamp(((a * b) >> 32) + c))
    yield _case("min.relu.s32 %d, %a, %b;", ("s32", "s32"), 32, lambda a, b: max(min(a, b), 0))
    yield _case("max.relu.s32 %d, %a, %b;", ("s32", "s32"), 32, lambda a, b: max(a, b, 0))


def _mul24():
    for t in ("u32", "s32"):

        def cut(x, t=t):
            return signed(x, 24) if t == "s32" else x & 0xFFFFFF

        yield _case(f"mul24.lo.{t} %d, %a, %b;", (t, t), 32, lambda a, b, cut=cut: cut(a) * cut(b))
        yield _case(f"mul24.hi.{t} %d, %a, %b;", (t, t), 32, lambda a, b, cut=cut: (cut(a) * cut(b)) >> 16)
        yield _case(f"mad24.lo.{t} %d, %a, %b, %c;", (t, t, t), 32, lambda a, b, c, cut=cut: cut(a) * cut(b) + c)
        yield _case(
            f"mad24.hi.{t} %d, %a, %b, %c;", (t, t, t), 32, lambda a, b, c, cut=cut: ((cut(a) * cut(b)) >> 16) + c
        )
    yield _case(
        "mad24.hi.sat.s32 %d, %a, %b, %c;", ("s32",) * 3, 32,
        lambda a, b, c: _clamp(signed((signed(a, 24) * signed(b, 24)) >> 16, 32) + c),
    )  # fmt: skip


def _pairs():
    def both(f, is_signed):
        def of(a, b):
            read = (lambda x: signed(x, 16)) if is_signed else (lambda x: x & 0xFFFF)
            return unsigned(f(read(a), read(b)), 16) | unsigned(f(read(a >> 16), read(b >> 16)), 16) << 16

        return of

    for op, f in (("add", lambda a, b: a + b), ("min", min), ("max", max)):
        for t in ("u16x2", "s16x2"):
            yield _case(f"{op}.{t} %d, %a, %b;", ("u32", "u32"), 32, both(f, t[0] == "s"))
    yield _case("min.s16x2.relu %d, %a, %b;", ("u32", "u32"), 32, both(lambda a, b: max(min(a, b), 0), True))
    yield _case("max.relu.s16x2 %d, %a, %b;", ("u32", "u32"), 32, both(lambda a, b: max(a, b, 0), True))
    yield _case("sub.u16x2 %d, %a, %b;", ("u32", "u32"), 32, both(lambda a, b: a - b, False))


def _dots():
    def byte(x, k, is_signed):
        return signed(x >> 8 * k, 8) if is_signed else x >> 8 * k & 0xFF

    def half(x, k, is_signed):
        return signed(x >> 16 * k, 16) if is_signed else x >> 16 * k & 0xFFFF

    for ta in ("u32", "s32"):
        for tb in ("u32", "s32"):
            sa, sb = ta == "s32", tb == "s32"
            yield _case(
                f"dp4a.{ta}.{tb} %d, %a, %b, %c;", ("u32",) * 3, 32,
                lambda a, b, c, sa=sa, sb=sb: c + sum(byte(a, k, sa) * byte(b, k, sb) for k in range(4)),
            )  # fmt: skip
            for part, skip in (("lo", 0), ("hi", 2)):
                yield _case(
                    f"dp2a.{part}.{ta}.{tb} %d, %a, %b, %c;", ("u32",) * 3, 32,
                    lambda a, b, c, sa=sa, sb=sb, skip=skip: c + sum(half(a, k, sa) * byte(b, k + skip, sb) for k in range(2)),
                )  # fmt: skip


def _carries():
    """Two-word arithmetic: the low words make a carry, the high words take it."""
    for w in (32, 64):
        whole = 1 << w

        def wide(f, w=w, whole=whole):
            def of(a, b, c, e):
                total = f(a | b << w, c | e << w)
                return total % whole, (total >> w) % whole

            return of

        kinds, outs = (f"b{w}",) * 4, (f"b{w}",) * 2
        vals = values(w, w, w, w)
        yield Case(
            f"add.cc.u{w} %d, %a, %c; addc.u{w} %g, %b, %e;", kinds, outs, vals, wide(lambda x, y: x + y), f"addc{w}"
        )
        yield Case(
            f"sub.cc.s{w} %d, %a, %c; subc.s{w} %g, %b, %e;", kinds, outs, vals, wide(lambda x, y: x - y), f"subc{w}"
        )
        # The carry goes through a middle word and back out.
        yield Case(
            f"add.cc.u{w} %d, %a, %c; addc.cc.u{w} %g, %b, %e; addc.u{w} %d, 0, 0; sub.cc.u{w} %a, %a, %b; subc.cc.u{w} %g, %c, %e;"
            f" subc.u{w} %g, 0, 0;",
            kinds, outs, vals,
            lambda a, b, c, e, w=w: ((a + (b << w) + c + (e << w)) >> 2 * w, unsigned((a + (c << w) - b - (e << w)) >> 2 * w, w)),
            f"carry out {w}",
        )  # fmt: skip
        yield Case(
            f"mad.lo.cc.u{w} %d, %a, %b, %c; madc.hi.u{w} %g, %a, %b, %e;", kinds, outs, vals,
            lambda a, b, c, e, w=w: (unsigned(a * b + c, w), unsigned((a * b + c + (e << w)) >> w, w)), f"madc{w}",
        )  # fmt: skip
        yield Case(
            f"mad.lo.cc.s{w} %d, %a, %b, %c; madc.hi.cc.s{w} %g, %a, %b, %e; madc.lo.s{w} %g, %a, 1, %g; mad.hi.cc.s{w} %d, %a, %b, %d;",
            kinds, outs, vals, lambda *x, w=w: _signed_mad(*x, w=w), f"madc.s{w}",
        )  # fmt: skip


def _signed_mad(a: int, b: int, c: int, e: int, w: int) -> tuple[int, int]:
    low = unsigned(a * b, w) + c
    high = unsigned((signed(a, w) * signed(b, w)) >> w, w)
    upper = high + e + (low >> w)
    g = unsigned(a + unsigned(upper, w) + (upper >> w), w)
    return unsigned(high + low, w), g


def _logic():
    for w in (16, 32, 64):
        t = (f"u{w}", f"u{w}")
        yield _case(f"and.b{w} %d, %a, %b;", t, w, lambda a, b: a & b)
        yield _case(f"or.b{w} %d, %a, %b;", t, w, lambda a, b: a | b)
        yield _case(f"xor.b{w} %d, %a, %b;", t, w, lambda a, b: a ^ b)
        yield _case(f"not.b{w} %d, %a;", t[:1], w, lambda a: ~a)
        yield _case(f"cnot.b{w} %d, %a;", t[:1], w, lambda a: int(a == 0))
        amounts = {1: [0, 1, 7, w - 1, w, w + 1, 63, 64, 0x80000000, 0xFFFFFFFF]}
        yield _case(f"shl.b{w} %d, %a, %b;", (f"u{w}", "u32"), w, lambda a, b, w=w: a << b if b < w else 0, amounts)
        yield _case(f"shr.b{w} %d, %a, %b;", (f"u{w}", "u32"), w, lambda a, b, w=w: a >> b if b < w else 0, amounts)
    amounts = {2: [0, 1, 16, 31, 32, 33, 64, 0xFFFFFFFF]}
    kinds = ("u32",) * 3
    yield _case("shf.l.wrap.b32 %d, %a, %b, %c;", kinds, 32, lambda a, b, c: ((b << 32 | a) << (c & 31)) >> 32, amounts)
    yield _case(
        "shf.l.clamp.b32 %d, %a, %b, %c;", kinds, 32, lambda a, b, c: ((b << 32 | a) << min(c, 32)) >> 32, amounts
    )
    yield _case("shf.r.wrap.b32 %d, %a, %b, %c;", kinds, 32, lambda a, b, c: (b << 32 | a) >> (c & 31), amounts)
    yield _case("shf.r.clamp.b32 %d, %a, %b, %c;", kinds, 32, lambda a, b, c: (b << 32 | a) >> min(c, 32), amounts)
    for table in (0x00, 0x80, 0xFE, 0x96, 0x1B, 0xCA, 0xFF):

        def lop(a, b, c, table=table):
            return sum((table >> ((a >> k & 1) << 2 | (b >> k & 1) << 1 | c >> k & 1) & 1) << k for k in range(32))

        yield _case(f"lop3.b32 %d, %a, %b, %c, {table};", kinds, 32, lop, name=f"lop3 {table:#x}")
    for op, f in (("and", lambda x, q: x and q), ("or", lambda x, q: x or q), ("xor", lambda x, q: x != q)):
        yield Case(
            f".reg .pred q, p; setp.ne.u32 q, %c, 0; lop3.{op}.b32 %d|p, %a, %b, 0, 0xC0, !q; selp.u32 %g, 1, 0, p;",
            ("b32",) * 3, ("b32", "b32"), values(32, 32, 32, extra={2: [0, 1]}),
            lambda a, b, c, f=f: (a & b, int(f((a & b) != 0, c == 0))), f"lop3.{op}",
        )  # fmt: skip


def _bit_fields():
    def bfe(a, b, c, w, is_signed):
        pos, length = b & 0xFF, c & 0xFF
        a = unsigned(a, w)
        sign = a >> min(pos + length - 1, w - 1) & 1 if is_signed and length else 0
        return sum((a >> (pos + k) & 1 if k < length and pos + k < w else sign) << k for k in range(w))

    def bfi(a, b, c, d, w):
        pos, length = c & 0xFF, d & 0xFF
        for k in range(length):
            if pos + k < w:
                b = b & ~(1 << (pos + k)) | (a >> k & 1) << (pos + k)
        return b

    for w in (32, 64):
        amounts = [0, 1, 8, 31, 32, 33, 63, 64, 200, 0x100, 0x105]
        for t in (f"u{w}", f"s{w}"):
            yield _case(
                f"bfe.{t} %d, %a, %b, %c;", (t, "u32", "u32"), w,
                lambda a, b, c, w=w, t=t: bfe(a, b, c, w, t[0] == "s"), {1: amounts, 2: amounts},
            )  # fmt: skip

            def top(a, w=w, t=t):
                return unsigned(~a if a < 0 else a, w).bit_length() - 1

            yield _case(f"bfind.{t} %d, %a;", (t,), 32, top)
            yield _case(
                f"bfind.shiftamt.{t} %d, %a;", (t,), 32, lambda a, w=w, top=top: w - 1 - top(a) if top(a) >= 0 else -1
            )
        yield Case(
            f"bfi.b{w} %d, %a, %b, %c, %e;", (f"b{w}", f"b{w}", "b32", "b32"), (f"b{w}",),
            values(w, w, 32, 32, extra={2: amounts, 3: amounts}), lambda a, b, c, d, w=w: bfi(a, b, c, d, w),
        )  # fmt: skip
        yield _case(f"popc.b{w} %d, %a;", (f"u{w}",), 32, lambda a: a.bit_count())
        yield _case(f"clz.b{w} %d, %a;", (f"u{w}",), 32, lambda a, w=w: w - a.bit_length())
        yield _case(f"brev.b{w} %d, %a;", (f"u{w}",), w, lambda a, w=w: int(f"{a:0{w}b}"[::-1], 2))
    amounts = {0: [0, 1, 8, 31, 32, 33, 0xFFFFFFFF], 1: [0, 1, 8, 31, 32, 33, 0xFFFFFFFF]}
    yield _case(
        "bmsk.clamp.b32 %d, %a, %b;", ("u32", "u32"), 32, lambda a, b: ((1 << min(b, 32)) - 1) << min(a, 32), amounts
    )
    yield _case(
        "bmsk.wrap.b32 %d, %a, %b;", ("u32", "u32"), 32, lambda a, b: ((1 << (b & 31)) - 1) << (a & 31), amounts
    )
    amounts = {1: amounts[1]}
    for t in ("u32", "s32"):

        def extend(a, n, t=t):
            a = unsigned(a, 32)
            if n >= 32:
                return a
            return 0 if n == 0 else signed(a, n) if t == "s32" else a & ((1 << n) - 1)

        yield _case(f"szext.clamp.{t} %d, %a, %b;", (t, "u32"), 32, extend, amounts)
        yield _case(
            f"szext.wrap.{t} %d, %a, %b;", (t, "u32"), 32, lambda a, b, extend=extend: extend(a, b & 31), amounts
        )

    def fns(mask, base, n):
        if base > 31:
            return -1
        if n == 0:
            return base if mask >> base & 1 else -1
        order = range(base, 32) if n > 0 else range(base, -1, -1)
        found = [k for k in order if mask >> k & 1]
        return found[abs(n) - 1] if abs(n) <= len(found) else -1

    yield _case(
        "fns.b32 %d, %a, %b, %c;",
        ("u32", "u32", "s32"),
        32,
        fns,
        {1: [0, 3, 16, 31, 32], 2: [0, 1, 2, 5, 40, 0xFFFFFFFF, 0xFFFFFFFD]},
    )


def _permute():
    def default(a, b, c):
        out = 0
        for k in range(4):
            pick = c >> 4 * k & 0xF
            byte = (b << 32 | a) >> 8 * (pick & 7) & 0xFF
            out |= ((0xFF if byte >> 7 else 0) if pick & 8 else byte) << 8 * k
        return out

    # Rows of the manual's tables, most significant byte first.
    tables = {
        "f4e": ((3, 2, 1, 0), (4, 3, 2, 1), (5, 4, 3, 2), (6, 5, 4, 3)),
        "b4e": ((5, 6, 7, 0), (6, 7, 0, 1), (7, 0, 1, 2), (0, 1, 2, 3)),
        "rc8": ((0, 0, 0, 0), (1, 1, 1, 1), (2, 2, 2, 2), (3, 3, 3, 3)),
        "ecl": ((3, 2, 1, 0), (3, 2, 1, 1), (3, 2, 2, 2), (3, 3, 3, 3)),
        "ecr": ((0, 0, 0, 0), (1, 1, 1, 0), (2, 2, 1, 0), (3, 2, 1, 0)),
        "rc16": ((1, 0, 1, 0), (3, 2, 3, 2), (1, 0, 1, 0), (3, 2, 3, 2)),
    }
    yield _case("prmt.b32 %d, %a, %b, %c;", ("u32",) * 3, 32, default)
    for mode, rows in tables.items():

        def table(a, b, c, rows=rows):
            return int.from_bytes(bytes((b << 32 | a) >> 8 * pick & 0xFF for pick in rows[c & 3]), "big")

        yield _case(f"prmt.b32.{mode} %d, %a, %b, %c;", ("u32",) * 3, 32, table, {2: [0, 1, 2, 3, 4, 7]})


CASES = [*_arithmetic(), *_mul24(), *_pairs(), *_dots(), *_carries(), *_logic(), *_bit_fields(), *_permute()]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.label)
def test_integer(case: Case) -> None:
    check(case)
