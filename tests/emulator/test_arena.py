# ruff: noqa: E501 - lines of PTX and of case tables read best whole
"""Global memory as kernels see it: strides, offsets, shared storage, huge spans, several launches."""

from __future__ import annotations

import mmap

import numpy as np
import pytest

from flashgen.emulator import In, InOut, Module, Out
from flashgen.emulator.arena import MAP_SPARSE, Arena
from flashgen.emulator.arguments import Buffer
from flashgen.errors import ArgumentError, LaunchError

pytestmark = pytest.mark.usefixtures("each_executor")
_HEAD = ".version 8.0\n.target sm_80\n.address_size 64\n"
# out[i] = in[i * stride] + 1, for i below n; the stride counts elements and may be negative
_GATHER = Module(f"""{_HEAD}
.entry gather(.param .u64 in, .param .u64 out, .param .s64 stride, .param .u32 n)
{{
    .reg .b32 %t, %n, %r<4>; .reg .b64 %i, %o, %s, %k; .reg .f32 %x; .reg .pred %p;
    mov.u32 %r0, %ctaid.x; mov.u32 %r1, %ntid.x; mov.u32 %r2, %tid.x; mad.lo.u32 %t, %r0, %r1, %r2;
    ld.param.u32 %n, [n]; setp.ge.u32 %p, %t, %n; @%p ret;
    ld.param.u64 %i, [in]; ld.param.u64 %o, [out]; ld.param.s64 %s, [stride];
    cvt.u64.u32 %k, %t; mul.lo.s64 %k, %k, %s; shl.b64 %k, %k, 2; add.s64 %i, %i, %k;
    mad.wide.u32 %o, %t, 4, %o;
    ld.global.f32 %x, [%i]; add.f32 %x, %x, 0f3F800000; st.global.f32 [%o], %x; ret;
}}""")


