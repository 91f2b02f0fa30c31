"""What asynchronous copies are still to write to shared memory: nobody may touch it before."""

from __future__ import annotations

import numpy as np

from flashgen.emulator.lockstep.access import Access, Storage
from flashgen.emulator.lockstep.findings import Findings
from flashgen.emulator.lockstep.lanes import WARP, Array, Geometry


class Flight:
    """The cells of shared memory that copies in flight are to write.

    Attributes:
        arriving: the bytes that are to come, each at its place.
    """

    def __init__(self, cells: int, size: int, geometry: Geometry, findings: Findings) -> None:
        self._copy = np.zeros(cells, np.int64)  # 1 + the instruction that is to write it; 0: none
        self._lane = np.zeros(cells, np.int64)
        self._cells = 0
        self._geometry, self._findings = geometry, findings
        self.arriving = Storage(np.zeros(size, np.uint8))

    def holds(self, cells: Array) -> Array | None:
        """Which of these cells are to be written; None: not one of them."""
        if self._cells == 0:
            return None
        found: Array = self._copy[cells] != 0
        return found if found.any() else None

    def start(self, access: Access, cells: Array) -> None:
        """A copy sets out; ``cells``: a row for each of its lanes."""
        self._cells += int(np.count_nonzero(self._copy[np.unique(cells)] == 0))
        self._copy[cells] = access.instruction + 1
        self._lane[cells] = access.lanes[:, None]

    def end(self, cells: Array) -> None:
        """Copies have landed, or somebody has written there."""
        cells = np.unique(cells)
        self._cells -= int(np.count_nonzero(self._copy[cells]))
        self._copy[cells] = 0

    def tell(self, access: Access, cells: Array, hit: Array) -> None:
        """One finding for each warp that touches what is to be written; ``hit``: which cells of which lanes."""
        lanes = hit.any(axis=1)
        warps = access.lanes // WARP
        for warp in np.unique(warps[lanes]).tolist():
            mine = np.flatnonzero(lanes & (warps == warp))
            cell = int(cells[mine[0]][hit[mine[0]]][0])
            mask = int(np.bitwise_or.reduce(np.left_shift(1, access.lanes[mine] % WARP)))
            cta = int(self._geometry.cta[warp * WARP])
            self._findings.add(
                "in-flight", access.instruction, cta, warp % self._geometry.warps, mask, space="shared",
                address=int(access.addresses[mine[0]]), size=access.size,
                other_instruction=int(self._copy[cell]) - 1,
                other_warp=int(self._lane[cell]) // WARP % self._geometry.warps,
            )  # fmt: skip
