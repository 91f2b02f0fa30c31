"""What accesses cost: bank conflicts of shared memory, sectors of global memory."""

from __future__ import annotations

import numpy as np

from flashgen.emulator.lockstep.lanes import WARP, Array

_BANKS_BYTES = 128  # what one pass through the banks delivers
_SECTOR_BITS = 5
_NOTHING = np.int64(1) << 62


def by_warp(lanes: Array, values: Array, missing: int | np.int64 = _NOTHING) -> tuple[Array, Array]:
    """(the warps of these lanes, a row of 32 values for each): ``missing`` where a lane is not among them."""
    warps, row = np.unique(lanes // WARP, return_inverse=True)
    table = np.full((len(warps), WARP), missing, np.int64)
    table[row, lanes % WARP] = values
    return warps, table


def _distinct(rows: Array) -> tuple[Array, Array]:
    """Rows in ascending order, and which elements are the first of their value."""
    ordered = np.sort(rows, axis=1)
    fresh = np.ones(ordered.shape, np.bool_)
    fresh[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    return ordered, fresh & (ordered != _NOTHING)


def wavefronts(lanes: Array, addresses: Array, size: int) -> tuple[int, int]:
    """(passes through the banks, passes if no two words of a phase shared a bank) of one instruction.

    A phase is as many lanes as 128 bytes serve: 32 of up to 4 bytes, 16 of 8, 8 of 16. Banks are as wide as what
    a lane asks for; lanes that want the same word get it together.
    """
    unit = min(max(size, 4), 16)
    _, table = by_warp(lanes, addresses // unit)
    per_phase = _BANKS_BYTES // unit
    ordered, fresh = _distinct(table.reshape(-1, per_phase))
    phase, _ = np.nonzero(fresh)
    words = np.bincount(phase * per_phase + ordered[fresh] % per_phase, minlength=per_phase * len(ordered))
    worst = words.reshape(-1, per_phase).max(axis=1)
    passes = max(size // 16, 1)
    return int(worst.sum()) * passes, int(np.count_nonzero(worst)) * passes


def sectors(lanes: Array, addresses: Array, size: int) -> Array:
    """The sectors that each warp touches: one element for each warp and sector."""
    first, last = addresses >> _SECTOR_BITS, (addresses + size - 1) >> _SECTOR_BITS
    _, table = by_warp(lanes, first)
    if (first != last).any():
        table = np.concatenate([table, by_warp(lanes, last)[1]], axis=1)
    ordered, fresh = _distinct(table)
    return ordered[fresh]
