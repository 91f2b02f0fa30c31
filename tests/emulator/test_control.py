# ruff: noqa: E501 - lines of PTX and of case tables read best whole
"""Branches, loops, calls, barriers, forward progress: that lanes part and meet again rightly."""

from __future__ import annotations

import numpy as np
import pytest

from flashgen.emulator import In, InOut, Module, Out, PtxError, Schedule

pytestmark = pytest.mark.usefixtures("each_executor")
_HEAD = ".version 8.0\n.target sm_80\n.address_size 64\n"
_ORDERS = ("round_robin", "reverse", "random")


def kernel(body: str, extra: str = "") -> Module:
    """%t is the thread, %a its element of ``src``; %d goes to ``dst``."""
    return Module(f"""{_HEAD}{extra}
.entry k(.param .u64 src, .param .u64 dst)
{{
    .reg .b32 %d, %a, %t, %u<9>; .reg .b64 %x<9>; .reg .pred %p<9>;
    mov.u32 %t, %tid.x;
    ld.param.u64 %x0, [src]; mad.wide.u32 %x0, %t, 4, %x0; ld.global.u32 %a, [%x0];
    ld.param.u64 %x1, [dst]; mad.wide.u32 %x1, %t, 4, %x1;
    mov.u32 %d, 0;
    {body}
    st.global.u32 [%x1], %d;
    ret;
}}""")


def run(module: Module, source, threads: int = 64, order: str = "round_robin", **schedule):
    source = np.asarray(source, np.uint32)
    out = np.zeros(threads, np.uint32)
    report = module.launch("k", 1, threads, [In(source), Out(out)], schedule=Schedule(warps=order, **schedule))
    return out, report


@pytest.mark.parametrize("order", _ORDERS)
def test_loops_of_different_length_and_nested_branches(order: str) -> None:
    """Collatz steps, counted in lanes that all leave at different times."""
    module = kernel("""
    mov.u32 %u0, %a;
    LOOP:
    setp.le.u32 %p0, %u0, 1; @%p0 bra DONE;
    and.b32 %u1, %u0, 1; setp.eq.u32 %p1, %u1, 0; @%p1 bra EVEN;
    mad.lo.u32 %u0, %u0, 3, 1; bra NEXT;
    EVEN: shr.u32 %u0, %u0, 1;
    NEXT: add.u32 %d, %d, 1; bra LOOP;
    DONE:""")

    def steps(n: int) -> int:
        count = 0
        while n > 1:
            n = n // 2 if n % 2 == 0 else 3 * n + 1
            count += 1
        return count

    source = np.arange(1, 101)
    out, report = run(module, source, 100, order, seed=4)
    report.raise_for_findings()
    assert out.tolist() == [steps(int(n)) for n in source]


@pytest.mark.parametrize("order", _ORDERS)
def test_exit_in_the_middle(order: str) -> None:
    module = kernel("""
    and.b32 %u0, %t, 3; setp.eq.u32 %p0, %u0, 1; mov.u32 %d, 7; @%p0 st.global.u32 [%x1], %d; @%p0 exit;
    setp.lt.u32 %p1, %t, 20; @%p1 bra SMALL;
    add.u32 %d, %a, 1; st.global.u32 [%x1], %d; ret;
    SMALL: add.u32 %d, %a, 2;""")
    out, report = run(module, np.arange(64), 64, order)
    report.raise_for_findings()
    assert out.tolist() == [7 if t % 4 == 1 else t + 2 if t < 20 else t + 1 for t in range(64)]


