# ruff: noqa: E501 - lines of PTX and of case tables read best whole
"""Shuffles, votes, matches, reductions: full warps, parts of warps, diverged warps."""

from __future__ import annotations

import numpy as np
import pytest

from flashgen.emulator import In, Module, Out, Schedule

pytestmark = pytest.mark.usefixtures("each_executor")
_HEAD = ".version 8.0\n.target sm_90\n.address_size 64\n"
_ORDERS = ("round_robin", "reverse", "random")


def run(
    body: str,
    source: np.ndarray,
    threads: int = 32,
    results: int = 1,
    order: str = "round_robin",
    kind: str = "b32",
    clean: bool = True,
):
    """%a is the thread's element of source; %d0.. go to the output."""
    width = int(kind[1:])
    text = f"""{_HEAD}
.entry k(.param .u64 src, .param .u64 dst)
{{
    .reg .b32 %d<4>, %t, %u<6>; .reg .{kind} %a; .reg .b64 %x<3>; .reg .pred %p<5>;
    mov.u32 %t, %tid.x;
    ld.param.u64 %x0, [src]; mad.wide.u32 %x0, %t, {width // 8}, %x0; ld.global.{kind} %a, [%x0];
    ld.param.u64 %x1, [dst]; mad.wide.u32 %x1, %t, {4 * results}, %x1;
    {body}
    {" ".join(f"st.global.b32 [%x1+{4 * k}], %d{k};" for k in range(results))}
    ret;
}}"""
    out = np.zeros((threads, results), np.uint32)
    report = Module(text).launch("k", 1, threads, [In(source), Out(out)], schedule=Schedule(warps=order, seed=threads))
    if clean:
        report.raise_for_findings()
    return (out[:, 0] if results == 1 else out), report


def shuffle(mode: str, lane: int, b: int, c: int) -> tuple[int, bool]:
    """The manual's algorithm: (source lane, predicate)."""
    clamp, segment = c & 31, c >> 8 & 31
    high = lane & segment | clamp & ~segment & 31
    j = {
        "up": lane - (b & 31),
        "down": lane + (b & 31),
        "bfly": lane ^ (b & 31),
        "idx": lane & segment | b & 31 & ~segment,
    }[mode]
    inside = j >= high if mode == "up" else j <= high
    return (j if inside else lane), inside


@pytest.mark.parametrize("sync", [True, False])
@pytest.mark.parametrize("mode", ["up", "down", "bfly", "idx"])
@pytest.mark.parametrize("b", [0, 1, 5, 16, 31, 33])
@pytest.mark.parametrize("width", [32, 16, 8])
def test_shuffle(mode: str, b: int, width: int, sync: bool) -> None:
    c = (32 - width) << 8 | (0 if mode == "up" else 31)
    source = np.arange(1000, 1032, dtype=np.uint32)
    name, mask = (".sync", ", 0xffffffff") if sync else ("", "")
    out, _ = run(f"shfl{name}.{mode}.b32 %d0|%p1, %a, {b}, {c}{mask}; selp.u32 %d1, 1, 0, %p1;", source, results=2)
    for lane in range(32):
        j, inside = shuffle(mode, lane, b, c)
        assert out[lane].tolist() == [1000 + j, int(inside)], lane


def test_shuffle_takes_each_lanes_own_index() -> None:
    source = np.arange(32, dtype=np.uint32)
    index = (source * 7 + 3) % 32
    out, _ = run("mad.lo.u32 %u0, %t, 7, 3; shfl.sync.idx.b32 %d0, %a, %u0, 31, -1;", source * 10)
    np.testing.assert_array_equal(out, index * 10)


@pytest.mark.parametrize("order", _ORDERS)
def test_sync_waits_for_diverged_lanes(order: str) -> None:
    """Odd lanes take a long way round; the shuffle names all lanes, so it runs when they are all there."""
    body = """
    and.b32 %u0, %t, 1; setp.eq.u32 %p0, %u0, 0; mov.u32 %u1, 0;
    @%p0 bra JOIN;
    LOOP: add.u32 %u1, %u1, 1; setp.lt.u32 %p1, %u1, %t; @%p1 bra LOOP;
    JOIN:
    shfl.sync.bfly.b32 %d0, %a, 1, 31, -1;"""
    source = np.arange(64, dtype=np.uint32)
    out, _ = run(body, source, threads=64, order=order)
    np.testing.assert_array_equal(out, source ^ 1)


@pytest.mark.parametrize("order", _ORDERS)
def test_partial_masks_in_both_arms_of_a_branch(order: str) -> None:
    body = """
    and.b32 %u0, %t, 1; setp.eq.u32 %p0, %u0, 0;
    @%p0 bra EVEN;
    shfl.sync.bfly.b32 %d0, %a, 2, 31, 0xaaaaaaaa; bra JOIN;
    EVEN: shfl.sync.bfly.b32 %d0, %a, 4, 31, 0x55555555;
    JOIN:"""
    source = np.arange(32, dtype=np.uint32)
    out, _ = run(body, source, order=order)
    np.testing.assert_array_equal(out, np.where(source & 1, source ^ 2, source ^ 4))


