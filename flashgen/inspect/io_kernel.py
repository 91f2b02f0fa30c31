"""Closed forms of what the generated kernels move, per head: exact for tails, masks and skipped blocks.

They count every element that a kernel asks of memory outside its tiles (its `HBM`), by matrix and place. A
cache in between may serve repeats; the ledger does not know it. A vector that starts early, so as to end with
its row, counts the elements that it meets again once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from flashgen.errors import SpecError
from flashgen.families import family_named
from flashgen.families.base import Family
from flashgen.inspect.io_blocks import Blocks
from flashgen.inspect.io_decode import DecodeCounts, decode_transfers
from flashgen.inspect.io_ledger import Ledger, Quantity, Sizes, Transfer, without_empty
from flashgen.inspect.io_ledger import transfer as _transfer
from flashgen.launch_plan import VARIABLES, evaluate
from flashgen.spec import AttentionSpec, Causal
from flashgen.target import Target
from flashgen.tile_plan import TilePlan

__all__ = ["Counts", "Quantity", "Sizes", "kernel_ledger", "row_ranges"]


def kernel_ledger(spec: AttentionSpec, plan: TilePlan, target: Target, sizes: Sizes, cores: int = 1) -> Ledger:
    """The ledger of a planned kernel.

    Args:
        spec: what it computes.
        plan: its tile.
        target: where it runs.
        sizes: the problem.
        cores: multiprocessors of the device; `cuda_fa1` divides its query rows among them.

    Raises:
        SpecError: the family's traffic is not known.
    """
    family = family_named(plan.family)
    packed = sizes.group if family.algorithm == "decode" else 1
    blocks = Blocks(sizes.seqlen_q, sizes.seqlen_k, plan.br, plan.bc, spec.causal, packed)
    ranges = row_ranges(spec, plan, sizes, cores) if target.kind == "cuda" else 1
    transfers, remarks = _forms(family, spec, plan, blocks, sizes, ranges)
    heads = sizes.batch * sizes.heads // packed
    return Ledger(
        family.algorithm,
        family.name,
        heads,
        plan.br,
        plan.bc,
        without_empty(transfers),
        flops=2 * (spec.head_dim + spec.head_dim_v) * blocks.visible_pairs() * heads,
        remarks=remarks,
        unit="head" if packed == 1 else "kv head",
    )


def _forms(
    family: Family, spec: AttentionSpec, plan: TilePlan, blocks: Blocks, sizes: Sizes, ranges: int
) -> tuple[list[Transfer], tuple[str, ...]]:
    """A family's closed forms, and the remarks that explain their symbols."""
    if family.algorithm == "decode":
        splits = DecodeCounts(spec, plan, blocks, sizes, ranges)
        return decode_transfers(splits), splits.remarks()
    model = _MODELS.get((family.algorithm, family.kind))
    if model is None:
        raise SpecError(f"There is no IO ledger for {family.name}.")
    count = Counts(spec, blocks, sizes, ranges)
    return model(count), count.remarks()


def row_ranges(spec: AttentionSpec, plan: TilePlan, sizes: Sizes, cores: int) -> int:
    """CTAs that share the query rows of a head, or splits of its keys, as the launch plan has it."""
    formula = family_named(plan.family).launch_plan(spec, plan).row_ranges
    numbers = (sizes.batch, sizes.heads, sizes.heads_kv, sizes.seqlen_q, sizes.seqlen_k, cores)
    if 0 in numbers:
        return 1  # nothing is launched
    return max(evaluate(formula, dict(zip(VARIABLES, numbers, strict=True))), 1)


