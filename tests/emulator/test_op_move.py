# ruff: noqa: E501 - lines of PTX and of case tables read best whole
"""mov, packing, address spaces, special registers."""

from __future__ import annotations

import numpy as np
import pytest
from emulator_harness import Case, check
from test_op_integer import values

from flashgen.emulator import Module, Out


def _halves(x: int, width: int, count: int) -> tuple[int, ...]:
    return tuple(x >> (width * k) & ((1 << width) - 1) for k in range(count))


CASES = [
    *(Case(f"mov.b{w} %d, %a;", (f"b{w}",), (f"b{w}",), values(w), lambda a: a) for w in (16, 32, 64)),
    Case("mov.b32 %d, {%a, %b};", ("b16", "b16"), ("b32",), values(16, 16), lambda a, b: b << 16 | a),
    Case("mov.b64 %d, {%a, %b};", ("b32", "b32"), ("b64",), values(32, 32), lambda a, b: b << 32 | a),
    Case("mov.b64 %d, {%a, %b, %c, %e};", ("b16",) * 4, ("b64",), values(16, 16, 16, 16), lambda a, b, c, e: e << 48 | c << 32 | b << 16 | a),
    Case("mov.b32 {%d, %g}, %a;", ("b32",), ("b16", "b16"), values(32), lambda a: _halves(a, 16, 2), name="unpack 2x16"),
    Case("mov.b64 {%d, %g}, %a;", ("b64",), ("b32", "b32"), values(64), lambda a: _halves(a, 32, 2), name="unpack 2x32"),
    Case("mov.b64 {_, %d, _, %g}, %a;", ("b64",), ("b16", "b16"), values(64), lambda a: _halves(a, 16, 4)[1::2], name="unpack with sinks"),
    Case("mov.b32 %d, 0f3F800000;", ("b32",), ("b32",), values(32), lambda a: 0x3F800000, name="mov of a float literal"),
    Case("mov.f64 %d, 1.5;", ("b32",), ("b64",), values(32), lambda a: 0x3FF8000000000000, name="mov of a decimal"),
    Case("cvta.shared.u64 %d, %a; cvta.to.shared.u64 %d, %d;", ("b64",), ("b64",), values(64), lambda a: a, name="cvta there and back"),
    Case("cvta.to.global.u64 %d, %a;", ("b64",), ("b64",), values(64), lambda a: a, name="cvta.to.global"),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.label)
def test_move(case: Case) -> None:
    check(case)


def test_isspacep() -> None:
    body = """
        .shared .b32 s; .local .b32 l; .reg .pred p, q; .reg .b64 x; .reg .b32 n;
        mov.u64 x, s; cvta.shared.u64 x, x; isspacep.shared p, x; selp.u32 n, 1, 0, p;
        isspacep.local q, x; @q add.u32 n, n, 100; isspacep.global q, x; @q add.u32 n, n, 100;
        mov.u64 x, l; cvta.local.u64 x, x; isspacep.local p, x; @p add.u32 n, n, 1;
        ld.param.u64 x, [out]; isspacep.global p, x; @p add.u32 n, n, 1; isspacep.shared q, x; @q add.u32 n, n, 100;
        st.global.u32 [x], n; ret;"""
    out = np.zeros(1, np.uint32)
    Module(f".version 8.0\n.target sm_80\n.address_size 64\n.entry k(.param .u64 out) {{ {body} }}").launch(
        "k", 1, 1, [Out(out)]
    )
    assert out[0] == 3


SPECIALS = {
    "%tid.x": lambda t, b: t % 5,
    "%tid.y": lambda t, b: t // 5 % 3,
    "%tid.z": lambda t, b: t // 15,
    "%ntid.x": lambda t, b: 5,
    "%ntid.y": lambda t, b: 3,
    "%ntid.z": lambda t, b: 4,
    "%ctaid.x": lambda t, b: b % 2,
    "%ctaid.y": lambda t, b: b // 2 % 3,
    "%ctaid.z": lambda t, b: b // 6,
    "%nctaid.x": lambda t, b: 2,
    "%nctaid.y": lambda t, b: 3,
    "%nctaid.z": lambda t, b: 2,
    "%laneid": lambda t, b: t % 32,
    "%warpid": lambda t, b: t // 32,
    "%nwarpid": lambda t, b: 2,
    "%lanemask_eq": lambda t, b: 1 << t % 32,
    "%lanemask_lt": lambda t, b: (1 << t % 32) - 1,
    "%lanemask_le": lambda t, b: (2 << t % 32) - 1,
    "%lanemask_gt": lambda t, b: 0xFFFFFFFF & ~((2 << t % 32) - 1),
    "%lanemask_ge": lambda t, b: 0xFFFFFFFF & ~((1 << t % 32) - 1),
    "%dynamic_smem_size": lambda t, b: 48,
    "%clusterid.y": lambda t, b: b // 2 % 3,
    "%cluster_nctaid.x": lambda t, b: 1,
    "%cluster_ctarank": lambda t, b: 0,
}


@pytest.mark.parametrize("name", SPECIALS)
def test_special_registers(name: str) -> None:
    ptx = f"""
.version 8.0
.target sm_90
.address_size 64
.entry k(.param .u64 out)
{{
    .reg .b32 %t, %x, %n; .reg .b64 %p;
    mov.u32 %t, %ctaid.z; mov.u32 %n, %nctaid.y; mov.u32 %x, %ctaid.y; mad.lo.u32 %t, %t, %n, %x;
    mov.u32 %n, %nctaid.x; mov.u32 %x, %ctaid.x; mad.lo.u32 %t, %t, %n, %x;
    mov.u32 %n, %ntid.z; mov.u32 %x, %tid.z; mad.lo.u32 %t, %t, %n, %x;
    mov.u32 %n, %ntid.y; mov.u32 %x, %tid.y; mad.lo.u32 %t, %t, %n, %x;
    mov.u32 %n, %ntid.x; mov.u32 %x, %tid.x; mad.lo.u32 %t, %t, %n, %x;
    ld.param.u64 %p, [out];
    mad.wide.u32 %p, %t, 4, %p;
    mov.u32 %x, {name};
    st.global.u32 [%p], %x;
    ret;
}}"""
    out = np.zeros(12 * 60, np.uint32)
    Module(ptx).launch("k", (2, 3, 2), (5, 3, 4), [Out(out)], shared=48).raise_for_findings()
    assert out.tolist() == [SPECIALS[name](k % 60, k // 60) for k in range(12 * 60)]


@pytest.mark.parametrize(
    "register,kind", [("%clock", "u32"), ("%clock64", "u64"), ("%globaltimer", "u64"), ("%globaltimer_lo", "u32")]
)
def test_clocks_do_not_run_backwards(register: str, kind: str) -> None:
    ptx = f"""
.version 8.0
.target sm_80
.address_size 64
.entry k(.param .u64 out)
{{
    .reg .{kind} %a, %b; .reg .b64 %p; .reg .pred %q;
    mov.{kind} %a, {register};
    bar.sync 0;
    mov.{kind} %b, {register};
    setp.ge.{kind} %q, %b, %a;
    ld.param.u64 %p, [out];
    selp.{kind} %a, 1, 0, %q;
    st.global.{kind} [%p], %a;
    ret;
}}"""
    out = np.zeros(1, np.uint32 if kind == "u32" else np.uint64)
    Module(ptx).launch("k", 1, 1, [Out(out)]).raise_for_findings()
    assert out[0] == 1
