# ruff: noqa: E501 - lines of PTX and of case tables read best whole
"""Counters against closed forms: instructions, lanes, traffic, sectors, bank conflicts, barriers."""

from __future__ import annotations

import json

import numpy as np
import pytest

from flashgen.emulator import In, Module, Out, Report

pytestmark = pytest.mark.usefixtures("each_executor")
_HEAD = ".version 8.7\n.target sm_100\n.address_size 64\n"


def access(kind: str, count: int, index: str, space: str, threads: int = 32) -> Report:
    """One access by each thread at element ``index`` (of the width of the whole access)."""
    size = int(kind[1:]) // 8 * count
    vector = f".v{count}" if count > 1 else ""
    letter = {8: "h", 16: "h", 32: "r", 64: "x"}[int(kind[1:])]
    regs = ", ".join(f"%{letter}1{k}" for k in range(count))
    operand = f"{{{regs}}}" if count > 1 else regs
    place = "[%x2]" if space == "global" else "[%r3]"
    text = f"""{_HEAD}
.entry k(.param .u64 data)
{{
    .reg .b16 %h<20>; .reg .b32 %r<20>; .reg .b64 %x<20>; .reg .pred %p;
    .shared .align 128 .b8 tile[65536];
    mov.u32 %r0, %tid.x; mov.u32 %r1, %r0;
    {index}
    ld.param.u64 %x1, [data]; mad.wide.u32 %x2, %r1, {size}, %x1;
    mov.u32 %r2, tile; mad.lo.u32 %r3, %r1, {size}, %r2;
    {"".join(f"mov.b{max(16, int(kind[1:]))} %{letter}1{k}, 0; " for k in range(count))}
    st.{space}{vector}.{kind} {place}, {operand};
    ret;
}}"""
    return Module(text).launch("k", 1, threads, [np.zeros(1 << 16, np.uint8)])


# index -> wavefronts and phases of 32-bit, 64-bit and 128-bit accesses
_PATTERNS = {
    "consecutive": ("", (1, 1), (2, 2), (4, 4)),
    "all the same": ("mov.u32 %r1, 5;", (1, 1), (2, 2), (4, 4)),
    "reversed": ("sub.u32 %r1, 31, %r0;", (1, 1), (2, 2), (4, 4)),
    "stride 2": ("shl.b32 %r1, %r0, 1;", (2, 1), (4, 2), (8, 4)),
    "stride 3": ("mul.lo.u32 %r1, %r0, 3;", (1, 1), (2, 2), (4, 4)),
    "stride 32": ("shl.b32 %r1, %r0, 5;", (32, 1), (32, 2), (32, 4)),
    "stride 33": ("mul.lo.u32 %r1, %r0, 33;", (1, 1), (2, 2), (4, 4)),
    "pairs": ("shr.u32 %r1, %r0, 1;", (1, 1), (2, 2), (4, 4)),
    "two rows of 16 words apart": ("and.b32 %r1, %r0, 15; shr.u32 %r4, %r0, 4; mad.lo.u32 %r1, %r4, 32, %r1;", (2, 1), (2, 2), (4, 4)),
    "swizzled columns": ("and.b32 %r4, %r0, 7; shl.b32 %r5, %r0, 3; xor.b32 %r1, %r5, %r4;", (4, 1), (4, 2), (4, 4)),
}  # fmt: skip


@pytest.mark.parametrize(
    "which,kind,count", [(1, "b32", 1), (2, "b32", 2), (2, "b64", 1), (3, "b32", 4), (3, "b64", 2)]
)
@pytest.mark.parametrize("name", _PATTERNS)
def test_bank_conflicts(name: str, which: int, kind: str, count: int) -> None:
    pattern = _PATTERNS[name]
    waves, phases = pattern[which]
    report = access(kind, count, pattern[0], "shared")
    assert (report.shared.wavefronts, report.shared.conflicts) == (waves, waves - phases), report.shared
    assert report.shared.accesses == 1 and report.shared.bytes == 32 * int(kind[1:]) // 8 * count


def test_narrow_accesses_share_a_word() -> None:
    assert access("u8", 1, "", "shared").shared.conflicts == 0
    assert access("u16", 1, "", "shared").shared.wavefronts == 1
    assert access("u16", 1, "shl.b32 %r1, %r0, 6;", "shared").shared.wavefronts == 32


def test_inactive_lanes_cause_no_conflicts() -> None:
    report = access("b32", 1, "shl.b32 %r1, %r0, 5; setp.ge.u32 %p, %r0, 3; @%p exit;", "shared")
    assert (report.shared.wavefronts, report.shared.conflicts, report.shared.bytes) == (3, 2, 12)


