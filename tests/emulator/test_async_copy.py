# ruff: noqa: E501 - lines of PTX and of case tables read best whole
"""cp.async: sizes, zero fill, groups; and everything that may go wrong between a copy and its wait."""

from __future__ import annotations

import numpy as np
import pytest

from flashgen.emulator import In, InOut, Module, Out, PtxError, Report, Schedule, Scratch

pytestmark = pytest.mark.usefixtures("each_executor")
_ORDERS = ("round_robin", "reverse", "random")
_HEAD = ".version 8.0\n.target sm_80\n.address_size 64\n"


def kernel(body: str, shared: int = 4096) -> Module:
    """%t: thread; %s: the tile's address; %in, %out: the arrays."""
    return Module(f"""{_HEAD}
.entry k(.param .u64 p_in, .param .u64 p_out)
{{
    .reg .b32 %t, %s, %r<8>, %v<4>; .reg .b64 %in, %out, %a, %b; .reg .pred %p<4>;
    .shared .align 128 .b8 tile[{shared}];
    mov.u32 %t, %tid.x; mov.u32 %s, tile; ld.param.u64 %in, [p_in]; ld.param.u64 %out, [p_out];
    {body}
    ret;
}}""")


def run(
    body: str, source: object, out: object, threads: int = 32, order: str = "round_robin", checked: bool = True
) -> Report:
    return kernel(body).launch(
        "k", 1, threads, [source, out], checked=checked, schedule=Schedule(warps=order, seed=threads)
    )


_HINTS = [("ca", n, hint) for n in (4, 8, 16) for hint in ("", ".L2::128B")] + [("cg", 16, hint) for hint in ("", ".L2::64B", ".L2::256B")]  # fmt: skip


@pytest.mark.parametrize("checked", [True, False])
@pytest.mark.parametrize("space", ["shared", "shared::cta"])
@pytest.mark.parametrize("cop,size,hint", _HINTS)
def test_sizes_and_hints(cop: str, size: int, hint: str, space: str, checked: bool) -> None:
    source = np.random.default_rng(size).integers(0, 256, 48 * size + 64, dtype=np.uint8)
    out = np.zeros(48 * size, np.uint8)
    report = run(
        f"""mad.wide.u32 %a, %t, {size}, %in; mad.lo.u32 %r0, %t, {size}, %s;
        cp.async.{cop}.{space}.global{hint} [%r0+128], [%a+64], {size};
        cp.async.commit_group; cp.async.wait_group 0;
        mad.wide.u32 %b, %t, {size}, %out;
        {"".join(f"ld.shared.b32 %v0, [%r0+{128 + 4 * k}]; st.global.b32 [%b+{4 * k}], %v0; " for k in range(size // 4))}""",
        In(source), Out(out), threads=48, checked=checked,
    )  # fmt: skip
    report.raise_for_findings()
    np.testing.assert_array_equal(out, source[64:])
    if checked:
        assert report.instructions["copy.async"] == 2 * 3
        assert report.traffic["p_in"].load_bytes == 48 * size


@pytest.mark.parametrize("given", [0, 2, 6, 16])
def test_bytes_that_are_not_given_are_zero(given: int) -> None:
    source, out = np.arange(1, 17, dtype=np.uint8), np.full(16, 7, np.uint8)
    run(
        f"""mov.u32 %r1, {given}; setp.eq.u32 %p0, %t, 0;
        @%p0 cp.async.cg.shared.global [%s], [%in], 16, %r1;
        cp.async.wait_all;
        ld.shared.v4.b32 {{%v0, %v1, %v2, %v3}}, [%s]; st.global.v4.b32 [%out], {{%v0, %v1, %v2, %v3}};""",
        In(source), Out(out), threads=1,
    ).raise_for_findings()  # fmt: skip
    np.testing.assert_array_equal(out, np.where(np.arange(16) < given, source, 0))


def test_a_source_of_which_nothing_is_read_may_lie_anywhere() -> None:
    out = np.full(1, 7, np.uint32)
    copy = "add.u64 %a, %in, 1048576; cp.async.ca.shared.global [%s], [%a], 4, {given}; cp.async.wait_all; ld.shared.b32 %v0, [%s]; st.global.b32 [%out], %v0;"
    run(copy.format(given=0), In(np.zeros(4, np.uint32)), Out(out), threads=1).raise_for_findings()
    assert out[0] == 0
    report = run(copy.format(given=4), In(np.zeros(4, np.uint32)), Out(out), threads=1)
    assert report.of_kind("out-of-bounds")


