"""Closed forms of what the decode kernels move, per head of K and V: the rows of all heads that share it are packed.

Between the two halves of the algorithm the parts travel: O_s, l_s and m_s of each split are written and, where the
parts are joined, read. A CPU reads and writes them in whole vectors; its counter of finished splits is no matrix
and is left out. On a GPU all lanes of a warp ask for the same l_s and m_s, which the emulator counts for each.
"""

from __future__ import annotations

from flashgen.families import family_named
from flashgen.inspect.io_blocks import Blocks
from flashgen.inspect.io_ledger import Quantity, Sizes, Transfer, transfer
from flashgen.spec import AttentionSpec
from flashgen.tile_plan import TilePlan

LANES_OF_WARP = 32


class DecodeCounts:
    """The quantities that the closed forms are made of."""

    def __init__(self, spec: AttentionSpec, plan: TilePlan, blocks: Blocks, sizes: Sizes, splits: int) -> None:
        """Counts the tiles of one head of K and V, and their parts.

        Args:
            spec: what is computed.
            plan: tile and splits.
            blocks: the packed rows and the keys.
            sizes: the problem.
            splits: of the keys, as the launch plan has them (CUDA).
        """
        self.on_cpu = family_named(plan.family).kind == "cpu"
        self.blocks, self.plan, self.lse, self.splits = blocks, plan, sizes.lse, splits
        self.storage, self.compute = spec.dtype.size, spec.dtype.compute_size
        group = "" if blocks.packed == 1 else "G "
        self.keys = "N" if sizes.seqlen_q == sizes.seqlen_k else "Nk"
        self.rows = Quantity(blocks.rows, f"{group}N")
        self.d = Quantity(spec.head_dim, "d")
        self.dv = Quantity(spec.head_dim_v, "d" if spec.head_dim == spec.head_dim_v else "dv")
        self.part = Quantity(part_width(spec, plan), "dp") if part_width(spec, plan) != self.dv.value else self.dv
        # Rows, seen keys and parts of each tile; a CPU's only part is the result, and is not joined.
        self.tiles = [
            (rows, blocks.visible_of_block(row0, rows), self._parts(row0, rows)) for row0, rows in blocks.row_blocks()
        ]
        self.uneven = len({parts for *_, parts in self.tiles}) > 1
        self._meanings: dict[Quantity, str] = {}

    def queries_loaded(self) -> Quantity:
        """Rows of Q, once for each split that their tile meets."""
        loads = sum(rows * parts for rows, _, parts in self.tiles)
        return self._named(loads, "E", "query rows, each once for every split that its tile meets", self._each_split())

    def keys_met(self) -> Quantity:
        """Keys that the tiles meet, added up over the tiles."""
        keys = sum(seen for _, seen, _ in self.tiles)
        plain = f"Tr {self.keys}" if self.blocks.tr > 1 else self.keys
        if keys == self.blocks.tr * self.blocks.seqlen_k:
            return Quantity(keys, plain)
        found = Quantity(keys, "U")
        self._meanings[found] = "keys that a tile of rows meets, over all tiles"
        return found

    def parts(self) -> Quantity:
        """Rows of O_s, l_s and m_s that are stored and joined."""
        stored = sum(rows * parts for rows, _, parts in self.tiles if parts > 1)
        return self._named(stored, "F", "rows of all parts that are joined", self._each_split())

    def parts_in_vectors(self) -> Quantity:
        """The same where a row's l_s and m_s fill whole vectors."""
        stored = sum(rows * self._whole_vectors(parts) for rows, _, parts in self.tiles if parts > 1)
        plain = f"Tp {self.rows.symbol}"
        return self._named(stored, "W", "rows of all parts that are joined, in whole vectors of parts", plain)

    def remarks(self) -> tuple[str, ...]:
        """Values of the symbols; those of a mask, once the formulas that use them have been made."""
        blocks, most = self.blocks, max((parts for *_, parts in self.tiles), default=0)
        sizes = f"N = {blocks.seqlen_q:,}" + (f", Nk = {blocks.seqlen_k:,}" if self.keys == "Nk" else "")
        tiles = f"Tr = ceil({self.rows.symbol} / {blocks.br}) = {blocks.tr:,}"
        lines = [f"{sizes}, {tiles}, Ts = {self._splits_said(most)}"]
        if blocks.packed > 1:
            lines.append(f"G = {blocks.packed} heads share a K and V; their query rows are packed")
        if self.part is not self.dv:
            lines.append(f"dp = {self.part.value}, {self.dv.symbol} in whole vectors")
        if self.on_cpu and most > 1 and self._whole_vectors(most) != most:
            lines.append(f"Tp = {self._whole_vectors(most)}, Ts in whole vectors")
        if not self.on_cpu and most > 1:
            lines.append(f"all {LANES_OF_WARP} lanes of a warp ask for the same l_s and m_s, which takes one access")
        lines += [f"{named.symbol} = {named.value:,} {meaning}" for named, meaning in self._meanings.items()]
        return tuple(lines)

    def _splits_said(self, most: int) -> str:
        splits = f"{most:,} split" + ("" if most == 1 else "s")
        if self.on_cpu:
            return f"{splits} of up to {self.plan.knobs.split_keys:,} keys" + (" at most" if self.uneven else "")
        return f"{splits}; the plan wants {self.plan.knobs.ctas} CTAs"

    def _parts(self, row0: int, rows: int) -> int:
        if self.on_cpu:
            return len(self.blocks.splits_of_size(row0, rows, self.plan.knobs.split_keys))
        return self.splits

    def _whole_vectors(self, parts: int) -> int:
        lanes: int = self.plan.knobs.lanes
        return -(-parts // lanes) * lanes

    def _each_split(self) -> str:
        return f"Ts {self.rows.symbol}" if any(parts > 1 for *_, parts in self.tiles) else self.rows.symbol

    def _named(self, value: int, symbol: str, meaning: str, plain: str) -> Quantity:
        """A quantity; where a mask gives tiles their own numbers of parts, with a symbol that a remark explains."""
        quantity = Quantity(value, symbol if self.uneven else plain)
        if self.uneven:
            self._meanings[quantity] = meaning
        return quantity


def part_width(spec: AttentionSpec, plan: TilePlan) -> int:
    """Elements of a row of O_s: a CPU keeps whole vectors, as it steps through V."""
    if family_named(plan.family).kind == "cuda":
        return spec.head_dim_v
    step: int = plan.knobs.lanes * (2 if spec.dtype.name == "bf16" else 1)
    return -(-spec.head_dim_v // step) * step


def decode_transfers(c: DecodeCounts) -> list[Transfer]:
    """All transfers of a head of K and V. The lines are those of `flashgen explain --algorithm decode`."""
    keys, parts = c.keys_met(), c.parts()
    return [
        transfer("line 4", "Q", "read", c.queries_loaded() * c.d, c.storage),
        transfer("line 7", "K", "read", keys * c.d, c.storage),
        transfer("line 7", "V", "read", keys * c.dv, c.storage),
        transfer("line 12", "O_s", "write", parts * c.part, c.compute),
        transfer("line 12", "l_s", "write", parts, c.compute),
        transfer("line 12", "m_s", "write", parts, c.compute),
        *(_weigh_on_cpu(c, parts) if c.on_cpu else _weigh_on_gpu(c, parts)),
        transfer("line 16", "O_s", "read", parts * c.part, c.compute),
        transfer("line 18", "O", "write", c.rows * c.dv, c.storage),
        *([transfer("line 18", "L", "write", c.rows, c.compute)] if c.lse else []),
    ]


def _weigh_on_cpu(c: DecodeCounts, parts: Quantity) -> list[Transfer]:
    vectors = c.parts_in_vectors()
    twice = Quantity(2 * vectors.value, f"2 {vectors.symbol}")
    rest = Quantity(vectors.value - parts.value, "(W - F)" if c.uneven else f"(Tp - Ts) {c.rows.symbol}")
    return [
        transfer("line 14", "m_s", "write", rest, c.compute),  # -inf: the rest of a vector counts nothing
        transfer("line 14", "m_s", "read", twice, c.compute),  # m, then w_s
        transfer("line 14", "w_s", "write", vectors, c.compute),
        transfer("line 15", "l_s", "write", rest, c.compute),
        transfer("line 15", "l_s", "read", vectors, c.compute),
        transfer("line 16", "w_s", "read", parts, c.compute),
    ]


def _weigh_on_gpu(c: DecodeCounts, parts: Quantity) -> list[Transfer]:
    once, twice = (Quantity(times * LANES_OF_WARP, str(times * LANES_OF_WARP)) * parts for times in (1, 2))
    return [
        transfer("line 14", "m_s", "read", twice, c.compute),  # m, then w_s
        transfer("line 15", "l_s", "read", once, c.compute),
    ]
