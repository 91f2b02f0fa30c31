# ruff: noqa: E501 - lines of PTX and of case tables read best whole
"""Each check finds the fault that was planted for it, says where, and is silent about the clean kernel."""

from __future__ import annotations

import numpy as np
import pytest

from flashgen.emulator import In, InOut, Module, Out, Report, Schedule

pytestmark = pytest.mark.usefixtures("each_executor")
_ORDERS = ("round_robin", "reverse", "random")
_N, _THREADS = 128, 128
_SOURCE = """\
__global__ void reverse_sum(const float* in, float* out, int n) {
  extern __shared__ float tile[];
  const int t = threadIdx.x;
  tile[t] = in[t];
  __syncthreads();
  float x = tile[n - 1 - t];
  __syncthreads();
  tile[t] = x + 1;
  __syncwarp();
  out[t] = tile[t ^ 1];
}"""
_CLEAN = """
.version 8.0
.target sm_80
.address_size 64
.extern .shared .align 16 .b8 tile[];
.entry reverse_sum(.param .u64 in, .param .u64 out, .param .u32 n)
{
    .reg .b32 %t, %n, %s, %r<9>; .reg .f32 %x, %y; .reg .b64 %in, %out, %o; .reg .pred %p;
    .loc 1 3 3
    mov.u32 %t, %tid.x;
    ld.param.u64 %in, [in];
    ld.param.u64 %out, [out];
    ld.param.u32 %n, [n];
    mov.u32 %s, tile;
    mad.wide.u32 %in, %t, 4, %in;
    mad.wide.u32 %out, %t, 4, %out;
    mad.lo.u32 %r0, %t, 4, %s;
    .loc 1 4 3
    ld.global.f32 %x, [%in];
    st.shared.f32 [%r0], %x;
    .loc 1 5 3
    bar.sync 0;
    .loc 1 6 3
    sub.u32 %r1, %n, %t;
    sub.u32 %r1, %r1, 1;
    mad.lo.u32 %r2, %r1, 4, %s;
    ld.shared.f32 %x, [%r2];
    .loc 1 7 3
    bar.sync 0;
    .loc 1 8 3
    add.f32 %x, %x, 0f3F800000;
    st.shared.f32 [%r0], %x;
    .loc 1 9 3
    bar.warp.sync -1;
    .loc 1 10 3
    xor.b32 %r3, %r0, 4;
    ld.shared.f32 %y, [%r3];
    st.global.f32 [%out], %y;
    .loc 1 11 1
    ret;
}
.file 1 "/somewhere/reverse_sum.cu"
"""


def launch(
    ptx: str, order: str = "round_robin", checked: bool = True, out_size: int = _N, threads: int = _THREADS, n: int = _N
) -> tuple[Report, np.ndarray]:
    source = np.arange(_N, dtype=np.float32)
    out = np.full(out_size, np.nan, np.float32)
    module = Module(ptx, source=_SOURCE)
    args = [In(source, "in"), Out(out, "out"), n]
    return module.launch(
        "reverse_sum",
        1,
        threads,
        args,
        shared=4 * _N,
        checked=checked,
        schedule=Schedule(warps=order, step_limit=1 << 20),
    ), out


def mutant(*changes: tuple[str, str]) -> str:
    text = _CLEAN
    for old, new in changes:
        assert text.count(old) == 1, f"{old!r} stands {text.count(old)} times in the kernel"
        text = text.replace(old, new)
    return text


def nth(old: str, number: int, new: str) -> str:
    """The kernel with one occurrence replaced."""
    pieces = _CLEAN.split(old)
    return old.join(pieces[:number]) + new + old.join(pieces[number:])


@pytest.mark.parametrize("order", _ORDERS)
def test_the_clean_kernel_passes(order: str) -> None:
    report, out = launch(_CLEAN, order)
    assert report.ok, str(report)
    assert out.tolist() == [float(_N - 1 - (t ^ 1)) + 1 for t in range(_N)]