@pytest.mark.parametrize("negated", [False, True])
def test_a_predicate_may_ask_for_zeros_and_a_policy_changes_nothing(negated: bool) -> None:
    source, out = np.arange(1, 33, dtype=np.uint32), np.zeros(32, np.uint32)
    run(
        f"""and.b32 %r1, %t, 1; setp.ne.u32 %p0, %r1, 0; mov.u64 %b, 0; mad.wide.u32 %a, %t, 4, %in; mad.lo.u32 %r0, %t, 4, %s;
        cp.async.ca.shared.global.L2::cache_hint [%r0], [%a], 4, {"!" if negated else ""}%p0, %b;
        cp.async.wait_all; ld.shared.b32 %v0, [%r0]; mad.wide.u32 %out, %t, 4, %out; st.global.b32 [%out], %v0;""",
        In(source), Out(out),
    ).raise_for_findings()  # fmt: skip
    np.testing.assert_array_equal(out, np.where((np.arange(32) % 2 == 1) != negated, 0, source))


_GROUPS = """
    mad.wide.u32 %a, %t, 4, %in; mad.lo.u32 %r0, %t, 4, %s; mad.wide.u32 %b, %t, 4, %out;
    cp.async.ca.shared.global [%r0], [%a], 4; cp.async.commit_group;
    cp.async.ca.shared.global [%r0+128], [%a+128], 4; cp.async.ca.shared.global [%r0+256], [%a+256], 4; cp.async.commit_group;
    cp.async.commit_group;
    cp.async.ca.shared.global [%r0+384], [%a+384], 4;
    {wait}
    ld.shared.b32 %v0, [%r0+{offset}]; st.global.b32 [%b], %v0;"""


@pytest.mark.parametrize("wait,landed", [
    ("cp.async.wait_group 3;", 0), ("cp.async.wait_group 2;", 1), ("cp.async.wait_group 1;", 3), ("cp.async.wait_group 0;", 3),
    ("cp.async.wait_all;", 4), ("cp.async.commit_group; cp.async.wait_group 1;", 3), ("cp.async.commit_group; cp.async.wait_group 0;", 4),
])  # fmt: skip
@pytest.mark.parametrize("piece", range(4))
def test_a_wait_lands_the_groups_that_it_names_and_no_others(wait: str, landed: int, piece: int) -> None:
    source, out = np.arange(128, dtype=np.uint32), np.zeros(32, np.uint32)
    body = _GROUPS.format(wait=wait, offset=128 * piece)
    report = run(body, In(source), Out(out))
    if piece < landed:
        report.raise_for_findings()
        np.testing.assert_array_equal(out, source[32 * piece : 32 * piece + 32])
    else:
        assert [f.kind for f in report.findings] == ["in-flight"] and report.findings[0].lanes == 0xFFFFFFFF
        # The value is what was there before, not what is to come: NaN bytes.
        assert (out == 0xFFFFFFFF).all()
    unchecked = np.zeros(32, np.uint32)
    run(body, In(source), Out(unchecked), checked=False)
    np.testing.assert_array_equal(unchecked, out)


def test_each_thread_counts_its_own_groups() -> None:
    """Odd threads close one group more, so that their first copy has landed where that of the even ones has not."""
    body = """
    mad.wide.u32 %a, %t, 4, %in; mad.lo.u32 %r0, %t, 4, %s; mad.wide.u32 %b, %t, 4, %out;
    cp.async.ca.shared.global [%r0], [%a], 4; cp.async.commit_group;
    and.b32 %r1, %t, 1; setp.ne.u32 %p0, %r1, 0; @%p0 cp.async.commit_group;
    cp.async.ca.shared.global [%r0+128], [%a], 4; cp.async.commit_group;
    cp.async.wait_group 2;
    mov.u32 %v0, 9; setp.eq.u32 %p1, %r1, {parity}; @%p1 ld.shared.b32 %v0, [%r0]; st.global.b32 [%b], %v0; cp.async.wait_all;"""
    source, out = np.arange(32, dtype=np.uint32), np.zeros(32, np.uint32)
    run(body.format(parity=1), In(source), Out(out)).raise_for_findings()
    np.testing.assert_array_equal(out, np.where(source % 2 == 1, source, 9))
    report = run(body.format(parity=0), In(source), Out(out))
    assert [(f.kind, f.lanes) for f in report.findings] == [("in-flight", 0x55555555)]