@pytest.mark.parametrize("sync", [True, False])
def test_votes(sync: bool) -> None:
    name, mask = (".sync", ", -1") if sync else ("", "")
    for values in ([1] * 32, [0] * 32, [0] * 31 + [1], [k % 3 == 0 for k in range(32)]):
        source = np.array(values, np.uint32)
        body = f"""setp.ne.u32 %p0, %a, 0;
        vote{name}.all.pred %p1, %p0{mask}; selp.u32 %d0, 1, 0, %p1; vote{name}.any.pred %p1, %p0{mask}; selp.u32 %d1, 1, 0, %p1;
        vote{name}.uni.pred %p1, !%p0{mask}; selp.u32 %d2, 1, 0, %p1; vote{name}.ballot.b32 %d3, %p0{mask};"""
        out, _ = run(body, source, results=4)
        ballot = sum(int(v) << k for k, v in enumerate(values))
        assert out.tolist() == [[int(all(values)), int(any(values)), int(all(values) or not any(values)), ballot]] * 32


@pytest.mark.parametrize("kind", ["b32", "b64"])
def test_match(kind: str) -> None:
    values = np.array([k % 5 for k in range(32)], np.uint64) + (np.uint64(1) << np.uint64(40 if kind == "b64" else 3))
    source = values.astype(np.uint32 if kind == "b32" else np.uint64)
    out, _ = run(
        f"match.any.sync.{kind} %d0, %a, -1; match.all.sync.{kind} %d1|%p1, %a, -1; selp.u32 %d2, 1, 0, %p1;",
        source,
        results=3,
        kind=kind,
    )
    for lane in range(32):
        assert out[lane].tolist() == [sum(1 << o for o in range(32) if values[o] == values[lane]), 0, 0]
    out, _ = run(
        f"match.all.sync.{kind} %d0|%p1, %a, -1; selp.u32 %d1, 1, 0, %p1;",
        np.full_like(source, 9),
        results=2,
        kind=kind,
    )
    assert (out == [0xFFFFFFFF, 1]).all()


@pytest.mark.parametrize(
    "op,kind",
    [
        ("add", "u32"),
        ("add", "s32"),
        ("min", "u32"),
        ("min", "s32"),
        ("max", "u32"),
        ("max", "s32"),
        ("and", "b32"),
        ("or", "b32"),
        ("xor", "b32"),
    ],
)
def test_redux(op: str, kind: str) -> None:
    source = np.random.default_rng(1).integers(0, 1 << 32, 32, dtype=np.uint32)
    out, _ = run(f"redux.sync.{op}.{kind} %d0, %a, -1;", source)
    typed = source.view(np.int32) if kind == "s32" else source
    reduce = {
        "add": np.add,
        "min": np.minimum,
        "max": np.maximum,
        "and": np.bitwise_and,
        "or": np.bitwise_or,
        "xor": np.bitwise_xor,
    }[op]
    assert (out == reduce.reduce(typed, dtype=typed.dtype).astype(np.uint32)).all()


def test_activemask_elect_and_warp_barrier() -> None:
    body = """
    setp.lt.u32 %p0, %t, 7; mov.u32 %d1, 0; mov.u32 %d2, 0;
    @%p0 bra LOW;
    bra JOIN;
    LOW: activemask.b32 %d1; bar.warp.sync 0x7f; elect.sync %d2|%p1, 0x7f; selp.u32 %u0, 100, 0, %p1; add.u32 %d2, %d2, %u0;
    JOIN: activemask.b32 %d0;"""
    out, _ = run(body, np.zeros(32, np.uint32), results=3)
    assert (out[:, 0] == 0xFFFFFFFF).all() and out[:7, 1].tolist() == [0x7F] * 7 and not out[7:, 1].any()
    assert out[:, 2].tolist() == [100] + [0] * 31


def test_a_mask_that_names_absent_lanes_is_reported() -> None:
    body = "setp.lt.u32 %p0, %t, 16; mov.u32 %d0, 5; @%p0 shfl.sync.bfly.b32 %d0, %a, 1, 31, -1;"
    _, report = run(body, np.zeros(32, np.uint32), clean=False)
    assert {f.kind for f in report.findings} == {"warp-sync"} and report.findings[0].lanes == 0xFFFF0000
    body = "setp.lt.u32 %p0, %t, 16; mov.u32 %d0, 5; @!%p0 bra JOIN; shfl.sync.bfly.b32 %d0, %a, 1, 31, 1; JOIN:"
    _, report = run(body, np.zeros(32, np.uint32), clean=False)
    assert report.of_kind("warp-sync")[0].lanes == 0xFFFE


def test_reading_a_lane_that_does_not_take_part_is_reported() -> None:
    body = "setp.lt.u32 %p0, %t, 16; mov.u32 %d0, 5; @!%p0 bra JOIN; shfl.sync.idx.b32 %d0, %a, 20, 31, 0xffff; JOIN:"
    _, report = run(body, np.zeros(32, np.uint32), clean=False)
    assert {f.kind for f in report.findings} == {"inactive-lane"} and report.findings[0].lanes == 0xFFFF
    # 48 threads: the second warp has 16 lanes, and a full butterfly reads the missing ones.
    _, report = run("shfl.sync.bfly.b32 %d0, %a, 16, 31, -1;", np.zeros(48, np.uint32), threads=48, clean=False)
    assert report.of_kind("inactive-lane")[0].warp == 1