# name -> (PTX, kind, CUDA line)
_MUTANTS = {
    "reads behind the end of the input": (mutant(("[%in];\n    st", "[%in+4];\n    st")), "out-of-bounds", 4),
    "reads before the input": (mutant(("[%in];\n    st", "[%in+-4];\n    st")), "out-of-bounds", 4),
    "writes behind the end of the output": (mutant(("st.global.f32 [%out]", "st.global.f32 [%out+4]")), "out-of-bounds", 10),
    "reads across the end of the input": (mutant(("ld.global.f32 %x, [%in];", "ld.global.v2.f32 {%x, %y}, [%in];")), "out-of-bounds", 4),
    "uses a null pointer": (mutant(("ld.global.f32 %x, [%in];", "mov.u64 %in, 0; ld.global.f32 %x, [%in];")), "out-of-bounds", 4),
    "uses more shared memory than it was given": (mutant(("st.shared.f32 [%r0], %x;\n    .loc 1 5", "st.shared.f32 [%r0+4], %x;\n    .loc 1 5")), "out-of-bounds", 4),
    "a misaligned global address": (mutant(("[%in];\n    st", "[%in+-2];\n    st")), "misaligned", 4),
    "a misaligned vector": (mutant(("ld.shared.f32 %x, [%r2];", "ld.shared.v2.f32 {%x, %y}, [%r2];")), "misaligned", 6),
    "reads shared memory that nobody wrote": (mutant(("st.shared.f32 [%r0], %x;\n    .loc 1 5", "setp.lt.u32 %p, %t, 100; @%p st.shared.f32 [%r0], %x;\n    .loc 1 5")), "uninitialised-read", 6),
    "reads the output before it is written": (mutant(("ld.global.f32 %x, [%in];", "ld.global.f32 %x, [%out];")), "uninitialised-read", 4),
    "writes its input": (mutant(("ld.global.f32 %x, [%in];", "ld.global.f32 %x, [%in]; st.global.f32 [%in], %x;")), "forbidden-write", 4),
    "lacks the barrier between write and read": (nth("bar.sync 0;", 1, ""), "race", 6),
    "lacks the barrier between read and write": (nth("bar.sync 0;", 2, ""), "race", 8),
    "lacks the barrier within a warp": (mutant(("bar.warp.sync -1;", "")), "race", 10),
    "all threads write one place": (mutant(("st.shared.f32 [%r0], %x;\n    .loc 1 9", "st.shared.f32 [%s], %x;\n    .loc 1 9")), "race", 8),
    "a barrier in one arm of a branch": (mutant(("bar.sync 0;\n    .loc 1 6", "and.b32 %r8, %t, 1; setp.eq.u32 %p, %r8, 0; @%p bar.sync 0;\n    .loc 1 6")), "barrier-divergence", 5),
    "a barrier that one warp never reaches": (mutant(("bar.sync 0;\n    .loc 1 6", "setp.lt.u32 %p, %t, 32; @%p bar.sync 2, 64;\n    .loc 1 6")), "deadlock", 5),
    "a warp leaves before the barrier": (mutant(("bar.sync 0;\n    .loc 1 6", "setp.ge.u32 %p, %t, 96; @%p ret; bar.sync 0;\n    .loc 1 6")), "barrier-exited", 5),
    "leaves outputs unwritten": (mutant(("st.global.f32 [%out], %y;", "setp.ne.u32 %p, %t, 17; @%p st.global.f32 [%out], %y;")), "unwritten-output", 0),
    "a uniform branch that diverges": (mutant(("bar.warp.sync -1;", "bar.warp.sync -1; setp.lt.u32 %p, %t, 5; @%p bra.uni NEXT; NEXT:")), "uniform-branch", 9),
    "runs for ever": (mutant(("bar.warp.sync -1;", "AGAIN: bra AGAIN;")), "step-limit", 9),
    "traps": (mutant(("bar.warp.sync -1;", "bar.warp.sync -1; setp.eq.u32 %p, %t, 40; @%p trap;")), "trap", 9),
}  # fmt: skip