@pytest.mark.parametrize("order", _ORDERS)
def test_jump_tables(order: str) -> None:
    module = kernel("""
    TABLE: .branchtargets L0, L1, L2, L0;
    and.b32 %u0, %a, 3;
    brx.idx %u0, TABLE;
    L0: mov.u32 %d, 10; bra JOIN;
    L1: mov.u32 %d, 11; bra JOIN;
    L2: mov.u32 %d, 12;
    JOIN: activemask.b32 %u1; popc.b32 %u1, %u1; mad.lo.u32 %d, %u1, 100, %d;""")
    out, report = run(module, np.arange(64), 64, order)
    report.raise_for_findings()
    # All lanes are back together at JOIN, whatever the order; random may let early ones go on.
    assert [x % 100 for x in out.tolist()] == [10 if t % 4 in (0, 3) else 10 + t % 4 for t in range(64)]
    if order != "random":
        assert {x // 100 for x in out.tolist()} == {32}


def test_lanes_reconverge_behind_an_if_inside_a_loop() -> None:
    module = kernel("""
    mov.u32 %u0, 0;
    LOOP:
    and.b32 %u1, %t, 1; setp.eq.u32 %p0, %u1, 0; @%p0 bra SKIP;
    add.u32 %d, %d, 1;
    SKIP: activemask.b32 %u2; setp.ne.u32 %p1, %u2, -1; @%p1 add.u32 %d, %d, 1000;
    add.u32 %u0, %u0, 1; setp.lt.u32 %p2, %u0, 50; @%p2 bra LOOP;""")
    out, report = run(module, np.zeros(32), 32)
    assert out.tolist() == [50 * (t & 1) for t in range(32)]
    assert report.lane_use > 0.9


@pytest.mark.parametrize("order", _ORDERS)
def test_calls_are_inlined_each_with_its_own_registers(order: str) -> None:
    extra = """
.func (.param .b32 result) twice_plus(.param .b32 x, .param .b32 y)
{
    .reg .b32 %r<4>; .reg .pred %p; .local .align 4 .b8 spill[4];
    ld.param.u32 %r0, [x]; ld.param.u32 %r1, [y];
    setp.gt.u32 %p, %r0, 40; @%p bra BIG;
    st.local.u32 [spill], %r0; ld.local.u32 %r2, [spill]; mad.lo.u32 %r3, %r2, 2, %r1; st.param.b32 [result], %r3; ret;
    BIG: st.param.b32 [result], %r1; ret;
}
"""
    module = kernel(
        """
    { .param .b32 p0; .param .b32 p1; .param .b32 r0;
      st.param.b32 [p0], %a; st.param.b32 [p1], 5; call.uni (r0), twice_plus, (p0, p1); ld.param.b32 %u0, [r0]; }
    { .param .b32 p0; .param .b32 p1; .param .b32 r0;
      st.param.b32 [p0], %u0; st.param.b32 [p1], %a; call.uni (r0), twice_plus, (p0, p1); ld.param.b32 %d, [r0]; }""",
        extra,
    )

    def twice_plus(x: int, y: int) -> int:
        return y if x > 40 else 2 * x + y

    out, report = run(module, np.arange(64), 64, order)
    report.raise_for_findings()
    assert out.tolist() == [twice_plus(twice_plus(t, 5), t) for t in range(64)]


def test_recursion_and_undefined_functions_are_refused_at_load() -> None:
    with pytest.raises(PtxError, match="calls itself"):
        kernel("call again;", ".func again() { call again; ret; }\n")
    with pytest.raises(PtxError, match=r"vprintf, which this module does not define"):
        kernel("call vprintf;", ".extern .func vprintf();\n")


@pytest.mark.parametrize("order", _ORDERS)
def test_a_spin_lock_among_the_lanes_of_a_warp(order: str) -> None:
    """Lanes that hold the lock wait for reconvergence with lanes that spin for it: they must be let go."""
    module = Module(f"""{_HEAD}
.global .u32 lock;
.entry k(.param .u64 cell)
{{
    .reg .b32 %r<4>; .reg .b64 %x; .reg .pred %p;
    ld.param.u64 %x, [cell];
    SPIN: atom.global.cas.b32 %r0, [lock], 0, 1; setp.ne.u32 %p, %r0, 0; @%p bra SPIN;
    ld.volatile.global.u32 %r1, [%x]; add.u32 %r1, %r1, 1; st.volatile.global.u32 [%x], %r1;
    membar.gl;
    atom.global.exch.b32 %r2, [lock], 0;
    ret;
}}""")
    cell = np.zeros(1, np.uint32)
    module.launch("k", 2, 64, [InOut(cell)], schedule=Schedule(warps=order)).raise_for_findings()
    assert cell[0] == 128


@pytest.mark.parametrize("order", _ORDERS)
def test_waiting_for_another_warp_through_memory(order: str) -> None:
    """Warp 1 waits for a flag that warp 0 raises, and the other way round."""
    module = Module(f"""{_HEAD}
.entry k(.param .u64 out)
{{
    .shared .u32 flags[2]; .reg .b32 %r<9>; .reg .b64 %x; .reg .pred %p<3>;
    mov.u32 %r0, %tid.x; shr.u32 %r1, %r0, 5; shl.b32 %r2, %r1, 2; mov.u32 %r3, flags; add.u32 %r4, %r3, %r2;
    xor.b32 %r5, %r2, 4; add.u32 %r5, %r3, %r5;
    and.b32 %r6, %r0, 31; setp.eq.u32 %p0, %r6, 0;
    @%p0 st.shared.u32 [%r4], 0;
    bar.sync 0;
    @%p0 atom.shared.exch.b32 %r7, [%r4], 1;
    WAIT: ld.volatile.shared.u32 %r7, [%r5]; nanosleep.u32 20; setp.eq.u32 %p1, %r7, 0; @%p1 bra WAIT;
    ld.param.u64 %x, [out]; mad.wide.u32 %x, %r0, 4, %x; st.global.u32 [%x], %r7;
    ret;
}}""")
    out = np.zeros(64, np.uint32)
    module.launch("k", 1, 64, [Out(out)], schedule=Schedule(warps=order)).raise_for_findings()
    assert (out == 1).all()


@pytest.mark.parametrize("order", _ORDERS)
def test_barriers_order_shared_memory(order: str) -> None:
    module = kernel("""
    .shared .align 4 .b8 tile[1024];
    mov.u32 %u0, tile; mad.lo.u32 %u1, %t, 4, %u0; st.shared.u32 [%u1], %a;
    barrier.cta.sync.aligned 1;
    xor.b32 %u2, %t, 255; mad.lo.u32 %u1, %u2, 4, %u0; ld.shared.u32 %d, [%u1];
    bar.sync 1, 256;
    st.shared.u32 [%u1], %t;""")
    out, report = run(module, np.arange(1000, 1256), 256, order)
    report.raise_for_findings()
    assert out.tolist() == list(range(1255, 999, -1)) and report.barriers == 2


@pytest.mark.parametrize("order", _ORDERS)
def test_barrier_reductions(order: str) -> None:
    module = kernel("""
    setp.lt.u32 %p0, %a, 70;
    bar.red.popc.u32 %d, 0, %p0;
    bar.red.and.pred %p1, 0, !%p0; selp.u32 %u0, 1000, 0, %p1; add.u32 %d, %d, %u0;
    barrier.cta.red.or.pred %p2, 0, 96, %p0; selp.u32 %u0, 10000, 0, %p2; add.u32 %d, %d, %u0;""")
    out, report = run(module, np.arange(96), 96, order)
    report.raise_for_findings()
    assert (out == 70 + 10000).all()
    out, _ = run(module, np.arange(96) + 70, 96, order)
    assert (out == 1000).all()


@pytest.mark.parametrize("order", _ORDERS)
def test_named_barriers_between_producers_and_consumers(order: str) -> None:
    """Warps 0 and 1 write and arrive, warps 2 and 3 wait and read: no race, no barrier of the whole block."""
    module = kernel("""
    .shared .align 4 .b8 tile[256];
    mov.u32 %u0, tile; setp.ge.u32 %p0, %t, 64; @%p0 bra CONSUMER;
    mad.lo.u32 %u1, %t, 4, %u0; st.shared.u32 [%u1], %a; bar.arrive 3, 128; mov.u32 %d, 1; bra JOIN;
    CONSUMER: bar.sync 3, 128; sub.u32 %u2, 127, %t; mad.lo.u32 %u1, %u2, 4, %u0; ld.shared.u32 %d, [%u1];
    JOIN:""")
    out, report = run(module, np.arange(500, 628), 128, order)
    report.raise_for_findings()
    assert out.tolist() == [1] * 64 + list(range(563, 499, -1))


def test_code_without_effect() -> None:
    module = kernel(
        "brkpt; pmevent 7; membar.cta; membar.sys; fence.acq_rel.gpu; fence.sc.sys; griddepcontrol.wait; mov.u32 %d, %a;"
    )
    out, _ = run(module, np.arange(32), 32)
    assert out.tolist() == list(range(32))
