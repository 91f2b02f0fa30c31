"""Flash-Decoding, step by step, as the decode kernels do it: splits of the keys find parts, the parts are joined."""

from __future__ import annotations

import numpy as np

from flashgen.inspect.io_decode import LANES_OF_WARP, part_width
from flashgen.inspect.trace import Run, exp_below
from flashgen.inspect.trace_fa2 import begin_rows, meet_block
from flashgen.reference import Array

Part = tuple[Array, Array, Array]  # O, not yet divided by l; l; m


def run_cpu_decode(run: Run) -> None:
    """A tile of rows has as many splits as it sees keys for; the only one of a tile is its result."""
    blocks, knobs = run.blocks, run.plan.knobs
    splits = [blocks.splits_of_size(row0, rows, knobs.split_keys) for row0, rows in blocks.row_blocks()]
    most = max(map(len, splits), default=0)
    _allocate(run, most, -(-most // knobs.lanes) * knobs.lanes)
    for i, (row0, rows) in enumerate(blocks.row_blocks()):
        parts = _attend(run, i, row0, rows, splits[i])
        if len(parts) > 1:
            _finish(run, i, row0, _join_in_vectors(run, i, row0, rows, len(parts)))
        else:
            _finish(run, i, row0, parts[0])


def run_cuda_decode(run: Run, splits: int) -> None:
    """The first launch has all parts stored, those without keys too; the second, if there are several, joins them."""
    blocks = run.blocks
    _allocate(run, splits, splits)
    alone = []
    for i, (row0, rows) in enumerate(blocks.row_blocks()):
        alone.append(_attend(run, i, row0, rows, blocks.splits_by_number(row0, rows, splits))[0])
    for i, (row0, rows) in enumerate(blocks.row_blocks()):
        _finish(run, i, row0, _join_by_warps(run, i, row0, rows, splits) if splits > 1 else alone[i])


def _allocate(run: Run, parts: int, slots: int) -> None:
    rows, size = run.blocks.rows, run.spec.dtype.compute_size
    run.allocate("O_s", rows, parts * part_width(run.spec, run.plan), size)
    for name in ("l_s", "m_s", "w_s"):
        run.allocate(name, rows, slots, size)
    run.allocate("O", rows, run.spec.head_dim_v, run.spec.dtype.size)
    run.allocate("L", rows, 1, size)


def _attend(run: Run, i: int, row0: int, rows: int, splits: list[tuple[int, int]]) -> list[Part]:
    """Lines 4 to 12 for each split."""
    parts = []
    for split, (begin, end) in enumerate(splits):
        part = _attend_split(run, i, row0, rows, begin, end)
        parts.append(part)
        if len(splits) == 1:
            continue
        o, ell, m = part
        width = part_width(run.spec, run.plan)
        run.step("line 12", i=i)
        run.store("O_s", np.pad(o, ((0, 0), (0, width - o.shape[1]))), row0, split * width)
        run.store("l_s", ell, row0, split)
        run.store("m_s", m, row0, split)
    return parts


def _attend_split(run: Run, i: int, row0: int, rows: int, begin: int, end: int) -> Part:
    q, o, ell, m = begin_rows(run, i, row0, rows)
    for key0 in range(begin, end, run.plan.bc):
        o, ell, m = meet_block(run, i, key0 // run.plan.bc, (q, o, ell, m), row0, key0, min(run.plan.bc, end - key0))
    return o, ell, m


def _join_in_vectors(run: Run, i: int, row0: int, rows: int, parts: int) -> Part:
    """Lines 14 to 16 as a CPU does them: m and l in whole vectors, the weights in the place of m."""
    lanes = run.plan.knobs.lanes
    slots = -(-parts // lanes) * lanes
    run.step("line 14", i=i)
    run.store("m_s", np.full((rows, slots - parts), -np.inf, run.compute), row0, parts)
    m = run.load("m_s", row0, rows, 0, slots).max(axis=1, keepdims=True)
    weights = exp_below(run.load("m_s", row0, rows, 0, slots), m)
    run.store("w_s", weights, row0)

    run.step("line 15", i=i)
    run.store("l_s", np.zeros((rows, slots - parts), run.compute), row0, parts)
    ell = (weights * run.load("l_s", row0, rows, 0, slots)).sum(axis=1, keepdims=True)

    run.step("line 16", i=i)
    return _weighed(run, run.load("w_s", row0, rows, 0, parts), row0), ell, m


def _join_by_warps(run: Run, i: int, row0: int, rows: int, parts: int) -> Part:
    """Lines 14 to 16 as a GPU does them: a warp to a row, and its lanes to the dims, each with all weights."""
    run.step("line 14", i=i)
    m = run.load("m_s", row0, rows, times=LANES_OF_WARP).max(axis=1, keepdims=True)
    weights = exp_below(run.load("m_s", row0, rows, times=LANES_OF_WARP), m)

    run.step("line 15", i=i)
    ell = (weights * run.load("l_s", row0, rows, times=LANES_OF_WARP)).sum(axis=1, keepdims=True)

    run.step("line 16", i=i)
    return _weighed(run, weights, row0), ell, m


def _weighed(run: Run, weights: Array, row0: int) -> Array:
    """The sum of w_s O_s, in the order of the splits."""
    (rows, parts), width = weights.shape, part_width(run.spec, run.plan)
    o = np.zeros((rows, width), run.compute)
    for split in range(parts):
        o += weights[:, split : split + 1] * run.load("O_s", row0, rows, split * width, width)
    return o[:, : run.spec.head_dim_v]


def _finish(run: Run, i: int, row0: int, whole: Part) -> None:
    """Lines 16 to 18: the division, the log-sum-exp, and what goes to memory."""
    o, ell, m = whole
    divisor = np.where(ell == 0, 1, ell)
    run.step("line 18", i=i)
    run.store("O", run.round_out((o / divisor).astype(run.compute)), row0)
    if run.lse:
        run.store("L", np.where(ell == 0, -np.inf, m + np.log(divisor)).astype(run.compute), row0)