@pytest.mark.parametrize("order", _ORDERS)
@pytest.mark.parametrize("name", _MUTANTS)
def test_each_mutant_is_found_at_its_line(name: str, order: str) -> None:
    ptx, kind, line = _MUTANTS[name]
    report, _ = launch(ptx, order)
    found = report.of_kind(kind)
    assert found, str(report)
    if line:
        assert found[0].site.file == "reverse_sum.cu"
        # A race may be told from either side, whichever came second in this order.
        lines = {f.site.line for f in found} | {f.other.line for f in found if f.other}
        assert line in lines, str(report)
        assert _SOURCE.splitlines()[found[0].site.line - 1].strip() in found[0].message


def test_races_are_found_even_where_the_result_is_right() -> None:
    """In this order each warp has written before others read, so only the check can tell."""
    report, out = launch(nth("bar.sync 0;", 2, ""))
    clean, wanted = launch(_CLEAN)
    assert clean.ok and report.of_kind("race") and np.array_equal(out[:32], wanted[:32])
    race = report.of_kind("race")[0]
    assert {race.site.line, race.other.line} == {6, 8} and race.lanes == 0xFFFFFFFF and race.block == (0, 0, 0)


def test_findings_say_who_and_where() -> None:
    report, _ = launch(_MUTANTS["reads behind the end of the input"][0])
    (finding,) = report.findings
    assert (finding.warp, finding.lanes, finding.count) == (3, 1 << 31, 1)
    assert "0 bytes behind the end of in" in finding.message and "lane 31" in finding.message
    report, _ = launch(_MUTANTS["writes its input"][0])
    assert "in[0]" in report.findings[0].message and "all lanes, 4 times" in report.findings[0].message
    report, _ = launch(_MUTANTS["leaves outputs unwritten"][0])
    assert report.findings[0].message == "unwritten-output: 1 of 128 elements of out, the first at [17]"
    report, _ = launch(_MUTANTS["a barrier that one warp never reaches"][0])
    assert {(f.kind, f.warp) for f in report.of_kind("deadlock")} >= {("deadlock", 0)}
    assert "barrier 2" in report.of_kind("deadlock")[0].message


def test_an_unchecked_launch_still_keeps_to_its_memory() -> None:
    report, _ = launch(mutant(("ld.global.f32 %x, [%in];", "mov.u64 %in, 16; ld.global.f32 %x, [%in];")), checked=False)
    assert [f.kind for f in report.findings] == ["out-of-bounds"]
    report, _ = launch(_MUTANTS["uses more shared memory than it was given"][0], checked=False)
    assert [f.kind for f in report.findings] == ["out-of-bounds"]


def test_the_same_value_from_two_warps_is_benign() -> None:
    same = mutant(("st.shared.f32 [%r0], %x;\n    .loc 1 9", "mov.f32 %y, 0f40000000; st.shared.f32 [%s], %y; st.shared.f32 [%s], %y;\n    .loc 1 9"),
                  ("ld.shared.f32 %y, [%r3];", "mov.f32 %y, %x;"))  # fmt: skip
    report, _ = launch(same)
    assert not [f for f in report.of_kind("race") if f.other and f.other.line == f.site.line == 8 and f.count > 1]