@pytest.mark.parametrize("index,kind,count,sectors", [
    ("", "b32", 1, 4), ("", "b32", 4, 16), ("", "u8", 1, 1), ("mov.u32 %r1, 9;", "b32", 1, 1), ("mul.lo.u32 %r1, %r0, 8;", "b32", 1, 32),
    ("add.u32 %r1, %r0, 1;", "b32", 1, 5), ("mul.lo.u32 %r1, %r0, 2;", "b64", 1, 16), ("mul.lo.u32 %r1, %r0, 16;", "b32", 4, 32),
    ("sub.u32 %r1, 31, %r0;", "b64", 1, 8), ("", "b64", 4, 32),
])  # fmt: skip
def test_sectors(index: str, kind: str, count: int, sectors: int) -> None:
    report = access(kind, count, index, "global")
    traffic = report.traffic["data"]
    assert (traffic.store_sectors, traffic.store_bytes, traffic.load_bytes) == (
        sectors,
        32 * int(kind[1:]) // 8 * count,
        0,
    )


_LOOP = f"""{_HEAD}
.file 1 "loop.cu"
.entry loop(.param .u64 in, .param .u64 out, .param .u32 n)
{{
    .reg .b32 %r<9>; .reg .f32 %f<4>; .reg .b64 %x<6>; .reg .pred %p;
    .loc 1 3 1
    mov.u32 %r0, %tid.x; mov.u32 %r1, 0; mov.f32 %f0, 0f00000000;
    ld.param.u64 %x0, [in]; ld.param.u64 %x1, [out]; ld.param.u32 %r2, [n];
    LOOP:
    .loc 1 4 1
    mad.lo.u32 %r3, %r1, 64, %r0; mad.wide.u32 %x2, %r3, 4, %x0; ld.global.f32 %f1, [%x2];
    fma.rn.f32 %f0, %f1, %f1, %f0; ex2.approx.ftz.f32 %f2, %f0;
    bar.sync 0;
    add.u32 %r1, %r1, 1; setp.lt.u32 %p, %r1, %r2; @%p bra LOOP;
    .loc 1 5 1
    mad.wide.u32 %x3, %r0, 4, %x1; st.global.f32 [%x3], %f0; ret;
}}
"""


def test_instructions_by_unit_lanes_and_barriers() -> None:
    n, threads, blocks = 10, 64, 3
    source = np.ones((n, threads), np.float32)
    out = np.zeros(threads, np.float32)
    report = Module(_LOOP).launch("loop", blocks, threads, [In(source), Out(out), n])
    report.raise_for_findings()
    warps = 2 * blocks
    assert report.instructions == {
        "int": warps * 3 * n - warps * 0 + warps * 1, "fp32": warps * n, "special": warps * n, "load.global": warps * n,
        "barrier": warps * n, "compare": warps * n, "control": warps * (n + 1), "move": warps * 3, "load.param": warps * 3,
        "store.global": warps,
    }  # fmt: skip
    assert report.warp_instructions == sum(report.instructions.values())
    assert report.barriers == blocks * n and report.lane_use == 1.0
    assert (
        report.traffic["in"].load_bytes == blocks * source.nbytes
        and report.traffic["in"].load_sectors * 32 == blocks * source.nbytes
    )
    assert report.traffic["out"].store_bytes == blocks * out.nbytes


def test_unchecked_launches_count_instructions_too() -> None:
    args = [In(np.ones((4, 64), np.float32)), Out(np.zeros(64, np.float32)), 4]
    checked = Module(_LOOP).launch("loop", 1, 64, args)
    unchecked = Module(_LOOP).launch("loop", 1, 64, args, checked=False)
    assert checked.instructions == unchecked.instructions and unchecked.traffic == {}


def test_lane_use_of_a_diverged_kernel() -> None:
    text = f"""{_HEAD}
.entry k() {{ .reg .b32 %r<3>; .reg .pred %p;
    mov.u32 %r0, %tid.x; setp.ge.u32 %p, %r0, 8; @%p bra DONE;
    {"add.u32 %r1, %r0, 1; " * 100}
    DONE: ret; }}"""
    report = Module(text).launch("k", 1, 32, [])
    assert report.warp_instructions == 104 and report.lane_use == pytest.approx((4 * 32 + 100 * 8) / (104 * 32))


def test_lines_and_json() -> None:
    n = 5
    report = Module(_LOOP, source="a\nb\nsetup\nloop body\nstore").launch(
        "loop", 1, 64, [In(np.ones((n, 64), np.float32)), Out(np.zeros(64, np.float32)), n]
    )
    by_line = {line: sum(c.executed for c in report.lines if c.site.line == line) for line in (3, 4, 5)}
    assert by_line == {3: 2 * 6, 4: 2 * 9 * n, 5: 2 * 3}
    load = next(c for c in report.lines if c.unit == "load.global")
    assert (load.sectors, load.site.source, load.site.file) == (2 * 4 * n, "loop body", "loop.cu")
    data = json.loads(report.to_json())
    assert (
        data["kernel"] == "loop"
        and data["instructions"]["fp32"] == 2 * n
        and data["traffic"]["in"]["load_bytes"] == 64 * 4 * n
    )
    assert data["findings"] == [] and data["shared"]["accesses"] == 0
