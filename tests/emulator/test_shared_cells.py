# ruff: noqa: E501 - lines of PTX read best whole
"""Wide and narrow accesses to the same shared memory: what is remembered of 16 bytes, and of parts of them."""

from __future__ import annotations

import numpy as np
import pytest

from flashgen.emulator import Module, Out, Report, Schedule

_ORDERS = ("round_robin", "reverse", "random")


def run(
    first: str, second: str, between: str = "", *, threads: int = 64, before: str = "", order: str = "round_robin"
) -> Report:
    """%t: thread, %s: a place of 16 bytes; warp 0 runs ``first``, warp 1 ``second``, all of them the rest."""
    text = f"""
.version 8.0
.target sm_80
.address_size 64
.entry k(.param .u64 out)
{{
    .reg .b16 %h; .reg .b32 %t, %s, %v<4>, %w<4>; .reg .b64 %x; .reg .pred %p, %q;
    .shared .align 16 .b8 tile[64];
    mov.u32 %t, %tid.x; mov.u32 %s, tile; mov.u16 %h, 7;
    mov.u32 %v0, %t; mov.u32 %v1, %t; mov.u32 %v2, %t; mov.u32 %v3, %t;
    setp.eq.u32 %q, %t, 0; @%q st.shared.v4.b32 [%s], {{%v0, %v1, %v2, %v3}};
    {before}
    bar.sync 0;
    and.b32 %v3, %t, 31; setp.ne.u32 %p, %v3, 0; @%p bra REST;
    add.u32 %v0, %t, 100; add.u32 %v1, %t, 101; add.u32 %v2, %t, 102; add.u32 %v3, %t, 103;
    setp.ne.u32 %p, %t, 0; @%p bra SECOND;
    {first}
    bra REST;
    SECOND: {second}
    REST: {between}
    ld.param.u64 %x, [out]; mad.wide.u32 %x, %t, 4, %x; st.global.b32 [%x], %v0;
    ret;
}}"""
    return Module(text).launch(
        "k", 1, threads, [Out(np.zeros(threads, np.uint32))], schedule=Schedule(warps=order, seed=3)
    )


_WIDE_WRITE = "st.shared.v4.b32 [%s], {%v0, %v1, %v2, %v3};"
_WIDE_READ = "ld.shared.v4.b32 {%w0, %w1, %w2, %w3}, [%s];"
_LOW_WRITE = "st.shared.b32 [%s], %v0;"
_HIGH_WRITE = "st.shared.v2.b32 [%s+8], {%v0, %v1};"
_BYTE_WRITE = "st.shared.u8 [%s+15], %v0;"
_LOW_READ = "ld.shared.b32 %w0, [%s];"
_HIGH_READ = "ld.shared.v2.b32 {%w0, %w1}, [%s+8];"

_PAIRS = [
    (_WIDE_WRITE, _WIDE_READ, True), (_WIDE_WRITE, _LOW_READ, True), (_WIDE_WRITE, _HIGH_WRITE, True),
    (_LOW_WRITE, _WIDE_READ, True), (_LOW_WRITE, _HIGH_READ, False), (_LOW_WRITE, _LOW_READ, True),
    (_LOW_WRITE, _HIGH_WRITE, False), (_LOW_READ, _HIGH_WRITE, False), (_LOW_READ, _WIDE_WRITE, True),
    (_WIDE_READ, _WIDE_READ, False), (_WIDE_READ, _LOW_WRITE, True), (_HIGH_READ, _BYTE_WRITE, True),
    (_LOW_READ, _BYTE_WRITE, False), (_BYTE_WRITE, _WIDE_WRITE, True), (_BYTE_WRITE, _HIGH_WRITE, True),
]  # fmt: skip


@pytest.mark.parametrize("order", _ORDERS)
@pytest.mark.parametrize("swap", [False, True])
@pytest.mark.parametrize("first,second,races", _PAIRS)
def test_two_warps_race_where_their_bytes_meet(first: str, second: str, races: bool, swap: bool, order: str) -> None:
    report = run(*((second, first) if swap else (first, second)), order=order)
    assert {f.kind for f in report.findings} == ({"race"} if races else set()), str(report)