def test_gaps_between_the_rows_of_a_view_are_out_of_bounds() -> None:
    storage = np.full((8, 48), np.nan, np.float32)
    module = Module("""
.version 8.0
.target sm_80
.address_size 64
.entry fill(.param .u64 out, .param .u32 stride)
{
    .reg .b32 %t, %r<3>; .reg .b64 %o; .reg .f32 %x;
    mov.u32 %t, %tid.x; ld.param.u32 %r0, [stride]; shr.u32 %r1, %t, 5; and.b32 %r2, %t, 31;
    mad.lo.u32 %r1, %r1, %r0, %r2; ld.param.u64 %o, [out]; mad.wide.u32 %o, %r1, 4, %o;
    cvt.rn.f32.u32 %x, %t; st.global.f32 [%o], %x; ret;
}""")
    view = storage[:, 8:40]
    module.launch("fill", 1, 256, [Out(view, "view"), 48]).raise_for_findings()
    assert view.tolist() == np.arange(256).reshape(8, 32).tolist() and np.isnan(storage[:, :8]).all()
    report = module.launch("fill", 1, 256, [Out(view, "view"), 47])
    assert {f.kind for f in report.findings} == {"forbidden-write", "unwritten-output"}


def test_an_array_whose_view_is_an_input_may_not_be_written_beside_an_output() -> None:
    both = np.zeros(64, np.float32)
    module = Module("""
.version 8.0
.target sm_80
.address_size 64
.entry copy(.param .u64 in, .param .u64 out)
{
    .reg .b32 %t; .reg .b64 %i, %o; .reg .f32 %x;
    mov.u32 %t, %tid.x; ld.param.u64 %i, [in]; ld.param.u64 %o, [out]; mad.wide.u32 %i, %t, 4, %i; mad.wide.u32 %o, %t, 4, %o;
    ld.global.f32 %x, [%i]; st.global.f32 [%o], %x; ret;
}""")
    module.launch("copy", 1, 32, [In(both[:32]), Out(both[32:])]).raise_for_findings()
    # Views that overlap share their memory here, too; what is an input alone stays read-only.
    report = module.launch("copy", 1, 32, [In(both[:48]), InOut(both[16:32])])
    assert [(f.kind, f.lanes) for f in report.findings] == [("forbidden-write", 0xFFFF0000)]
    report = module.launch("copy", 1, 32, [In(both[:32]), Out(both[16:48])])
    assert [(f.kind, f.lanes) for f in report.findings] == [("uninitialised-read", 0xFFFF0000)]


def test_local_memory_read_before_it_is_written() -> None:
    body = """
.version 8.0
.target sm_80
.address_size 64
.entry k(.param .u64 out)
{
    .local .align 4 .b8 own[16]; .reg .b32 %r<3>; .reg .b64 %o, %l; .reg .pred %p;
    mov.u32 %r0, %tid.x; mov.u64 %l, own; setp.ne.u32 %p, %r0, 9;
    @%p st.local.u32 [%l+8], %r0;
    ld.local.u32 %r1, [%l+8];
    ld.param.u64 %o, [out]; mad.wide.u32 %o, %r0, 4, %o; st.global.u32 [%o], %r1; ret;
}"""
    out = np.zeros(32, np.uint32)
    report = Module(body).launch("k", 1, 32, [Out(out)])
    assert [(f.kind, f.lanes, f.address) for f in report.findings] == [("uninitialised-read", 1 << 9, 8)]
    report = Module(body.replace("[%l+8];\n    ld.param", "[%l+16];\n    ld.param")).launch("k", 1, 32, [Out(out)])
    assert report.of_kind("out-of-bounds")


def test_findings_do_not_depend_on_the_number_of_host_threads() -> None:
    source, out = np.zeros(_N, np.float32), np.zeros(_N, np.float32)
    module = Module(_MUTANTS["lacks the barrier within a warp"][0])

    def findings(threads: int) -> list[tuple]:
        report = module.launch(
            "reverse_sum", 9, _THREADS, [In(source), InOut(out), _N], shared=4 * _N, schedule=Schedule(threads=threads)
        )
        return [(f.kind, f.block, f.warp, f.lanes, f.count, f.site.ptx_line) for f in report.findings]

    assert findings(1) == findings(2) == findings(5) and findings(1)[0][1] == (0, 0, 0)