# Two warps share a tile in two buffers: what one copies the other reads, round after round.
_PIPELINE = """
    mad.wide.u32 %a, %t, 4, %in; mad.wide.u32 %b, %t, 4, %out; mov.u32 %v1, 0; mov.u32 %r5, 0; mov.u32 %r6, 0;
    mad.lo.u32 %r0, %t, 4, %s; xor.b32 %r1, %t, 32; mad.lo.u32 %r1, %r1, 4, %s;
    cp.async.ca.shared.global [%r0], [%a], 4;
    cp.async.commit_group;
    LOOP:
    xor.b32 %r6, %r6, 256; add.u32 %r2, %r0, %r6; add.u64 %a, %a, 256;
    setp.lt.u32 %p1, %r5, 3;
    @%p1 cp.async.ca.shared.global [%r2], [%a], 4;
    cp.async.commit_group;
    cp.async.wait_group 1;                  // this round's
    bar.sync 0;                             // everybody's
    xor.b32 %r3, %r6, 256; add.u32 %r3, %r3, %r1;
    ld.shared.b32 %v0, [%r3];
    add.u32 %v1, %v1, %v0;
    bar.sync 0;                             // read by all before it is overwritten
    add.u32 %r5, %r5, 1; setp.lt.u32 %p0, %r5, 4; @%p0 bra LOOP;
    st.global.b32 [%b], %v1;"""
_MUTANTS = {
    "waits for too few": (("wait_group 1;", "wait_group 2;"), "in-flight"),
    "does not wait": (("cp.async.wait_group 1;", ""), "in-flight"),
    "lacks the commit": (("cp.async.commit_group;\n    LOOP", "LOOP"), "in-flight"),
    "lacks the barrier after the wait": (("bar.sync 0;                             // everybody's", ""), "race"),
    "waits after the barrier": (("cp.async.wait_group 1;                  // this round's\n    bar.sync 0; ", "bar.sync 0; cp.async.wait_group 1; "), "race"),
    "lacks the barrier before the next copy": (("bar.sync 0;                             // read", "//"), "race"),
    "reads what a copy is to write": (("xor.b32 %r3, %r6, 256;", "mov.u32 %r3, %r6;"), "in-flight"),
    "overwrites what a copy is to write": (("ld.shared.b32 %v0, [%r3];", "ld.shared.b32 %v0, [%r3]; @%p1 st.shared.b32 [%r2], %v0;"), "in-flight"),
    "copies to a place twice": (("@%p1 cp.async.ca.shared.global [%r2], [%a], 4;", "@%p1 cp.async.ca.shared.global [%r2], [%a], 4; @%p1 cp.async.ca.shared.global [%r2], [%in], 4;"), "in-flight"),
    "copies from behind the end": (("setp.lt.u32 %p1, %r5, 3;", "setp.lt.u32 %p1, %r5, 4;"), "out-of-bounds"),
    "copies to behind the end": (("cp.async.ca.shared.global [%r0], [%a], 4;", "cp.async.ca.shared.global [%r0], [%a], 4; cp.async.ca.shared.global [%s+4096], [%in], 4;"), "out-of-bounds"),
    "copies from a misaligned address": (("cp.async.ca.shared.global [%r0], [%a], 4;", "cp.async.ca.shared.global [%r0], [%a], 4; cp.async.cg.shared.global [%s+1024], [%in+8], 16;"), "misaligned"),
    "copies to a misaligned address": (("cp.async.ca.shared.global [%r0], [%a], 4;", "cp.async.ca.shared.global [%r0], [%a], 4; cp.async.ca.shared.global [%s+1028], [%in], 8;"), "misaligned"),
    "asks for more bytes than there are": (("cp.async.ca.shared.global [%r0], [%a], 4;", "cp.async.ca.shared.global [%r0], [%a], 4; cp.async.ca.shared.global [%s+1024], [%in], 4, 8;"), "out-of-bounds"),
}  # fmt: skip