@pytest.mark.parametrize("order", _ORDERS)
def test_parts_become_one_again_and_are_divided_again(order: str) -> None:
    """Round after round with barriers between, one after the other as it comes."""
    rounds = [
        _LOW_WRITE,
        _WIDE_READ,
        _WIDE_WRITE,
        _WIDE_READ,
        _HIGH_WRITE,
        _LOW_READ,
        _BYTE_WRITE,
        _WIDE_WRITE,
        _LOW_WRITE,
    ]
    steps = [f"setp.eq.u32 %p, %t, {32 * (k % 2)}; @%p {access} bar.sync 0;" for k, access in enumerate(rounds)]
    assert run("", "", " ".join(steps), order=order).ok
    for missing in (0, 1, 2, 3, 6, 7):  # the barrier between two accesses that meet
        broken = [step.replace("bar.sync 0;", "") if k == missing else step for k, step in enumerate(steps)]
        assert run("", "", " ".join(broken), order=order).of_kind("race"), (missing, order)


def test_parts_that_nobody_wrote_stay_unwritten() -> None:
    report = run(
        "st.shared.b32 [%s+16], %v0;", "", "bar.sync 0; setp.eq.u32 %p, %t, 0; @%p ld.shared.b32 %v0, [%s+16];"
    )
    assert report.ok
    for read in ("ld.shared.b32 %v0, [%s+20];", "ld.shared.v4.b32 {%v0, %v1, %v2, %v3}, [%s+16];"):
        report = run("st.shared.b32 [%s+16], %v0;", "", f"bar.sync 0; setp.eq.u32 %p, %t, 0; @%p {read}")
        assert [f.kind for f in report.findings] == ["uninitialised-read"]


@pytest.mark.parametrize("order", _ORDERS)
def test_each_reader_of_a_part_is_remembered(order: str) -> None:
    """With named barriers: warp 0's read of the whole is ordered before warp 2's write of a part, warp 1's is not."""

    def go(second: str) -> Report:
        return run(
            _WIDE_READ, _WIDE_READ,
            f"""setp.lt.u32 %p, %t, 32; @%p bar.arrive 1, {"96" if second else "64"}; setp.ge.u32 %q, %t, 32; setp.lt.and.u32 %q, %t, 64, %q; {second}
            setp.ge.u32 %p, %t, 64; @!%p bra END; bar.sync 1, {"96" if second else "64"}; setp.eq.u32 %p, %t, 64; @%p st.shared.u16 [%s+4], %h; END:""",
            threads=96, order=order,
        )  # fmt: skip

    # Threads 32 and 64 both run the second part: thread 64 reads too, and orders itself.
    assert go("").of_kind("race") and go("@%q bar.arrive 1, 96;").ok


_PARTS = """
    setp.lt.u32 %p, %t, 32; @!%p bra OTHER;
    {write}
    bar.warp.sync -1;
    {read}
    OTHER: {between}
    setp.eq.u32 %p, %t, 32; @%p ld.shared.b32 %v0, [%s+{offset}];"""


@pytest.mark.parametrize("order", _ORDERS)
def test_what_a_warp_shares_is_still_not_another_warps(order: str) -> None:
    """Lanes 0 to 3 write a part each and read the whole behind a warp barrier; another warp reads a part."""
    write = "setp.lt.u32 %q, %t, 4; mad.lo.u32 %v2, %t, 4, %s; @%q st.shared.b32 [%v2], %t;"
    for between, races in (("", True), ("bar.sync 0;", False)):
        body = _PARTS.format(write=write, read=_WIDE_READ, between=between, offset=4)
        report = run("", "", body, order=order)
        assert {f.kind for f in report.findings} == ({"race"} if races else set()), str(report)
    unsynced = _PARTS.format(write=write, read=_WIDE_READ, between="bar.sync 0;", offset=4).replace(
        "bar.warp.sync -1;", ""
    )
    assert run("", "", unsynced, order=order).of_kind("race")


@pytest.mark.parametrize("order", _ORDERS)
@pytest.mark.parametrize("offset,races", [(0, True), (4, False), (8, False), (12, False)])
def test_parts_of_different_age_stay_apart(offset: int, races: bool, order: str) -> None:
    """The first part is written again, the others are in everyone's past: who reads those does not race."""
    write = "setp.eq.u32 %q, %t, 0; @%q st.shared.b32 [%s], %v3;"
    report = run("", "", _PARTS.format(write=write, read=_WIDE_READ, between="", offset=offset), order=order)
    assert {f.kind for f in report.findings} == ({"race"} if races else set()), str(report)