def test_a_race_between_other_warps_than_the_last_reader_is_found() -> None:
    """Named barriers: warp 0's read is ordered before the write, warp 1's is not."""
    body = """
.version 8.0
.target sm_80
.address_size 64
.entry k(.param .u64 out)
{
    .shared .u32 cell; .reg .b32 %t, %w, %r<4>; .reg .b64 %o; .reg .pred %p<4>;
    mov.u32 %t, %tid.x; shr.u32 %w, %t, 5; setp.eq.u32 %p0, %t, 64; @%p0 st.shared.u32 [cell], 7;
    bar.sync 0;
    setp.eq.u32 %p1, %w, 2; @%p1 bra WRITER;
    ld.shared.u32 %r0, [cell];
    setp.eq.u32 %p2, %w, 0; @%p2 bar.sync 1, 64;
    bra DONE;
    WRITER: bar.sync 1, 64; @%p0 st.shared.u32 [cell], 8; mov.u32 %r0, 0;
    DONE:
    ld.param.u64 %o, [out]; mad.wide.u32 %o, %t, 4, %o; st.global.u32 [%o], %r0; ret;
}"""
    out = np.zeros(96, np.uint32)
    for order in _ORDERS:
        report = Module(body).launch("k", 1, 96, [Out(out)], schedule=Schedule(warps=order, seed=2))
        assert report.of_kind("race"), order
    fixed = body.replace("@%p2 bar.sync 1, 64;", "bar.sync 1, 96;").replace(
        "WRITER: bar.sync 1, 64;", "WRITER: bar.sync 1, 96;"
    )
    for order in _ORDERS:
        Module(fixed).launch("k", 1, 96, [Out(out)], schedule=Schedule(warps=order)).raise_for_findings()


@pytest.mark.parametrize("order", _ORDERS)
def test_readers_that_are_released_one_by_one_do_not_race(order: str) -> None:
    """Two consumer warps read a tile at different times and arrive at different barriers; the producer waits for both."""
    body = """
.version 8.0
.target sm_80
.address_size 64
.entry k(.param .u64 out)
{
    .shared .u32 cell; .reg .b32 %t, %w, %i, %r<4>; .reg .b64 %o; .reg .pred %p<6>;
    mov.u32 %t, %tid.x; shr.u32 %w, %t, 5; mov.u32 %i, 0; mov.u32 %r1, 0; and.b32 %r2, %t, 31; setp.eq.u32 %p0, %r2, 0;
    LOOP:
    setp.ne.u32 %p1, %w, 0; @%p1 bra CONSUMER;
    @%p0 st.shared.u32 [cell], %i;
    bar.sync 1, 64; bar.sync 2, 64;      // full, to each consumer
    bar.sync 3, 64; bar.sync 4, 64;      // empty, from each
    bra NEXT;
    CONSUMER:
    setp.eq.u32 %p2, %w, 2; @%p2 bra SECOND;
    bar.sync 1, 64; ld.shared.u32 %r0, [cell]; add.u32 %r1, %r1, %r0; bar.arrive 3, 64; bra NEXT;
    SECOND: bar.sync 2, 64; ld.shared.u32 %r0, [cell]; add.u32 %r1, %r1, %r0; bar.arrive 4, 64;
    NEXT: add.u32 %i, %i, 1; setp.lt.u32 %p3, %i, 10; @%p3 bra LOOP;
    ld.param.u64 %o, [out]; mad.wide.u32 %o, %t, 4, %o; st.global.u32 [%o], %r1; ret;
}"""
    out = np.zeros(96, np.uint32)
    Module(body).launch("k", 1, 96, [Out(out)], schedule=Schedule(warps=order, seed=6)).raise_for_findings()
    assert out.tolist() == [0] * 32 + [45] * 64
    for barrier in ("bar.sync 3, 64;", "bar.sync 4, 64;"):  # without waiting for one of the consumers
        report = Module(body.replace(barrier, "")).launch(
            "k", 1, 96, [Out(out)], schedule=Schedule(warps=order, seed=6)
        )
        assert report.of_kind("race")
