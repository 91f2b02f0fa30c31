"""atom and red: results, returned values, every thread of several blocks at once."""

from __future__ import annotations

import functools
import operator

import numpy as np
import pytest
from emulator_oracle import F32

from flashgen.emulator import In, InOut, Module, Out, Schedule

pytestmark = pytest.mark.usefixtures("each_executor")
_BLOCKS, _THREADS = 3, 70
_N = _BLOCKS * _THREADS


def kernel(operation: str, width: int, space: str, has_c: bool = False) -> Module:
    """Each thread applies ``operation`` to one cell of [space] and stores what came back."""
    reg = {16: "%h", 32: "%r", 64: "%x"}[width]
    place = "%x4" if space == "global" else "%r9"
    third = f", {reg}3" if has_c else ""
    return Module(f"""
.version 8.6
.target sm_90
.address_size 64
.entry k(.param .u64 cell, .param .u64 b, .param .u64 c, .param .u64 old)
{{
    .reg .b16 %h<5>; .reg .b32 %r<12>; .reg .b64 %x<9>; .reg .pred %p;
    .shared .align 8 .b8 tile[8];
    mov.u32 %r5, %ctaid.x; mov.u32 %r6, %ntid.x; mov.u32 %r7, %tid.x; mad.lo.u32 %r5, %r5, %r6, %r7;
    ld.param.u64 %x5, [b]; mad.wide.u32 %x5, %r5, {width // 8}, %x5; ld.global.b{width} {reg}2, [%x5];
    ld.param.u64 %x5, [c]; mad.wide.u32 %x5, %r5, {width // 8}, %x5; ld.global.b{width} {reg}3, [%x5];
    ld.param.u64 %x4, [cell];
    mov.u32 %r9, tile;
    setp.ne.u32 %p, %r7, 0;
    ld.volatile.global.b{width} {reg}1, [%x4];
    @!%p st.shared.b{width} [%r9], {reg}1;
    bar.sync 0;
    atom.{operation} {reg}1, [{place}], {reg}2{third};
    ld.param.u64 %x5, [old]; mad.wide.u32 %x5, %r5, {width // 8}, %x5; st.global.b{width} [%x5], {reg}1;
    bar.sync 0;
    @%p ret;
    ld.shared.b{width} {reg}1, [%r9];
    {f"st.global.b{width} [%x4], {reg}1;" if space == "shared" else ""}
    ret;
}}""")


def run(operation: str, dtype, start, b, space: str, c=None, blocks: int = _BLOCKS):
    dtype = np.dtype(dtype)
    cell = np.array([start], dtype)
    b = np.resize(np.asarray(b, dtype), _N)
    c = np.resize(np.asarray(b if c is None else c, dtype), _N)
    old = np.zeros(_THREADS * blocks, dtype)
    name = f"{space}.{operation}"
    module = kernel(name, dtype.itemsize * 8, space, has_c=".cas" in name)
    module.launch("k", blocks, _THREADS, [InOut(cell), In(b), In(c), Out(old)]).raise_for_findings()
    return cell[0], old, b[: _THREADS * blocks]


def _wrap(x: int, dtype) -> int:
    info = np.iinfo(dtype)
    return (x - int(info.min)) % (1 << info.bits) + int(info.min)


_REDUCTIONS = [
    *(("add", t, lambda s, b, d: _wrap(s + sum(b), d)) for t in ("u32", "s32", "u64", "s64")),
    *(("min", t, lambda s, b, d: min(s, *b)) for t in ("u32", "s32", "u64", "s64")),
    *(("max", t, lambda s, b, d: max(s, *b)) for t in ("u32", "s32", "u64", "s64")),
    *(("and", t, lambda s, b, d: functools.reduce(operator.and_, b, s)) for t in ("b32", "b64")),
    *(("or", t, lambda s, b, d: functools.reduce(operator.or_, b, s)) for t in ("b32", "b64")),
    *(("xor", t, lambda s, b, d: functools.reduce(operator.xor, b, s)) for t in ("b32", "b64")),
]


