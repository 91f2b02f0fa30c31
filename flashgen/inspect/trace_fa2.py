"""FlashAttention-2's loop order, step by step, as the fa2 kernels do it: queries stay, keys stream past."""

from __future__ import annotations

import numpy as np

from flashgen.inspect.trace import Run, exp_below
from flashgen.reference import Array


def run_fa2(run: Run) -> None:
    """One block of queries after the other. Of K and V, a block loads what a row of it sees."""
    blocks = run.blocks
    run.allocate("O", blocks.seqlen_q, run.spec.head_dim_v, run.spec.dtype.size)
    run.allocate("L", blocks.seqlen_q, 1, run.spec.dtype.compute_size)
    for i, (row0, rows) in enumerate(blocks.row_blocks()):
        q, o, ell, m = begin_rows(run, i, row0, rows)
        seen = blocks.visible_of_block(row0, rows)
        for j, (key0, keys) in enumerate(blocks.key_blocks()):
            if key0 >= seen:
                break  # the mask hides this block and all that follow
            o, ell, m = meet_block(run, i, j, (q, o, ell, m), row0, key0, min(keys, seen - key0))
        _finish(run, i, o, ell, m, row0)


def begin_rows(run: Run, i: int, row0: int, rows: int) -> tuple[Array, Array, Array, Array]:
    """Lines 4 and 5: a block of queries comes on chip; its O, l and m before it has met any key."""
    run.step("line 4", i=i)
    q = run.load("Q", row0, rows)
    run.on_chip(Q_i=q)

    run.step("line 5", i=i)
    o = np.zeros((rows, run.spec.head_dim_v), run.compute)
    ell, m = np.zeros((rows, 1), run.compute), np.full((rows, 1), -np.inf, run.compute)
    run.on_chip(O_i=o, l_i=ell, m_i=m)
    return q, o, ell, m


def meet_block(
    run: Run, i: int, j: int, state: tuple[Array, Array, Array, Array], row0: int, key0: int, keys: int
) -> tuple[Array, Array, Array]:
    """Lines 7 to 10: a block of queries, with its O, l and m, meets ``keys`` keys; returns the new O, l and m."""
    q, o, ell, m = state
    run.step("line 7", i=i, j=j)
    k, v = run.load("K", key0, keys), run.load("V", key0, keys)
    run.on_chip(K_j=k, V_j=v)

    run.step("line 8", i=i, j=j)
    s = run.scores(q, k, row0, key0)
    run.on_chip(S_ij=s)

    run.step("line 9", i=i, j=j)
    m_new = np.maximum(m, s.max(axis=1, keepdims=True, initial=-np.inf))
    alpha = exp_below(m, m_new)
    p = exp_below(s, m_new)
    l_sum = p.sum(axis=1, keepdims=True)
    l_new = alpha * ell + l_sum
    run.on_chip(P_ij=p, m_new=m_new, l_tilde=l_sum, l_i=l_new)

    run.step("line 10", i=i, j=j)
    pv = p @ v
    o = alpha * o + pv
    run.on_chip(PV=pv, O_i=o, m_i=m_new)
    return o, l_new, m_new


def _finish(run: Run, i: int, o: Array, ell: Array, m: Array, row0: int) -> None:
    divisor = np.where(ell == 0, 1, ell)
    run.step("line 12", i=i)
    o = (o / divisor).astype(run.compute)  # a row that saw no key has O = 0 already
    run.on_chip(O_i=o)

    run.step("line 13", i=i)
    log_sum_exp = np.where(ell == 0, -np.inf, m + np.log(divisor)).astype(run.compute)
    run.on_chip(L_i=log_sum_exp)

    run.step("line 14", i=i)
    run.store("O", run.round_out(o), row0)
    if run.lse:
        run.step("line 15", i=i)
        run.store("L", log_sum_exp, row0)
