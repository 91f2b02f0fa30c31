"""One memory instruction's access, and raw memory as arrays of elements."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from flashgen.emulator.lockstep.lanes import Array

LOAD, STORE, ATOMIC = "load", "store", "atomic"


@dataclass(slots=True)
class Access:
    """What lanes ask of memory.

    Attributes:
        instruction: its index.
        lanes: who, ascending; ``addresses``: where, for each of them.
        size: bytes of each, all elements together.
        use: ``load``, ``store`` or ``atomic``.
        strong: volatile, relaxed or stronger.
        collective: what a lane addresses goes to all lanes of the warp.
        aligned: what its addresses must be multiples of; 0: its size.
    """

    instruction: int
    lanes: Array
    addresses: Array
    size: int
    use: str
    strong: bool = False
    collective: bool = False
    aligned: int = 0

    def only(self, chosen: Array) -> Access:
        """The part of some lanes."""
        if chosen.all():
            return self
        return replace(self, lanes=self.lanes[chosen], addresses=self.addresses[chosen])


class Storage:
    """Bytes that can be read and written by element."""

    def __init__(self, data: Array) -> None:
        self.data = data
        self._views = {size: data[: len(data) // size * size].view(f"u{size}") for size in (1, 2, 4, 8)}

    def gather(self, offsets: Array, element: int, count: int) -> Array:
        """``count`` elements of ``element`` bytes from each offset: a row for each."""
        if (offsets % element).any():  # reported as misaligned, and done
            spread = offsets[:, None] + np.arange(element * count)
            return self.data[spread].view(f"u{element}")
        first = offsets // element
        return self._views[element][first[:, None] + np.arange(count)]

    def scatter(self, offsets: Array, rows: Array) -> None:
        """Writes a row of elements at each offset; of equal offsets the last one stays."""
        element, count = rows.itemsize, rows.shape[1]
        if (offsets % element).any():
            spread = offsets[:, None] + np.arange(element * count)
            self.data[spread] = np.ascontiguousarray(rows).view(np.uint8)
            return
        first = offsets // element
        self._views[element][first[:, None] + np.arange(count)] = rows
