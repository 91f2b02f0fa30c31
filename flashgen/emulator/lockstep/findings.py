"""What went wrong in a launch, in the records that the reports read."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from flashgen.emulator.abi import FINDING_DTYPE
from flashgen.emulator.findings import KINDS, NOBODY
from flashgen.emulator.lockstep.lanes import WARP, Array, Geometry
from flashgen.emulator.program.layout import SPACES


@dataclass(slots=True)
class _Entry:
    """The first of the findings of one kind, instruction and counterpart; ``count`` is of all of them."""

    cta: int
    warp: int
    lanes: int
    space: int
    address: int
    size: int
    barrier: int
    other_warp: int
    other_cta: int
    count: int


class Findings:
    """Collects findings. Of equal ones that in the first CTA is kept, and how many there were."""

    def __init__(self) -> None:
        self._found: dict[tuple[int, int, int], _Entry] = {}

    def add(
        self,
        kind: str,
        instruction: int,
        cta: int,
        warp: int,
        lanes: int,
        *,
        space: str = "global",
        address: int = 0,
        size: int = 0,
        barrier: int = 0,
        other_instruction: int = NOBODY,
        other_warp: int = NOBODY,
        other_cta: int = NOBODY,
        count: int = 1,
    ) -> None:
        """Adds one finding, of one warp."""
        key = (KINDS.index(kind), instruction, other_instruction)
        new = _Entry(cta, warp, lanes, SPACES[space], address, size, barrier, other_warp, other_cta, count)
        old = self._found.get(key)
        if old is not None:
            new = new if cta < old.cta else old
            new.count = old.count + count
        self._found[key] = new

    def add_lanes(
        self, kind: str, instruction: int, geometry: Geometry, lanes: Array, addresses: Array, size: int, space: str
    ) -> None:
        """Adds one finding for each warp that has any of these lanes. ``addresses``: of each of them."""
        warps = lanes // WARP
        for warp in np.unique(warps).tolist():
            mine = np.flatnonzero(warps == warp)
            mask = int(np.bitwise_or.reduce(np.left_shift(1, lanes[mine] % WARP)))
            cta = int(geometry.cta[warp * WARP])
            self.add(
                kind,
                instruction,
                cta,
                warp % geometry.warps,
                mask,
                space=space,
                address=int(addresses[mine[0]]),
                size=size,
            )

    def records(self, most: int) -> Array:
        """The first ``most`` of them, by kind and place."""
        rows = []
        for (kind, instruction, other), e in sorted(self._found.items())[:most]:
            rows.append((
                kind, instruction, other, e.cta, e.warp, e.other_warp, e.lanes, e.space, e.address, e.size, e.barrier,
                e.other_cta, 0, e.count,
            ))  # fmt: skip
        return np.array(rows, FINDING_DTYPE)
