"""Kernels in Triton, compiled to PTX without a GPU: text that another compiler wrote, for the emulator to run."""

# ruff: noqa: E741 - Triton's constants are upper-case, and l is the field's name for the row sum

from __future__ import annotations

from dataclasses import dataclass

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

LOG2_E = tl.constexpr(1.4426950408889634)
LN_2 = tl.constexpr(0.6931471805599453)


@triton.jit
def attention(
    q, k, v, out, lse, seqlen_q, seqlen_k, scale,
    BR: tl.constexpr, BC: tl.constexpr, D: tl.constexpr, CAUSAL: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """Forward attention of contiguous (heads, seqlen, D) arrays; CAUSAL aligns at the top left."""
    tile, head = tl.program_id(0), tl.program_id(1).to(tl.int64)
    rows = tile * BR + tl.arange(0, BR)
    dims = tl.arange(0, D)
    q += head * seqlen_q * D
    k += head * seqlen_k * D
    v += head * seqlen_k * D
    q_tile = tl.load(q + rows[:, None] * D + dims[None, :], mask=rows[:, None] < seqlen_q, other=0.0)
    m = tl.full([BR], float("-inf"), tl.float32)
    l = tl.zeros([BR], tl.float32)
    acc = tl.zeros([BR, D], tl.float32)
    end = tl.minimum(seqlen_k, (tile + 1) * BR) if CAUSAL else seqlen_k
    for j in tl.range(0, end, BC, num_stages=STAGES):
        keys = j + tl.arange(0, BC)
        k_tile = tl.load(k + keys[None, :] * D + dims[:, None], mask=keys[None, :] < seqlen_k, other=0.0)
        v_tile = tl.load(v + keys[:, None] * D + dims[None, :], mask=keys[:, None] < seqlen_k, other=0.0)
        visible = keys[None, :] < seqlen_k
        if CAUSAL:
            visible = visible & (keys[None, :] <= rows[:, None])
        s = tl.where(visible, tl.dot(q_tile, k_tile) * (scale * LOG2_E), float("-inf"))
        m_new = tl.maximum(m, tl.max(s, 1))
        p = tl.exp2(s - m_new[:, None])
        alpha = tl.exp2(m - m_new)
        l = l * alpha + tl.sum(p, 1)
        acc = tl.dot(p.to(v_tile.dtype), v_tile, acc * alpha[:, None])
        m = m_new
    tl.store(lse + head * seqlen_q + rows, (m + tl.log2(l)) * LN_2, mask=rows < seqlen_q)
    place = out + head * seqlen_q * D + rows[:, None] * D + dims[None, :]
    tl.store(place, (acc / l[:, None]).to(out.dtype.element_ty), mask=rows[:, None] < seqlen_q)


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


@dataclass(frozen=True)
class Compiled:
    """What a launch needs: the PTX, dynamic shared memory in bytes, threads of a block."""

    ptx: str
    shared: int
    threads: int


def compile_for(
    kernel: object,
    types: dict[str, str],
    constants: dict[str, object],
    *,
    warps: int = 4,
    stages: int = 3,
    arch: int = 80,
) -> Compiled:
    """PTX of a kernel whose pointers are aligned to 16 bytes."""
    signature = {**types, **dict.fromkeys(constants, "constexpr")}
    aligned = {(n,): [["tt.divisibility", 16]] for n, kind in enumerate(types.values()) if kind.startswith("*")}
    source = ASTSource(kernel, signature=signature, constexprs=constants, attrs=aligned)
    options = {"num_warps": warps, "num_stages": stages}
    built = triton.compile(source, target=GPUTarget("cuda", arch, 32), options=options)
    return Compiled(built.asm["ptx"], built.metadata.shared, 32 * warps)
