"""A run of an algorithm in NumPy, step by step: what moves, what is computed, and the numbers.

The reference executors (trace_standard.py, trace_fa1.py, trace_fa2.py, trace_decode.py) do on one head what the
generated kernels do, in the same order and block by block. Every element that crosses between HBM and the chip
passes through `Run.load` and `Run.store`, which count it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from flashgen.inspect.io_blocks import Blocks
from flashgen.inspect.io_ledger import Direction, Key
from flashgen.reference import Array
from flashgen.spec import AttentionSpec
from flashgen.tile_plan import TilePlan


@dataclass(frozen=True, slots=True)
class Move:
    """A block that crosses between HBM and the chip.

    Attributes:
        matrix: its name in HBM.
        direction: ``read`` or ``write``.
        row0, rows, column0, columns: where it lies in the matrix.
        elements: of the block; less than rows times columns if each row has its own length, more if several ask for it.
        size: bytes of an element.
        values: what was written, where the run keeps values.
    """

    matrix: str
    direction: Direction
    row0: int
    rows: int
    column0: int
    columns: int
    elements: int
    size: int
    values: Array | None = None


@dataclass(slots=True)
class Step:
    """One line of the algorithm, done once.

    Attributes:
        place: ``line 8``, ``pass 2``.
        i, j: the blocks of queries and keys at work, from 0; None where there is none.
        moves: what crossed.
        chip: values of the on-chip blocks that the step set, by name.
        row: the query row at work, where a step works on one.
    """

    place: str
    i: int | None = None
    j: int | None = None
    row: int | None = None
    moves: list[Move] = field(default_factory=list)
    chip: dict[str, Array] = field(default_factory=dict)

    @property
    def number(self) -> int:
        """The line's or pass's number."""
        return int(self.place.rpartition(" ")[2])


class Run:
    """One head, or those that share a K and V: the matrices in HBM, and the steps of the algorithm so far."""

    def __init__(
        self,
        spec: AttentionSpec,
        plan: TilePlan,
        q: Array,
        k: Array,
        v: Array,
        *,
        softmax_scale: float | None = None,
        lse: bool = False,
        keep_values: bool = True,
        packed: int = 1,
    ) -> None:
        """Puts Q, K and V into HBM.

        Args:
            spec: what is computed.
            plan: the tile.
            q: (seqlen_q * packed, d), row r of head r % packed; rounded to the spec's dtype.
            k: (seqlen_k, d).
            v: (seqlen_k, dv).
            softmax_scale: factor of q.k; None for 1 / sqrt(d).
            lse: whether the log-sum-exp is wanted.
            keep_values: whether steps hold the values of what they set, and not only the traffic.
            packed: heads that share K and V (decode).
        """
        self.spec, self.plan, self.lse, self.keep_values = spec, plan, lse, keep_values
        self.blocks = Blocks(len(q) // packed, len(k), plan.br, plan.bc, spec.causal, packed)
        self.compute = np.dtype(np.float64 if spec.dtype.compute_size == 8 else np.float32)
        self.scale = self.compute.type(spec.head_dim**-0.5 if softmax_scale is None else softmax_scale)
        storage = spec.dtype.numpy()
        self.hbm: dict[str, Array] = {
            name: x.astype(storage).astype(self.compute) for name, x in (("Q", q), ("K", k), ("V", v))
        }
        self.sizes = dict.fromkeys(("Q", "K", "V"), spec.dtype.size)
        self.steps: list[Step] = []

    def allocate(self, name: str, rows: int, columns: int, size: int) -> None:
        """A matrix in HBM. It holds NaN until it is written, so that nobody reads what nobody wrote."""
        self.hbm[name] = np.full((rows, columns), np.nan, self.compute)
        self.sizes[name] = size

    def step(self, place: str, *, i: int | None = None, j: int | None = None, row: int | None = None) -> None:
        """Begins a step; what follows belongs to it."""
        self.steps.append(Step(place, i, j, row))

    def load(
        self, name: str, row0: int, rows: int, column0: int = 0, columns: int | None = None, *, times: int = 1
    ) -> Array:
        """Reads a block from HBM; ``times``: so many ask for it."""
        width = self.hbm[name].shape[1] if columns is None else columns
        self._log(Move(name, "read", row0, rows, column0, width, times * rows * width, self.sizes[name]))
        return self.hbm[name][row0 : row0 + rows, column0 : column0 + width].copy()

    def load_ragged(self, name: str, row0: int, lengths: Sequence[int], column0: int = 0) -> Array:
        """Reads a block from HBM of which row r has only ``lengths[r]`` elements; the rest comes as zeros."""
        width = max(lengths, default=0)
        block = self.hbm[name][row0 : row0 + len(lengths), column0 : column0 + width].copy()
        for r, length in enumerate(lengths):
            block[r, length:] = 0
        self._log(Move(name, "read", row0, len(lengths), column0, width, sum(lengths), self.sizes[name]))
        return block

    def store(self, name: str, value: Array, row0: int, column0: int = 0) -> None:
        """Writes a block to HBM."""
        rows, columns = value.shape
        self.hbm[name][row0 : row0 + rows, column0 : column0 + columns] = value
        kept = value.copy() if self.keep_values else None
        self._log(Move(name, "write", row0, rows, column0, columns, value.size, self.sizes[name], kept))

    def on_chip(self, **blocks: Array) -> None:
        """Notes the values of on-chip blocks that this step set."""
        if self.keep_values:
            self.steps[-1].chip |= {name: value.copy() for name, value in blocks.items()}

    def round_out(self, value: Array) -> Array:
        """The result as the dtype stores it."""
        stored: Array = value.astype(self.spec.dtype.numpy()).astype(self.compute)
        return stored

    def scores(self, q: Array, k: Array, row0: int, key0: int) -> Array:
        """Scale * Q_i K_j^T, with -inf where a row may not look."""
        s: Array = self.scale * (q @ k.T)
        seen = np.array([self.blocks.visible(row0 + r) - key0 for r in range(len(q))])
        s[np.arange(s.shape[1])[None, :] >= seen[:, None]] = -np.inf
        return s

    def bytes_by_key(self) -> dict[Key, int]:
        """Bytes of this head that crossed, by phase, place, matrix and direction."""
        counted: Counter[Key] = Counter()
        for step in self.steps:
            for move in step.moves:
                counted["forward", step.place, move.matrix, move.direction] += move.elements * move.size
        return {key: count for key, count in counted.items() if count}

    def _log(self, move: Move) -> None:
        if move.elements:
            self.steps[-1].moves.append(move)


def exp_below(x: Array, reference: Array) -> Array:
    """e^(x - reference), where the reference is a maximum; 0 at -inf, which is nothing to weigh."""
    nothing = (x == -np.inf) | (reference == -np.inf)
    difference: Array = np.where(nothing, 0, x - np.where(nothing, 0, reference))
    return np.where(nothing, 0, np.exp(difference)).astype(x.dtype)