class Counts:
    """The quantities that the closed forms are made of."""

    def __init__(self, spec: AttentionSpec, blocks: Blocks, sizes: Sizes, ranges: int) -> None:
        """Counts the blocks of one head that meet."""
        self.blocks, self.ranges, self.lse = blocks, ranges, sizes.lse
        self.storage, self.compute = spec.dtype.size, spec.dtype.compute_size
        self.masked = spec.causal is not Causal.NONE
        same = sizes.seqlen_q == sizes.seqlen_k
        self.n, self.nk = Quantity(sizes.seqlen_q, "N"), Quantity(sizes.seqlen_k, "N" if same else "Nk")
        self.d = Quantity(spec.head_dim, "d")
        self.dv = Quantity(spec.head_dim_v, "d" if spec.head_dim == spec.head_dim_v else "dv")
        self.tr, self.tc = Quantity(blocks.tr, "Tr"), Quantity(blocks.tc, "Tc")
        self._meanings: dict[Quantity, str] = {}

    def times(self, count: int, quantity: Quantity) -> Quantity:
        """A small whole multiple."""
        return Quantity(count * quantity.value, f"{count} {quantity.symbol}") if count > 1 else quantity

    @property
    def pairs(self) -> Quantity:
        """Queries times the keys that each sees."""
        return self._named(
            self.blocks.visible_pairs(), "A", "pairs of a query and a key that it sees", self.n * self.nk
        )

    def visits(self, at_least: int = 0) -> Quantity:
        """Query rows times the key blocks that each row's block meets."""
        rows = sum(rows * met for rows, met in self._met(at_least))
        return self._named(rows, "R", "query rows, each times the blocks of keys that it meets", self.tc * self.n)

    def keys_met(self, whole_blocks: bool = False) -> Quantity:
        """Keys that the blocks of queries meet, added up over those blocks."""
        keys = sum(self._keys(row0, rows, whole_blocks) for row0, rows in self.blocks.row_blocks())
        return self._named(keys, "U", "keys that a block of queries meets, over all those blocks", self.tr * self.nk)

    def area_met(self) -> Quantity:
        """Query rows times the keys of the whole blocks that each row's block meets."""
        area = sum(rows * self._keys(row0, rows, True) for row0, rows in self.blocks.row_blocks())
        return self._named(area, "W", "pairs of a query and a key in the blocks that meet", self.n * self.nk)

    def keys_of_ranges(self) -> Quantity:
        """Keys that the CTAs of a head load, each for its own range of query blocks."""
        met = [count for _, count in self._met(1)]
        ends = [(index + 1) * len(met) // self.ranges for index in range(self.ranges)] if met else []
        keys = sum(min(met[end - 1] * self.blocks.bc, self.nk.value) for end in ends)
        plain = Quantity(keys, self.nk.symbol if self.ranges == 1 else f"C {self.nk.symbol}")
        return self._named(keys, "G", "keys that the CTAs of a head load", plain)

    def remarks(self) -> tuple[str, ...]:
        """Values of the symbols; those of a mask, once the formulas that use them have been made."""
        sizes = f"N = {self.n.value:,}"
        if self.n.symbol != self.nk.symbol:
            sizes += f", Nk = {self.nk.value:,}"
        blocks = f"Tr = ceil(N / {self.blocks.br}) = {self.tr.value:,}"
        lines = [f"{sizes}, {blocks}, Tc = ceil({self.nk.symbol} / {self.blocks.bc}) = {self.tc.value:,}"]
        lines += [f"{named.symbol} = {named.value:,} {meaning}" for named, meaning in self._meanings.items()]
        if self.ranges > 1:
            lines.append(f"C = {self.ranges} CTAs share the query rows of a head, and each loads K and V")
        return tuple(lines)

    def _named(self, value: int, symbol: str, meaning: str, without_mask: Quantity) -> Quantity:
        """A quantity that a mask changes; it gets a symbol of its own then, and a remark that explains it."""
        quantity = Quantity(value, symbol if self.masked else without_mask.symbol)
        if self.masked:
            self._meanings[quantity] = meaning
        return quantity

    def _met(self, at_least: int) -> list[tuple[int, int]]:
        """Rows of each block of queries, and how many key blocks it meets."""
        bc = self.blocks.bc
        return [
            (rows, max(-(-self.blocks.visible_of_block(row0, rows) // bc), at_least))
            for row0, rows in self.blocks.row_blocks()
        ]

    def _keys(self, row0: int, rows: int, whole_blocks: bool) -> int:
        seen, bc = self.blocks.visible_of_block(row0, rows), self.blocks.bc
        return min(-(-seen // bc) * bc, self.nk.value) if whole_blocks else seen


def _cpu_standard(c: Counts) -> list[Transfer]:
    scores = c.n * c.nk
    return [
        _transfer("pass 1", "Q", "read", c.tc * c.n * c.d, c.storage),
        _transfer("pass 1", "K", "read", c.nk * c.d, c.storage),
        _transfer("pass 1", "S", "write", scores, c.compute),
        _transfer("pass 2", "S", "read", c.times(2, c.pairs), c.compute),  # maximum, exponentials
        _transfer("pass 2", "P", "read", c.pairs, c.compute),  # normalised in place
        _transfer("pass 2", "P", "write", _sum(c.pairs, scores), c.compute),  # exponentials, then normalised
        _transfer("pass 3", "P", "read", c.pairs, c.compute),
        _transfer("pass 3", "V", "read", c.tr * c.nk * c.dv, c.storage),
        _transfer("pass 3", "O", "write", c.n * c.dv, c.storage),
        *([_transfer("pass 2", "LSE", "write", c.n, c.compute)] if c.lse else []),
    ]


def _cuda_standard(c: Counts) -> list[Transfer]:
    scores = c.n * c.nk
    return [
        _transfer("pass 1", "Q", "read", c.tc * c.n * c.d, c.storage),
        _transfer("pass 1", "K", "read", c.tr * c.nk * c.d, c.storage),
        _transfer("pass 1", "S", "write", scores, c.compute),
        _transfer("pass 2", "S", "read", c.times(3, c.pairs), c.compute),  # maximum, sum, probabilities
        _transfer("pass 2", "P", "write", scores, c.compute),
        _transfer("pass 3", "P", "read", c.area_met(), c.compute),
        _transfer("pass 3", "V", "read", c.keys_met(whole_blocks=True) * c.dv, c.storage),
        _transfer("pass 3", "O", "write", c.n * c.dv, c.storage),
        *([_transfer("pass 2", "LSE", "write", c.n, c.compute)] if c.lse else []),
    ]


def _cpu_fa1(c: Counts) -> list[Transfer]:
    visits = c.visits()
    lse = [
        _transfer("line 16", "l", "read", c.n, c.compute),
        _transfer("line 16", "m", "read", c.n, c.compute),
        _transfer("line 16", "LSE", "write", c.n, c.compute),
    ]
    return [
        _transfer("line 2", "O", "write", c.n * c.dv, c.compute),
        _transfer("line 2", "l", "write", c.n, c.compute),
        _transfer("line 2", "m", "write", c.n, c.compute),
        _transfer("line 6", "K", "read", c.nk * c.d, c.storage),
        _transfer("line 6", "V", "read", c.nk * c.dv, c.storage),
        _transfer("line 8", "Q", "read", visits * c.d, c.storage),
        _transfer("line 8", "O", "read", visits * c.dv, c.compute),
        _transfer("line 8", "l", "read", visits, c.compute),
        _transfer("line 8", "m", "read", visits, c.compute),
        _transfer("line 12", "O", "write", visits * c.dv, c.compute),
        _transfer("line 13", "l", "write", visits, c.compute),
        _transfer("line 13", "m", "write", visits, c.compute),
        _transfer("line 16", "O", "read", c.n * c.dv, c.compute),
        _transfer("line 16", "out", "write", c.n * c.dv, c.storage),
        *(lse if c.lse else []),
    ]


def _cuda_fa1(c: Counts) -> list[Transfer]:
    visits, keys = c.visits(at_least=1), c.keys_of_ranges()
    # O, l and m begin on chip at the first block of keys, and end in `out` at the last: one round less each.
    rounds = Quantity(visits.value - c.n.value, "(R - N)" if c.masked else "(Tc - 1) N")
    return [
        _transfer("line 6", "K", "read", keys * c.d, c.storage),
        _transfer("line 6", "V", "read", keys * c.dv, c.storage),
        _transfer("line 8", "Q", "read", visits * c.d, c.storage),
        _transfer("line 8", "O", "read", rounds * c.dv, c.compute),
        _transfer("line 8", "l", "read", rounds, c.compute),
        _transfer("line 8", "m", "read", rounds, c.compute),
        _transfer("line 12", "O", "write", rounds * c.dv, c.compute),
        _transfer("line 13", "l", "write", rounds, c.compute),
        _transfer("line 13", "m", "write", rounds, c.compute),
        _transfer("line 16", "out", "write", c.n * c.dv, c.storage),
        *([_transfer("line 16", "LSE", "write", c.n, c.compute)] if c.lse else []),
    ]


def _fa2(c: Counts) -> list[Transfer]:
    keys = c.keys_met()
    return [
        _transfer("line 4", "Q", "read", c.n * c.d, c.storage),
        _transfer("line 7", "K", "read", keys * c.d, c.storage),
        _transfer("line 7", "V", "read", keys * c.dv, c.storage),
        _transfer("line 14", "O", "write", c.n * c.dv, c.storage),
        *([_transfer("line 15", "L", "write", c.n, c.compute)] if c.lse else []),
    ]


def _sum(a: Quantity, b: Quantity) -> Quantity:
    symbol = f"2 {a.symbol}" if a.symbol == b.symbol else f"{a.symbol} + {b.symbol}"
    return Quantity(a.value + b.value, symbol)


_MODELS: Mapping[tuple[str, str], Callable[[Counts], list[Transfer]]] = {
    ("standard", "cpu"): _cpu_standard,
    ("standard", "cuda"): _cuda_standard,
    ("fa1", "cpu"): _cpu_fa1,
    ("fa1", "cuda"): _cuda_fa1,
    ("fa2", "cpu"): _fa2,
    ("fa2", "cuda"): _fa2,
}