@pytest.mark.parametrize("order", _ORDERS)
def test_the_pipeline_is_clean(order: str) -> None:
    source, out = np.arange(256, dtype=np.uint32), np.zeros(64, np.uint32)
    run(_PIPELINE, In(source), Out(out), threads=64, order=order).raise_for_findings()
    np.testing.assert_array_equal(out, np.roll(source.reshape(4, 64).sum(axis=0), 32))


@pytest.mark.parametrize("order", _ORDERS)
@pytest.mark.parametrize("name", _MUTANTS)
def test_each_mutant_is_found(name: str, order: str) -> None:
    (old, new), kind = _MUTANTS[name]
    assert _PIPELINE.count(old) == 1, name
    source, out = np.arange(256, dtype=np.uint32), np.zeros(64, np.uint32)
    report = run(_PIPELINE.replace(old, new), In(source), Out(out), threads=64, order=order)
    assert report.of_kind(kind), str(report)


def test_a_finding_names_the_copy() -> None:
    (old, new), _ = _MUTANTS["reads what a copy is to write"]
    report = run(
        _PIPELINE.replace(old, new), In(np.arange(256, dtype=np.uint32)), Out(np.zeros(64, np.uint32)), threads=64
    )
    finding = report.of_kind("in-flight")[0]
    assert finding.site.ptx.startswith("ld.shared") and finding.other is not None and "cp.async" in finding.other.ptx
    assert "which a copy of warp 1 is still to write" in finding.message and "shared address" in finding.message


@pytest.mark.parametrize("order", _ORDERS)
@pytest.mark.parametrize("who", ["the thread itself", "another warp behind a barrier"])
def test_overwriting_a_source_in_flight_is_found(who: str, order: str) -> None:
    writer = "0" if who == "the thread itself" else "32"
    body = f"""
    setp.eq.u32 %p0, %t, 0; setp.eq.u32 %p1, %t, {writer}; mov.u32 %v0, 5;
    @%p0 cp.async.ca.shared.global [%s], [%in+{{at}}], 8;
    {{early}}
    bar.sync 0;
    @%p1 st.global.b32 [%in+12], %v0;
    cp.async.wait_all;"""
    for at, early, found in ((8, "", True), (0, "", False), (16, "", False), (8, "cp.async.wait_all;", False)):
        report = run(
            body.format(at=at, early=early),
            InOut(np.zeros(8, np.uint32)),
            Scratch(np.zeros(1, np.uint32)),
            threads=64,
            order=order,
        )
        kinds = {f.kind for f in report.findings}
        assert bool(kinds) == found and kinds <= {"in-flight", "race"}, str(report)  # a race, if the copy has landed
        if who == "the thread itself" and found:
            assert "is still to read" in report.findings[0].message and report.findings[0].address % 256 == 12


def test_the_same_bytes_twice_are_benign() -> None:
    body = """cp.async.ca.shared.global [%s], [%in], 4; cp.async.wait_all; bar.sync 0; ld.shared.b32 %v0, [%s];
    mad.wide.u32 %b, %t, 4, %out; st.global.b32 [%b], %v0;"""
    out = np.zeros(64, np.uint32)
    run(body, In(np.full(1, 3, np.uint32)), Out(out), threads=64).raise_for_findings()
    assert (out == 3).all()


def test_another_lane_of_the_warp_needs_a_warp_barrier() -> None:
    body = """mad.wide.u32 %a, %t, 4, %in; mad.lo.u32 %r0, %t, 4, %s; xor.b32 %r1, %r0, 4; mad.wide.u32 %b, %t, 4, %out;
    cp.async.ca.shared.global [%r0], [%a], 4; cp.async.wait_all; {sync} ld.shared.b32 %v0, [%r1]; st.global.b32 [%b], %v0;"""
    source, out = np.arange(32, dtype=np.uint32), np.zeros(32, np.uint32)
    run(body.format(sync="bar.warp.sync -1;"), In(source), Out(out)).raise_for_findings()
    np.testing.assert_array_equal(out, source ^ 1)
    assert [f.kind for f in run(body.format(sync=""), In(source), Out(out)).findings] == ["race"]


