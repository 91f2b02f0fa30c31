"""What happened before what, by vector clocks: one entry for each thread of a CTA.

Every synchronisation of some threads makes a new row: the latest moment of each thread that those who took
part now have in their past. Each thread has a clock of its own, which moves on at each synchronisation. An
access at time ``c`` of thread ``t`` happens before what a thread with row ``r`` does if ``row[r][t] >= c``.
"""

from __future__ import annotations

import numpy as np

from flashgen.emulator.lockstep.lanes import WARP, Array, Geometry


class History:
    """The clocks of a wave.

    Attributes:
        clock: of each lane, from 1.
        row: index of each lane's row.
    """

    def __init__(self, geometry: Geometry) -> None:
        self._geometry = geometry
        self.clock = np.ones(geometry.count, np.int32)
        self.row = np.zeros(geometry.count, np.int32)
        self._rows = np.zeros((64, geometry.cta_lanes), np.int32)
        self._used = 1

    def _new_rows(self, values: Array) -> Array:
        while self._used + len(values) > len(self._rows):
            self._rows = np.concatenate([self._rows, np.zeros_like(self._rows)])
        fresh = np.arange(self._used, self._used + len(values), dtype=np.int32)
        self._rows[fresh] = values
        self._used += len(values)
        return fresh

    def word_of(self, lanes: Array) -> Array:
        """What lanes of one CTA have done and seen up to now, as a row, for others to learn later."""
        past: Array = self._rows[np.unique(self.row[lanes])].max(axis=0)
        threads = self._geometry.thread[lanes]
        past[threads] = np.maximum(past[threads], self.clock[lanes])
        self.clock[lanes] += 1
        return past

    def synchronise(self, lanes: Array, word: Array | int = 0) -> None:
        """Lanes of one CTA meet each other, and learn a word that some have left."""
        self.row[lanes] = self._new_rows(np.maximum(self.word_of(lanes), word)[None])[0]

    def synchronise_warps(self, lanes: Array) -> None:
        """Each warp's lanes among these meet each other."""
        by_warp = lanes.reshape(-1, WARP)
        warps = np.flatnonzero(by_warp.any(axis=1))
        rows = self.row.reshape(-1, WARP)[warps]
        alike = (rows == rows[:, :1]).all(axis=1)
        for warp in warps[~alike].tolist():
            mine = warp * WARP + np.flatnonzero(by_warp[warp])
            self.synchronise(mine)
        if alike.any():
            self._synchronise_alike(by_warp, warps[alike], rows[alike][:, 0])

    def _synchronise_alike(self, by_warp: Array, warps: Array, rows: Array) -> None:
        """Warps whose lanes all have one past, at once."""
        past, members = self._rows[rows], by_warp[warps]
        columns = self._geometry.thread.reshape(-1, WARP)[warps]
        clocks = np.where(members, self.clock.reshape(-1, WARP)[warps], 0)
        known = np.maximum(np.take_along_axis(past, columns, axis=1), clocks)
        np.put_along_axis(past, columns, known, axis=1)
        fresh = np.broadcast_to(self._new_rows(past)[:, None], members.shape)
        where = (warps[:, None] * WARP + np.arange(WARP))[members]
        self.row[where] = fresh[members]
        self.clock[where] += 1

    def happened(self, thread: Array, clock: Array, row: Array) -> Array:
        """Whether accesses of ``thread`` at ``clock`` lie in the past that ``row`` holds."""
        result: Array = self._rows[row, thread] >= clock
        return result
