"""Kernels in Triton, compiled to PTX without a GPU: text that another compiler wrote, for the emulator to run."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def matmul(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, STAGES: tl.constexpr):
    """C = A B of contiguous matrices, summed in the type of C; K is a multiple of BK."""
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros([BM, BN], c.dtype.element_ty)
    for start in tl.range(0, K, BK, num_stages=STAGES):
        inner = start + tl.arange(0, BK)
        left = tl.load(a + rows[:, None] * K + inner[None, :], mask=rows[:, None] < M)
        right = tl.load(b + inner[:, None] * N + columns[None, :], mask=columns[None, :] < N)
        acc = tl.dot(left, right, acc, out_dtype=c.dtype.element_ty)
    inside = (rows[:, None] < M) & (columns[None, :] < N)
    tl.store(c + rows[:, None] * N + columns[None, :], acc, mask=inside)


@triton.jit
def weight_gradient(x, dy, dw, locks, N, ROWS, GROUPS: tl.constexpr, BN: tl.constexpr):
    """Sums dy * xhat over rows, GROUPS partial sums each behind a lock: atomics, loops that spin, reductions."""
    row = tl.program_id(0)
    columns = tl.arange(0, BN)
    inside = columns < N
    xs = tl.load(x + row * N + columns, mask=inside, other=0.0).to(tl.float32)
    mean = tl.sum(xs, 0) / N
    centred = tl.where(inside, xs - mean, 0.0)
    rstd = tl.rsqrt(tl.sum(centred * centred, 0) / N + 1e-5)
    grad = tl.load(dy + row * N + columns, mask=inside, other=0.0).to(tl.float32) * centred * rstd
    group = row % GROUPS
    while tl.atomic_cas(locks + group, 0, 1) == 1:
        pass
    place = dw + group * N + columns
    tl.store(place, tl.load(place, mask=inside) + grad, mask=inside)
    tl.debug_barrier()
    tl.atomic_xchg(locks + group, 0)
