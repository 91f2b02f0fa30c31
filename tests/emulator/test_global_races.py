# ruff: noqa: E501 - lines of PTX read best whole
"""Races in global memory: between the threads of a block, and between blocks, which nothing orders."""

from __future__ import annotations

import numpy as np
import pytest

from flashgen.emulator import InOut, Module, Report, Schedule, Scratch

pytestmark = pytest.mark.usefixtures("each_executor")
_ORDERS = ("round_robin", "reverse", "random")
_BLOCKS, _THREADS = 3, 64


def launch(body: str, order: str = "round_robin", buffer=Scratch, **schedule) -> Report:
    """%t is the thread in its block, %b the block, %g both; %x is ``data``, %own the thread's element of its block's part."""
    module = Module(f"""
.version 8.0
.target sm_90
.address_size 64
.entry k(.param .u64 data)
{{
    .reg .b16 %h<3>; .reg .b32 %t, %b, %g, %n, %r<9>; .reg .b64 %x, %own, %p<5>; .reg .pred %q<5>;
    mov.u32 %t, %tid.x; mov.u32 %b, %ctaid.x; mov.u32 %n, %ntid.x; mad.lo.u32 %g, %b, %n, %t;
    ld.param.u64 %x, [data]; mad.wide.u32 %own, %g, 4, %x;
    {body}
    ret;
}}""")
    data = np.zeros(4096, np.uint32)
    return module.launch("k", _BLOCKS, _THREADS, [buffer(data, "data")], schedule=Schedule(warps=order, **schedule))


_CLEAN = {
    "each thread its own": "st.global.u32 [%own], %t; ld.global.u32 %r0, [%own]; st.global.u32 [%own], %r0;",
    "another thread's, behind a barrier": """st.global.u32 [%own], %t; bar.sync 0; xor.b32 %r1, %g, 63; mad.wide.u32 %p0, %r1, 4, %x;
        ld.global.u32 %r0, [%p0]; bar.sync 0; st.global.u32 [%own], %r0;""",
    "another lane's, behind a warp barrier": """st.global.u32 [%own], %t; bar.warp.sync -1; xor.b32 %r1, %g, 31; mad.wide.u32 %p0, %r1, 4, %x;
        ld.global.u32 %r0, [%p0];""",
    "atomics of all blocks": "red.global.add.u32 [%x], 1; atom.global.max.u32 %r0, [%x+4], %g;",
    "the same value from everyone": "mov.u32 %r0, 7; st.global.u32 [%x], %r0;",
    "halves of one word": "cvt.u16.u32 %h0, %g; mad.wide.u32 %p0, %g, 2, %x; st.global.u16 [%p0], %h0;",
    "volatile flags": "st.volatile.global.u32 [%x], %g; ld.volatile.global.u32 %r0, [%x];",
}  # fmt: skip


@pytest.mark.parametrize("order", _ORDERS)
@pytest.mark.parametrize("name", _CLEAN)
def test_ordered_accesses_are_clean(name: str, order: str) -> None:
    buffer = InOut if "atomics" in name or "flags" in name else Scratch
    report = launch(_CLEAN[name], order, buffer, seed=3)
    assert report.ok, str(report)


# name -> (body, whether another block is the counterpart)
_RACES = {
    "another warp's, without a barrier": ("st.global.u32 [%own], %t; xor.b32 %r1, %g, 63; mad.wide.u32 %p0, %r1, 4, %x; ld.global.u32 %r0, [%p0];", False),
    "another lane's, without a warp barrier": ("st.global.u32 [%own], %t; xor.b32 %r1, %g, 1; mad.wide.u32 %p0, %r1, 4, %x; ld.global.u32 %r0, [%p0];", False),
    "written after another warp read": ("xor.b32 %r1, %g, 63; mad.wide.u32 %p0, %r1, 4, %x; ld.global.u32 %r0, [%p0]; add.u32 %r0, %t, 1; st.global.u32 [%own], %r0;", False),
    "one place from all blocks": ("setp.eq.u32 %q0, %t, 0; add.u32 %r0, %b, 1; @%q0 st.global.u32 [%x], %r0;", True),
    "rows of two blocks that overlap": ("mad.lo.u32 %r1, %b, 63, %t; mad.wide.u32 %p0, %r1, 4, %x; add.u32 %r0, %g, 1; st.global.u32 [%p0], %r0;", True),
    "read by the next block": ("add.u32 %r0, %g, 1; st.global.u32 [%own], %r0; ld.global.u32 %r1, [%own+256];", True),
    "an atomic of one block against a plain read of another": ("setp.ne.u32 %q0, %b, 0; @%q0 ld.global.u32 %r0, [%x]; @!%q0 red.global.add.u32 [%x], 1;", True),
}  # fmt: skip


@pytest.mark.parametrize("order", _ORDERS)
@pytest.mark.parametrize("name", _RACES)
def test_unordered_accesses_are_found(name: str, order: str) -> None:
    body, foreign = _RACES[name]
    for threads in (1,) if foreign else (1, 2):  # blocks that really run at once may miss each other
        report = launch(body, order, InOut, seed=3, threads=threads)
        races = report.of_kind("race")
        assert races and {f.kind for f in report.findings} == {"race"}, str(report)
        assert ("with which nothing orders it" in races[0].message) == foreign, races[0].message
        assert "data[" in races[0].message


def test_a_switch_turns_them_off() -> None:
    assert launch(_RACES["one place from all blocks"][0], buffer=InOut, global_races=False).ok


def test_every_launch_starts_anew() -> None:
    """Kernels of one stream are ordered: what an earlier launch wrote, any thread may use."""
    module = Module("""
.version 8.0
.target sm_80
.address_size 64
.entry k(.param .u64 data, .param .u32 flip)
{
    .reg .b32 %t, %f; .reg .b64 %x;
    mov.u32 %t, %tid.x; ld.param.u32 %f, [flip]; xor.b32 %t, %t, %f; ld.param.u64 %x, [data]; mad.wide.u32 %x, %t, 4, %x;
    ld.global.u32 %f, [%x]; add.u32 %f, %f, 1; st.global.u32 [%x], %f; ret;
}""")
    data = np.zeros(64, np.uint32)
    memory = module.memory(InOut(data, "data"))
    for flip in (0, 63, 1):
        module.launch("k", 1, 64, [data, flip], memory=memory).raise_for_findings()
    assert memory.finish() == [] and (data == 3).all()