@pytest.mark.parametrize("space", ["global", "shared"])
@pytest.mark.parametrize("op,kind,formula", _REDUCTIONS, ids=[f"{op}.{t}" for op, t, _ in _REDUCTIONS])
def test_integer_reductions(op: str, kind: str, formula, space: str) -> None:
    dtype = np.dtype(("i" if kind[0] == "s" else "u") + str(int(kind[1:]) // 8))
    info = np.iinfo(dtype)
    b = np.random.default_rng(3).integers(info.min, info.max, _N, dtype=dtype, endpoint=True)
    start = int(b[7])
    blocks = _BLOCKS if space == "global" else 1
    final, old, used = run(f"{op}.{kind}", dtype, start, b, space, blocks=blocks)
    assert int(final) == formula(start, [int(x) for x in used], dtype)
    assert start in old.tolist()  # the first to come saw the start


@pytest.mark.parametrize("space", ["global", "shared"])
def test_exchange_hands_every_value_on_once(space: str) -> None:
    for kind, dtype in (("b32", np.uint32), ("b64", np.uint64)):
        blocks = _BLOCKS if space == "global" else 1
        b = np.arange(100, 100 + _N, dtype=dtype)
        final, old, used = run(f"exch.{kind}", dtype, 7, b, space, blocks=blocks)
        assert sorted([int(final), *map(int, old)]) == sorted([7, *map(int, used)])


@pytest.mark.parametrize("space", ["global", "shared"])
@pytest.mark.parametrize("kind,dtype", [("b16", np.uint16), ("b32", np.uint32), ("b64", np.uint64)])
def test_compare_and_swap_succeeds_once(kind: str, dtype, space: str) -> None:
    blocks = _BLOCKS if space == "global" else 1
    final, old, _ = run(f"cas.{kind}", dtype, 9, [9], space, c=np.arange(1000, 1000 + _N), blocks=blocks)
    winners = [k for k in range(len(old)) if old[k] == 9]
    assert len(winners) == 1 and final == 1000 + winners[0] and all(x == final for x in np.delete(old, winners[0]))


@pytest.mark.parametrize("space", ["global", "shared"])
def test_inc_and_dec_wrap_at_their_bound(space: str) -> None:
    blocks = _BLOCKS if space == "global" else 1
    n = _THREADS * blocks
    final, old, _ = run("inc.u32", np.uint32, 0, [16], space, blocks=blocks)
    assert final == n % 17 and sorted(old.tolist()) == sorted(k % 17 for k in range(n))
    final, old, _ = run("dec.u32", np.uint32, 5, [16], space, blocks=blocks)
    assert sorted(old.tolist()) == sorted((5 - k) % 17 for k in range(n))
    final, old, _ = run("dec.u32", np.uint32, 40, [16], space, blocks=1)
    assert old.tolist().count(40) == 1 and final == (16 - (_THREADS - 1)) % 17  # above the bound: back to it


@pytest.mark.parametrize("space", ["global", "shared"])
@pytest.mark.parametrize("kind,dtype", [("f32", np.float32), ("f64", np.float64), ("noftz.f16", np.float16)])
def test_float_addition(kind: str, dtype, space: str) -> None:
    blocks = _BLOCKS if space == "global" else 1
    final, old, used = run(f"add.{kind}", dtype, 3, np.arange(_N) % 5, space, blocks=blocks)
    assert final == 3 + used.sum() and 3 in old.tolist()


@pytest.mark.parametrize("kind,half", [("f16x2", np.float16), ("bf16x2", None)])
def test_packed_addition(kind: str, half) -> None:
    import ml_dtypes

    half = half or ml_dtypes.bfloat16
    pairs = np.array([[1, 2], [0, -1]], half)  # sums that both formats hold exactly
    final, _, _ = run(f"add.noftz.{kind}", np.uint32, 0, pairs.view(np.uint32).ravel(), "global")
    n = _N // 2
    assert np.array([final], np.uint32).view(half).astype(float).tolist() == [n, n]


def test_bf16_addition() -> None:
    import ml_dtypes

    one = np.array([1], ml_dtypes.bfloat16).view(np.uint16)
    final, _, _ = run("add.noftz.bf16", np.uint16, 0, one, "global")
    assert float(np.array([final], np.uint16).view(ml_dtypes.bfloat16)[0]) == _N


def test_global_float_addition_flushes_subnormals_and_shared_does_not() -> None:
    tiny = np.array([1], np.uint32)
    assert F32.subnormal(int(tiny[0]))
    final, _, _ = run("add.f32", np.float32, 0, tiny.view(np.float32), "global")
    assert final == 0
    final, _, _ = run("add.f32", np.float32, 0, tiny.view(np.float32), "shared", blocks=1)
    assert int(np.array([final]).view(np.uint32)[0]) == _THREADS


def test_vector_reduction_and_generic_address() -> None:
    module = Module(
        """
.version 8.6
.target sm_90
.address_size 64
.entry k(.param .u64 cells)
{
    .reg .b64 %x; .reg .f32 %f<5>; .reg .b32 %r;
    ld.param.u64 %x, [cells];
    mov.f32 %f0, 0f3F800000; mov.f32 %f1, 0f40000000; mov.f32 %f2, 0f40400000; mov.f32 %f3, 0f40800000;
    red.global.add.v4.f32 [%x], {%f0, %f1, %f2, %f3};
    red.relaxed.gpu.add.f32 [%x+16], %f1;
    atom.add.u32 %r, [%x+20], 1;
    atom.global.v4.f32.add {%f0, %f1, %f2, %f3}, [%x], {%f3, %f2, %f1, %f0};
    ret;
}""".replace("atom.global.v4.f32.add", "atom.global.add.v4.f32")
    )
    cells = np.zeros(6, np.float32)
    module.launch("k", 2, 64, [InOut(cells)], schedule=Schedule(threads=1)).raise_for_findings()
    assert cells[4] == 2 * 128 and cells.view(np.uint32)[5] == 128
    assert cells[0] == 128 * (1 + 4) and cells[1] == 128 * (2 + 3) and cells[3] == 128 * (4 + 1)
