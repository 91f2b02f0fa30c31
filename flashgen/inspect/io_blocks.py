"""How a head is cut into blocks, and its keys into splits, and which of them meet: under every closed form."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from flashgen.spec import Causal


@dataclass(frozen=True, slots=True)
class Blocks:
    """One head, cut into Br query rows by Bc keys.

    Attributes:
        seqlen_q, seqlen_k: queries, keys.
        br, bc: the tile.
        causal: the mask.
        packed: heads whose query rows are packed because they share a K and V: row r is query r // packed.
    """

    seqlen_q: int
    seqlen_k: int
    br: int
    bc: int
    causal: Causal = Causal.NONE
    packed: int = 1

    @property
    def rows(self) -> int:
        """Rows of Q, those of all packed heads."""
        return self.seqlen_q * self.packed

    @property
    def tr(self) -> int:
        """Blocks of queries, ceil(N / Br)."""
        return -(-self.rows // self.br)

    @property
    def tc(self) -> int:
        """Blocks of keys, ceil(N / Bc)."""
        return -(-self.seqlen_k // self.bc)

    def row_blocks(self) -> Iterator[tuple[int, int]]:
        """First row and number of rows of each block of queries."""
        for row0 in range(0, self.rows, self.br):
            yield row0, min(self.br, self.rows - row0)

    def key_blocks(self) -> Iterator[tuple[int, int]]:
        """First key and number of keys of each block of keys."""
        for key0 in range(0, self.seqlen_k, self.bc):
            yield key0, min(self.bc, self.seqlen_k - key0)

    def visible(self, row: int) -> int:
        """Number of keys that a query row sees: the first ones, since every mask here shows a prefix."""
        if self.causal is Causal.NONE:
            return self.seqlen_k
        return min(max(row // self.packed + 1 + self._offset, 0), self.seqlen_k)

    def visible_of_block(self, row0: int, rows: int) -> int:
        """Number of keys that at least one row of a block sees."""
        return self.visible(row0 + rows - 1)

    def visible_pairs(self) -> int:
        """Pairs of a query and a key that it sees, all rows together."""
        if self.causal is Causal.NONE:
            return self.rows * self.seqlen_k
        first, last = 1 + self._offset, self.seqlen_q + self._offset  # before clamping to 0 ... seqlen_k
        rising = _triangle(min(last, self.seqlen_k)) - _triangle(min(max(first, 1) - 1, self.seqlen_k))
        full = max(0, last - max(first - 1, self.seqlen_k))
        return (rising + full * self.seqlen_k) * self.packed

    def splits_of_size(self, row0: int, rows: int, size: int) -> list[tuple[int, int]]:
        """First key and end of each split of ``size`` keys that has keys for a block of queries; one at least."""
        seen = self.visible_of_block(row0, rows)
        return [(key0, min(key0 + size, seen)) for key0 in range(0, max(seen, 1), size)]

    def splits_by_number(self, row0: int, rows: int, number: int) -> list[tuple[int, int]]:
        """First key and end of each of ``number`` splits of whole blocks; some may have no key for these rows."""
        seen, share = self.visible_of_block(row0, rows), -(-self.tc // number) * self.bc
        return [(min(nth * share, seen), min((nth + 1) * share, seen)) for nth in range(number)]

    @property
    def _offset(self) -> int:
        return self.seqlen_k - self.seqlen_q if self.causal is Causal.BOTTOM_RIGHT else 0


def _triangle(n: int) -> int:
    """1 + 2 + ... + n, and 0 if there is nothing to add."""
    return n * (n + 1) // 2 if n > 0 else 0
