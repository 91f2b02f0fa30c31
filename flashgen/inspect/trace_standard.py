"""Standard attention, step by step, as `cpu_standard` and `cuda_standard` do it: S and P live in HBM."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from flashgen.inspect.trace import Run, exp_below
from flashgen.reference import Array


def run_cpu_standard(run: Run) -> None:
    """A block of keys serves all blocks of queries in pass 1; pass 2 normalises P where it lies."""
    blocks = run.blocks
    _allocate(run)
    for j, (key0, keys) in enumerate(blocks.key_blocks()):
        run.step("pass 1", j=j)
        k = run.load("K", key0, keys)
        run.on_chip(K_j=k)
        for i, (row0, rows) in enumerate(blocks.row_blocks()):
            run.step("pass 1", i=i, j=j)
            _scores(run, k, row0, rows, key0)
    for row in range(blocks.seqlen_q):
        _probabilities(run, row, reads_of_s=2, in_place=True)
    for i, (row0, rows) in enumerate(blocks.row_blocks()):
        o = np.zeros((rows, run.spec.head_dim_v), run.compute)
        for j, (key0, keys) in enumerate(blocks.key_blocks()):
            run.step("pass 3", i=i, j=j)
            v = run.load("V", key0, keys)
            lengths = [min(max(blocks.visible(row0 + r) - key0, 0), keys) for r in range(rows)]
            p = run.load_ragged("P", row0, lengths, key0)
            o += p @ v[: p.shape[1]]
            run.on_chip(P_ij=p, V_j=v, O_i=o)
        _store_output(run, i, o, row0)


def run_cuda_standard(run: Run) -> None:
    """Each block of S is a CTA's; pass 2 reads a row three times; pass 3 skips what no row of a block sees."""
    blocks = run.blocks
    _allocate(run)
    for i, (row0, rows) in enumerate(blocks.row_blocks()):
        for j, (key0, keys) in enumerate(blocks.key_blocks()):
            run.step("pass 1", i=i, j=j)
            k = run.load("K", key0, keys)
            run.on_chip(K_j=k)
            _scores(run, k, row0, rows, key0)
    for row in range(blocks.seqlen_q):
        _probabilities(run, row, reads_of_s=3, in_place=False)
    for i, (row0, rows) in enumerate(blocks.row_blocks()):
        o = np.zeros((rows, run.spec.head_dim_v), run.compute)
        for j, key0, keys in _met(run, row0, rows):
            run.step("pass 3", i=i, j=j)
            v, p = run.load("V", key0, keys), run.load("P", row0, rows, key0, keys)
            o += p @ v
            run.on_chip(P_ij=p, V_j=v, O_i=o)
        _store_output(run, i, o, row0)


def _allocate(run: Run) -> None:
    compute, n, nk = run.spec.dtype.compute_size, run.blocks.seqlen_q, run.blocks.seqlen_k
    run.allocate("S", n, nk, compute)
    run.allocate("P", n, nk, compute)
    run.allocate("O", n, run.spec.head_dim_v, run.spec.dtype.size)
    run.allocate("LSE", n, 1, compute)


def _scores(run: Run, k: Array, row0: int, rows: int, key0: int) -> None:
    q = run.load("Q", row0, rows)
    s = run.scores(q, k, row0, key0)
    run.on_chip(Q_i=q, S_ij=s)
    run.store("S", s, row0, key0)


def _probabilities(run: Run, row: int, reads_of_s: int, in_place: bool) -> None:
    seen, nk = run.blocks.visible(row), run.blocks.seqlen_k
    run.step("pass 2", row=row)
    for _ in range(reads_of_s):
        s = run.load("S", row, 1, 0, seen)
    row_max: Array = s.max(axis=1, keepdims=True, initial=-np.inf)
    p = np.zeros((1, nk), run.compute)
    p[:, :seen] = exp_below(s, row_max)
    row_sum = p.sum(axis=1, keepdims=True)
    if in_place:
        run.store("P", p[:, :seen], row)
        p[:, :seen] = run.load("P", row, 1, 0, seen)
    p /= np.where(row_sum == 0, 1, row_sum)
    run.on_chip(S_row=s, m_row=row_max, l_row=row_sum, P_row=p)
    run.store("P", p, row)
    if run.lse:
        lse = np.where(row_sum == 0, -np.inf, row_max + np.log(np.where(row_sum == 0, 1, row_sum)))
        run.store("LSE", lse.astype(run.compute), row)


def _met(run: Run, row0: int, rows: int) -> Iterator[tuple[int, int, int]]:
    seen = run.blocks.visible_of_block(row0, rows)
    for j, (key0, keys) in enumerate(run.blocks.key_blocks()):
        if key0 < seen:
            yield j, key0, keys


def _store_output(run: Run, i: int, o: Array, row0: int) -> None:
    run.step("pass 3", i=i)
    run.store("O", run.round_out(o), row0)
