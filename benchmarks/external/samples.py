# ruff: noqa: E501 - rows of tables, and the authors' names
"""NVIDIA's cuda-samples: matrixMul, transpose, reduction, scan."""

from __future__ import annotations

from functools import partial

import numpy as np
from lab import Array, Case, Launch, off, outputs

from flashgen.emulator import In, InOut, Out, Report

_MATRIX = "Samples/0_Introduction/matrixMul/matrixMul.cu"
_TRANSPOSE = "Samples/6_Performance/transpose/transpose.cu"
_REDUCTION = "Samples/2_Concepts_and_Techniques/reduction/reduction_kernel.cu"
_SCAN = "Samples/2_Concepts_and_Techniques/scan/scan.cu"


def _matrix_product(tile: int) -> Case:
    rng = np.random.default_rng(tile)
    a, b = rng.integers(-8, 9, (64, 96)).astype(np.float32), rng.integers(-8, 9, (96, 128)).astype(np.float32)

    def launches() -> list[Launch]:
        c = np.zeros((64, 128), np.float32)
        return [Launch("MatrixMulCUDA", (128 // tile, 64 // tile), (tile, tile), [Out(c), In(a), In(b), 96, 128])]

    return Case(
        f"matrixMul, tiles of {tile}", ((_MATRIX, ["MatrixMulCUDA"]),), launches,
        lambda done: off(outputs(done)[0], a @ b), 0.0,
        extra=f"template __global__ void MatrixMulCUDA<{tile}>(float*, float*, float*, int, int);",
    )  # fmt: skip


def _conflicts_each(count: int) -> dict[str, object]:
    """Of the reads from the tile: half of all accesses to shared memory."""

    def holds(report: Report) -> bool:
        reads = report.shared.accesses // 2
        return report.shared.conflicts == count * reads

    name = f"{count} extra wavefronts for each read of a column" if count else "no bank conflicts"
    return {name: holds}


def _transposition(kernel: str, transposes: bool, conflicts: int | None) -> Case:
    x = np.random.default_rng(1).standard_normal((96, 96)).astype(np.float32)

    def launches() -> list[Launch]:
        out = np.zeros_like(x)
        return [Launch(kernel, (3, 3), (32, 16), [Out(out), In(x), 96, 96])]

    return Case(
        f"transpose, {kernel}", ((_TRANSPOSE, ["cg", kernel]),), launches,
        lambda done: off(outputs(done)[0], x.T if transposes else x), 0.0,
        claims={} if conflicts is None else _conflicts_each(conflicts),
    )  # fmt: skip


_HELPERS = ["cg", "SharedMemory", "warpReduceSum", "cg_reduce_n"]


def _reduction(kernel: str, kind: str, template: str, per_thread: int, blocks: int = 0) -> Case:
    """``per_thread``: elements that a thread reads; 0: as many as there are for ``blocks`` blocks."""
    count, threads = 4000, 256
    dtype = {"int": np.int32, "float": np.float32}[kind]
    x = np.random.default_rng(2).integers(-100, 100, count).astype(dtype)
    grid = blocks or -(-count // (threads * per_thread))
    qualifier = "__restrict__ " if kernel == "reduce7" else ""
    source = f"const {kind} *{qualifier}" if kernel == "reduce7" else f"{kind} *"
    # The last warp's 8 lanes shuffle down by 16 and 8, from lanes that do not take part: an undefined sum.
    # (Integers take redux.sync, which asks the members alone.)
    undefined = (kernel, kind) == ("reduce7", "float")
    known = {"inactive-lane": "8 lanes shuffle down from lanes that do not take part, so that the sum is undefined"}

    def launches() -> list[Launch]:
        return [Launch(kernel, grid, threads, [In(x), Out(np.zeros(grid, dtype)), count], shared=threads * 4)]

    return Case(
        f"reduction, {kernel}<{kind}>", ((_REDUCTION, [*_HELPERS, kernel]),), launches,
        lambda done: 0.0 if undefined else off(outputs(done)[0].sum(keepdims=True), x.sum(keepdims=True)), 0.0,
        expected=known if undefined else {},
        extra=f"template __global__ void {kernel}<{kind}{template}>({source}, {kind} *{qualifier}, unsigned int);",
    )  # fmt: skip


_SCAN_NAMES = ["cg", "scan1Inclusive", "scan1Exclusive", "scan4Inclusive", "scan4Exclusive"]
_SCAN_KERNELS = ["scanExclusiveShared", "scanExclusiveShared2", "uniformUpdate"]
_PER_BLOCK = 1024


def _exclusive(x: Array) -> Array:
    return np.cumsum(x, axis=1, dtype=np.uint32) - x


def _scan(length: int, batch: int) -> Case:
    x = np.random.default_rng(3).integers(0, 1000, (batch, length), dtype=np.uint32)
    blocks = x.size // _PER_BLOCK

    def launches() -> list[Launch]:
        out = np.zeros_like(x)
        first = Launch("scanExclusiveShared", blocks, 256, [Out(out), In(x), min(length, _PER_BLOCK)])
        if length <= _PER_BLOCK:
            return [first]
        sums = np.zeros(blocks, np.uint32)
        return [
            first,
            Launch("scanExclusiveShared2", -(-blocks // 256), 256, [Out(sums), InOut(out), In(x), blocks, length // _PER_BLOCK]),
            Launch("uniformUpdate", blocks, 256, [InOut(out), In(sums)]),
        ]  # fmt: skip

    return Case(
        f"scan, {batch} arrays of {length}", ((_SCAN, [*_SCAN_NAMES, *_SCAN_KERNELS]),), launches,
        lambda done: off(outputs(done)[-1], _exclusive(x)), 0.0,
    )  # fmt: skip


def cases() -> list[Case]:
    """All of them."""
    integers = partial(_reduction, kind="int")
    floats = partial(_reduction, kind="float")
    found = [_matrix_product(16), _matrix_product(32)]
    found += [
        _transposition("copy", False, None),
        _transposition("copySharedMem", False, 0),
        _transposition("transposeNaive", True, None),
        _transposition("transposeCoalesced", True, 31),
        _transposition("transposeNoBankConflicts", True, 0),
        _transposition("transposeDiagonal", True, 0),
    ]
    for make in (integers, floats):
        found += [make(f"reduce{k}", template="", per_thread=1) for k in range(3)]
        found += [make("reduce3", template="", per_thread=2)]
        found += [make(f"reduce{k}", template=", 256", per_thread=2) for k in (4, 5)]
        found += [make(f"reduce{k}", template=", 256, false", per_thread=0, blocks=4) for k in (6, 7)]
        found += [make("cg_reduce", template="", per_thread=0, blocks=4)]
    found += [_scan(256, 16), _scan(1024, 4), _scan(8192, 2)]
    return found
