"""Algorithm 1 of FlashAttention, step by step, as `cpu_fa1` and `cuda_fa1` do it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from flashgen.inspect.trace import Run, exp_below
from flashgen.reference import Array


def run_cpu_fa1(run: Run) -> None:
    """O, l and m start in memory (line 2) and are copied to the output at the end (line 16)."""
    blocks = run.blocks
    _allocate(run)
    run.step("line 2")
    run.store("O", np.zeros_like(run.hbm["O"]), 0)
    run.store("l", np.zeros_like(run.hbm["l"]), 0)
    run.store("m", np.full_like(run.hbm["m"], -np.inf), 0)
    for j, (key0, keys) in enumerate(blocks.key_blocks()):
        kv = _load_kv(run, j, key0, keys)
        for i, (row0, rows) in enumerate(blocks.row_blocks()):
            if blocks.visible_of_block(row0, rows) <= key0:
                continue  # the mask hides the block
            state = _load_state(run, i, j, row0, rows, first=False)
            state = _update(run, i, j, state, kv, row0, key0, store=True)
    run.step("line 16")
    o = run.load("O", 0, blocks.seqlen_q)
    run.store("out", run.round_out(o), 0)
    if run.lse:
        ell, m = run.load("l", 0, blocks.seqlen_q), run.load("m", 0, blocks.seqlen_q)
        run.store("LSE", _log_sum_exp(ell, m), 0)


def run_cuda_fa1(run: Run, ranges: int = 1) -> None:
    """Each CTA takes a range of the query blocks; O, l and m start on chip and end in the output."""
    blocks = run.blocks
    _allocate(run)
    rows_of, keys_of = list(blocks.row_blocks()), list(blocks.key_blocks()) or [(0, 0)]
    met = [max(-(-blocks.visible_of_block(*block) // blocks.bc), 1) for block in rows_of]
    for index in range(ranges if rows_of else 0):
        begin, end = (edge * len(rows_of) // ranges for edge in (index, index + 1))
        for j in range(met[end - 1]):
            key0, keys = keys_of[j]
            kv = _load_kv(run, j, key0, keys)
            for i in range(begin, end):
                if j >= met[i]:
                    continue  # the mask hides the block
                row0, rows = rows_of[i]
                state = _load_state(run, i, j, row0, rows, first=j == 0)
                last = j == met[i] - 1
                state = _update(run, i, j, state, kv, row0, key0, store=not last)
                if last:
                    run.step("line 16", i=i, j=j)
                    run.store("out", run.round_out(state.o), row0)
                    if run.lse:
                        run.store("LSE", _log_sum_exp(state.ell, state.m), row0)


@dataclass(frozen=True, slots=True)
class _State:
    """A block of queries and what is known of it so far: Q_i, O_i, l_i (called ell, as l is easily misread), m_i."""

    q: Array
    o: Array
    ell: Array
    m: Array


def _allocate(run: Run) -> None:
    compute, n, dv = run.spec.dtype.compute_size, run.blocks.seqlen_q, run.spec.head_dim_v
    run.allocate("O", n, dv, compute)
    run.allocate("l", n, 1, compute)
    run.allocate("m", n, 1, compute)
    run.allocate("out", n, dv, run.spec.dtype.size)
    run.allocate("LSE", n, 1, compute)


def _load_kv(run: Run, j: int, key0: int, keys: int) -> tuple[Array, Array]:
    run.step("line 6", j=j)
    k, v = run.load("K", key0, keys), run.load("V", key0, keys)
    run.on_chip(K_j=k, V_j=v)
    return k, v


def _load_state(run: Run, i: int, j: int, row0: int, rows: int, first: bool) -> _State:
    run.step("line 8", i=i, j=j)
    q = run.load("Q", row0, rows)
    if first:
        o = np.zeros((rows, run.spec.head_dim_v), run.compute)
        ell, m = np.zeros((rows, 1), run.compute), np.full((rows, 1), -np.inf, run.compute)
    else:
        o, ell, m = run.load("O", row0, rows), run.load("l", row0, rows), run.load("m", row0, rows)
    run.on_chip(Q_i=q, O_i=o, l_i=ell, m_i=m)
    return _State(q, o, ell, m)


def _update(
    run: Run, i: int, j: int, old: _State, kv: tuple[Array, Array], row0: int, key0: int, store: bool
) -> _State:
    """Lines 9 to 13 for one block; O, l and m go back to HBM if ``store``."""
    k, v = kv
    run.step("line 9", i=i, j=j)
    s = run.scores(old.q, k, row0, key0)
    run.on_chip(S_ij=s)

    run.step("line 10", i=i, j=j)
    m_tilde: Array = s.max(axis=1, keepdims=True, initial=-np.inf)
    p = exp_below(s, m_tilde)
    l_tilde = p.sum(axis=1, keepdims=True)
    run.on_chip(P_ij=p, m_tilde=m_tilde, l_tilde=l_tilde)

    run.step("line 11", i=i, j=j)
    m_new = np.maximum(old.m, m_tilde)
    old_weight = exp_below(old.m, m_new) * old.ell
    new_weight = exp_below(m_tilde, m_new)
    l_new = old_weight + new_weight * l_tilde
    run.on_chip(m_new=m_new, l_new=l_new)

    run.step("line 12", i=i, j=j)
    inverse = np.where(l_new == 0, 0, 1 / np.where(l_new == 0, 1, l_new)).astype(run.compute)
    pv = p @ v
    o = np.where(m_tilde == -np.inf, old.o, inverse * (old_weight * old.o + new_weight * pv))
    run.on_chip(PV=pv, O_i=o)
    if store:
        run.store("O", o, row0)

    run.step("line 13", i=i, j=j)
    run.on_chip(l_i=l_new, m_i=m_new)
    if store:
        run.store("l", l_new, row0)
        run.store("m", m_new, row0)
    return _State(old.q, o, l_new, m_new)


def _log_sum_exp(ell: Array, m: Array) -> Array:
    return np.where(ell == 0, -np.inf, m + np.log(np.where(ell == 0, 1, ell))).astype(ell.dtype)