def gather(source: np.ndarray, out: np.ndarray, stride: int, n: int):
    return _GATHER.launch("gather", -(-n // 64), 64, [In(source, "source"), Out(out, "out"), stride, n])


@pytest.mark.parametrize("view", [
    lambda a: a, lambda a: a[::2], lambda a: a[::-1], lambda a: a[7:], lambda a: np.broadcast_to(a[:1], (50,)), lambda a: a[90::-3],
])  # fmt: skip
def test_any_stride(view) -> None:
    source = view(np.arange(100, dtype=np.float32))
    out = np.full(len(source), np.nan, np.float32)
    report = gather(source, out, source.strides[0] // 4, len(source))
    report.raise_for_findings()
    np.testing.assert_array_equal(out, source + 1)


def test_alignment_is_that_of_the_callers_storage() -> None:
    storage = np.zeros(1000, np.float32)
    for offset in (0, 1, 3, 64, 65):
        arena = Arena([Buffer(storage[offset:], "in", "a")], bytearray())
        assert arena.address(storage[offset:]) % 256 == 4 * offset % 256


def test_addresses_do_not_depend_on_the_run() -> None:
    arrays = [np.zeros(k, np.float32) for k in (10, 1000, 3)]
    addresses = [[Arena([Buffer(a, "in") for a in arrays], bytearray()).address(a) for a in arrays] for _ in range(2)]
    assert addresses[0] == addresses[1] == sorted(addresses[0])


def test_a_view_of_many_gigabytes_costs_what_it_holds() -> None:
    """Rows 2^33 elements apart: 64-bit offsets, on storage that exists only where it is touched."""
    stride = 1 << 33
    memory = mmap.mmap(-1, 4 * (3 * stride + 1), flags=MAP_SPARSE)
    storage = np.frombuffer(memory, np.float32)
    rows = np.lib.stride_tricks.as_strided(storage, (4,), (4 * stride,))
    rows[...] = [1, 2, 3, 4]
    out = np.full(4, np.nan, np.float32)
    gather(rows, out, stride, 4).raise_for_findings()
    assert out.tolist() == [2, 3, 4, 5]
    assert gather(rows, out, stride - 1, 4).of_kind("out-of-bounds")


def test_arrays_may_be_empty() -> None:
    out = np.zeros(0, np.float32)
    report = _GATHER.launch("gather", 1, 64, [In(np.zeros(0, np.float32)), Out(out), 1, 0])
    assert report.ok
    report = _GATHER.launch("gather", 1, 64, [In(np.zeros(0, np.float32)), Out(np.zeros(1, np.float32)), 1, 1])
    assert report.of_kind("out-of-bounds")


def test_the_same_array_twice_has_one_address() -> None:
    both = np.arange(10, dtype=np.float32)
    _GATHER.launch("gather", 1, 32, [InOut(both), InOut(both), 1, 10]).raise_for_findings()
    assert both.tolist() == list(range(1, 11))


def test_an_array_that_cannot_be_written_is_an_input() -> None:
    source = np.arange(10, dtype=np.float32)
    source.flags.writeable = False
    report = _GATHER.launch("gather", 1, 32, [source, source, 1, 10])
    assert {f.kind for f in report.findings} == {"forbidden-write"} and source.tolist() == list(range(10))


def test_several_launches_share_a_memory() -> None:
    source, middle, out = (
        np.arange(40, dtype=np.float32),
        np.full(40, np.nan, np.float32),
        np.full(40, np.nan, np.float32),
    )
    memory = _GATHER.memory(In(source, "source"), Out(middle, "middle"), Out(out, "out"))
    first = _GATHER.launch("gather", 1, 64, [source, middle, 1, 40], memory=memory)
    second = _GATHER.launch("gather", 1, 64, [middle, out, 1, 39], memory=memory)
    assert first.ok and second.ok and np.isnan(out).all()
    (finding,) = memory.finish()
    assert finding.message == "unwritten-output: 1 of 40 elements of out, the first at [39]"
    assert out[:39].tolist() == list(range(2, 41))


def test_red_zones_lie_between_arrays() -> None:
    source, out = np.zeros(10, np.float32), np.zeros(2000, np.float32)
    for beyond in (1, 10, 1000, -1, -500):
        report = _GATHER.launch("gather", 1, 1, [In(source, "source"), InOut(out), 1, 1])
        assert report.ok
        report = _GATHER.launch(
            "gather", 1, 2, [In(source, "source"), InOut(out), 9 + beyond if beyond > 0 else beyond, 2]
        )
        assert report.of_kind("out-of-bounds"), beyond


@pytest.mark.parametrize("args,message", [
    ([np.zeros(1, np.float32)], "takes 4 arguments, not 1"),
    ([np.zeros(1, np.float32), np.zeros(1, np.float32), 1, "x"], "n cannot be a str"),
    ([np.zeros(1, np.float32), np.zeros(1, np.float32), 1, 1 << 40], "n has 32 bits"),
    ([np.zeros(1, np.float32), np.zeros(1, np.float32), 1, bytes(5)], "n takes 4 bytes, not 5"),
])  # fmt: skip
def test_arguments_that_do_not_fit(args, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        _GATHER.launch("gather", 1, 32, args)


@pytest.mark.parametrize("entry,grid,block,shared,message", [
    ("scatter", 1, 32, 0, "There is no kernel 'scatter'; the module has gather"), ("gather", 0, 32, 0, "must be positive"),
    ("gather", (1, 70000), 32, 0, "at most 65535"), ("gather", 1, 1025, 0, "1024 is the most"), ("gather", 1, (8, 1, 65), 0, "64 in z"),
    ("gather", 1, 32, 300_000, "no GPU grants more"), ("gather", (1, 1, 1, 1), 32, 0, "1 to 3 sizes"),
])  # fmt: skip
def test_launches_that_no_gpu_takes(entry: str, grid, block, shared: int, message: str) -> None:
    array = np.zeros(64, np.float32)
    with pytest.raises(LaunchError, match=message):
        _GATHER.launch(entry, grid, block, [array, array, 1, 1], shared=shared)


def test_launch_bounds_are_kept() -> None:
    module = Module(f"{_HEAD}.entry k() .maxntid 64, 1, 1 {{ ret; }}")
    module.launch("k", 1, 64, [])
    with pytest.raises(LaunchError, match="at most 64 threads, not 96"):
        module.launch("k", 1, 96, [])
