"""How a call's work is dealt out to CTAs, and the small part of it that the emulator runs in its place."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

from flashgen.families import family_named
from flashgen.spec import AttentionSpec, Causal
from flashgen.tile_plan import TilePlan

_EMULATED = 512  # query rows and keys that are emulated, or a few tiles if those are larger
_TILES = 2
# Of a kernel that packs heads: few rows, so that there may be as many more keys.
_PACKED_ROWS, _PACKED_KEYS = 64, 4096


@dataclass(frozen=True, slots=True)
class Problem:
    """A call, for the model: batch, num_heads, num_heads_kv, seqlen_q, seqlen_k."""

    batch: int
    heads: int
    heads_kv: int
    seqlen_q: int
    seqlen_k: int

    @property
    def sizes(self) -> tuple[int, int, int, int, int]:
        """As launch plans take them."""
        return self.batch, self.heads, self.heads_kv, self.seqlen_q, self.seqlen_k


class Layout:
    """One unit of a call - a head, or where heads are packed all that share a K and V - as tiles of its kernel.

    Attributes:
        problem: a call with this unit alone.
        blocks: tiles of query rows.
        visits: keys' tiles that each of these meets under the mask.
    """

    def __init__(self, spec: AttentionSpec, plan: TilePlan, problem: Problem) -> None:
        """Takes the first unit of a call."""
        self._spec, self._plan = spec, plan
        self.packs = family_named(plan.family).packs_heads
        group = problem.heads // problem.heads_kv if self.packs else 1
        self.problem = replace(problem, batch=1, heads=group, heads_kv=1)
        rows = group * problem.seqlen_q
        self.blocks = -(-rows // plan.br)
        self.visits = [self._visits(min((nth + 1) * plan.br, rows) - 1) for nth in range(self.blocks)]

    def units(self, whole: Problem) -> int:
        """How many there are in a call."""
        return whole.batch * (whole.heads_kv if self.packs else whole.heads)

    def starts(self, ranges: int) -> int:
        """How often a CTA begins with rows: each tile once, or for each split of the keys."""
        return self.blocks * ranges if self.packs else self.blocks

    def weights(self, ranges: int) -> list[int]:
        """Visits of the CTAs that the kernel launches for a unit: one for each tile, range of tiles, or split."""
        if self.packs:
            share = -(-self._key_tiles // ranges)
            return [min(max(seen - nth * share, 0), share) for nth in range(ranges) for seen in self.visits]
        if ranges > 1:
            bounds = [nth * self.blocks // ranges for nth in range(ranges + 1)]
            return [sum(self.visits[begin:end]) for begin, end in itertools.pairwise(bounds)]
        return self.visits[::-1]  # under a causal mask the CTA with most to do begins

    def parts(self, ranges: int) -> list[tuple[Layout, int]]:
        """Parts that are quick to emulate, each with its ranges; two of different proportions unless one is the whole.

        They have whole tiles: a tail that is a larger share of the part than of the whole would tell lies.

        Args:
            ranges: the whole's ranges of rows, or splits of keys.
        """
        return self._packed_parts(ranges) if self.packs else self._parts(ranges)

    def _parts(self, ranges: int) -> list[tuple[Layout, int]]:
        p, plan = self.problem, self._plan
        rows, keys = (max(_EMULATED // size, _TILES) for size in (plan.br, plan.bc))
        first = min(p.seqlen_q, rows * plan.br), min(p.seqlen_k, keys * plan.bc)
        if first == (p.seqlen_q, p.seqlen_k):
            return [(self, ranges)]
        second = min(first[0], rows // 2 * plan.br), min(first[1], keys // 2 * plan.bc)
        # A range has as many row tiles as in the whole.
        parts = [self.of(*size) for size in (first, second)]
        return [(part, max(1, min(part.blocks, round(ranges * part.blocks / self.blocks)))) for part in parts]

    def _packed_parts(self, splits: int) -> list[tuple[Layout, int]]:
        p, plan = self.problem, self._plan
        tiles = max(_PACKED_KEYS // plan.bc, _TILES)
        rows, keys = min(p.seqlen_q, max(_PACKED_ROWS // p.heads, 1)), min(p.seqlen_k, tiles * plan.bc)
        if (rows, keys) == (p.seqlen_q, p.seqlen_k):
            return [(self, splits)]
        # A split has as many keys as in the whole; where there are several, what joins them must be there.
        first = self.of(rows, keys)
        its_splits = max(splits * first._key_tiles // self._key_tiles, min(splits, 2))
        if splits == 1:
            return [(first, 1), (self.of(rows, min(keys, tiles // 2 * plan.bc)), 1)]
        return [(first, its_splits), (first, its_splits // 2)]

    def of(self, seqlen_q: int, seqlen_k: int) -> Layout:
        """One with other lengths."""
        return Layout(self._spec, self._plan, replace(self.problem, seqlen_q=seqlen_q, seqlen_k=seqlen_k))

    def tail(self) -> Layout:
        """A tile of rows and two of keys that are not full."""
        p, plan = self.problem, self._plan
        sizes = min(p.seqlen_q, plan.br), min(p.seqlen_k, 2 * plan.bc)
        return self.of(*(max(1, size * 3 // 4) for size in sizes))

    @property
    def _key_tiles(self) -> int:
        return -(-self.problem.seqlen_k // self._plan.bc)

    def _visits(self, last_row: int) -> int:
        """How many tiles of keys are met by the tile of query rows that ends with a row."""
        p, seen = self.problem, self.problem.seqlen_k
        if self._spec.causal is not Causal.NONE:
            offset = p.seqlen_k - p.seqlen_q if self._spec.causal is Causal.BOTTOM_RIGHT else 0
            seen = min(max(last_row // p.heads + 1 + offset, 0), p.seqlen_k)
        return max(-(-seen // self._plan.bc), 1)


def imbalance(weights: Sequence[int], units: int, multiprocessors: int, resident: int) -> float:
    """What the multiprocessor with most work has, over what it would have if all CTAs were equal.

    CTAs are placed in the order of their numbers: one on each multiprocessor after the other while there is room, then
    wherever one ends first.

    Args:
        weights: work of the CTAs of one unit.
        units: that have as much each.
        multiprocessors: of the device.
        resident: CTAs that a multiprocessor holds at once.
    """
    order = [weight for _ in range(units) for weight in weights]
    room = multiprocessors * max(resident, 1)
    loads = [sum(order[first:room:multiprocessors]) for first in range(min(multiprocessors, len(order)))]
    heapq.heapify(loads)
    for weight in order[room:]:
        heapq.heapreplace(loads, loads[0] + weight)
    rounds = -(-len(order) // multiprocessors)
    return max(loads) / (rounds * sum(order) / len(order))