def test_what_never_lands_was_never_written() -> None:
    """The copying warp ends without waiting."""
    body = """setp.ge.u32 %p0, %t, 32; mad.lo.u32 %r0, %t, 4, %s; mad.wide.u32 %a, %t, 4, %in;
    @!%p0 cp.async.ca.shared.global [%r0], [%a], 4; @!%p0 cp.async.commit_group; bar.sync 0; @!%p0 ret;
    ld.shared.b32 %v0, [%r0+-128]; mad.wide.u32 %b, %t, 4, %out; st.global.b32 [%b+-128], %v0;"""
    for order in _ORDERS:
        report = run(body, In(np.zeros(64, np.uint32)), Out(np.zeros(32, np.uint32)), threads=64, order=order)
        assert [f.kind for f in report.findings] == ["in-flight"]


# Warp 0 copies, warp 1 reads; two named barriers hand the tile to and fro.
_HANDSHAKE = """
    mov.u32 %r5, 0; mov.u32 %v1, 0; mad.wide.u32 %b, %t, 4, %out; mad.wide.u32 %a, %t, 4, %in; mad.lo.u32 %r0, %t, 4, %s;
    setp.ge.u32 %p0, %t, 32; @%p0 bra READER;
    WRITER:
    cp.async.ca.shared.global [%r0], [%a], 4; cp.async.commit_group;
    cp.async.wait_group 0;
    bar.arrive 1, 64;                       // full
    add.u64 %a, %a, 128; add.u32 %r5, %r5, 1; setp.lt.u32 %p1, %r5, 4;
    bar.sync 2, 64;                         // empty
    @%p1 bra WRITER;
    bra END;
    READER:
    bar.sync 1, 64;
    xor.b32 %r1, %t, 33; mad.lo.u32 %r1, %r1, 4, %s; ld.shared.b32 %v0, [%r1]; add.u32 %v1, %v1, %v0;
    bar.arrive 2, 64;
    add.u32 %r5, %r5, 1; setp.lt.u32 %p1, %r5, 4; @%p1 bra READER;
    st.global.b32 [%b+-128], %v1;
    END:"""
_HANDSHAKE_MUTANTS = {
    "is full before it has come": ("cp.async.wait_group 0;\n    bar.arrive 1, 64; ", "bar.arrive 1, 64; cp.async.wait_group 0; "),
    "is never waited for": ("cp.async.wait_group 0;\n", "\n"),
    "is said to be empty before it has been read": ("bar.sync 1, 64;\n", "bar.sync 1, 64; bar.arrive 2, 64;\n"),
}  # fmt: skip


@pytest.mark.parametrize("order", _ORDERS)
def test_a_tile_goes_from_warp_to_warp(order: str) -> None:
    source, out = np.arange(128, dtype=np.uint32), np.zeros(32, np.uint32)
    run(_HANDSHAKE, In(source), Out(out), threads=64, order=order).raise_for_findings()
    np.testing.assert_array_equal(out, source.reshape(4, 32).sum(axis=0)[np.arange(32) ^ 1])


@pytest.mark.parametrize("order", _ORDERS)
@pytest.mark.parametrize("name", _HANDSHAKE_MUTANTS)
def test_a_tile_that(name: str, order: str) -> None:
    old, new = _HANDSHAKE_MUTANTS[name]
    assert _HANDSHAKE.count(old) == 1
    report = run(
        _HANDSHAKE.replace(old, new),
        In(np.arange(128, dtype=np.uint32)),
        Out(np.zeros(32, np.uint32)),
        threads=64,
        order=order,
    )
    assert {f.kind for f in report.findings} & {"in-flight", "race"}, str(report)


@pytest.mark.parametrize("bad", [
    "cp.async.cg.shared.global [%s], [%in], 8;", "cp.async.ca.shared.global [%s], [%in], 12;",
    "cp.async.wait_group %r0;", "cp.async.ca.shared.global [%s], [%in], %r0;",
])  # fmt: skip
def test_malformed_copies_are_refused(bad: str) -> None:
    with pytest.raises(PtxError):
        kernel(bad)
