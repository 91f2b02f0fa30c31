"""The IO ledger as data: which matrix crosses between HBM and the chip, where, how often, in how many bytes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from flashgen.errors import SpecError

Direction = Literal["read", "write"]
Phase = Literal["forward", "backward"]
Key = tuple[str, str, str, str]


@dataclass(frozen=True, slots=True)
class Sizes:
    """What is not in a spec: batch, heads, queries, keys, whether LSE is wanted, and heads that have a K and V.

    Raises:
        SpecError: the heads cannot be dealt out to those of K and V.
    """

    batch: int
    heads: int
    seqlen_q: int
    seqlen_k: int
    lse: bool = False
    heads_kv: int = 0

    def __post_init__(self) -> None:
        """Checks the head counts; 0 heads of K and V stand for as many as there are heads."""
        if not self.heads_kv:
            object.__setattr__(self, "heads_kv", self.heads)
        if self.heads_kv and self.heads % self.heads_kv:
            raise SpecError(f"{self.heads} heads cannot share {self.heads_kv} heads of K and V; use a divisor.")

    @property
    def group(self) -> int:
        """Heads that share a K and V."""
        return self.heads // self.heads_kv


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number and what it is called in formulas."""

    value: int
    symbol: str

    def __mul__(self, other: Quantity) -> Quantity:
        symbol = " ".join(part for part in (self.symbol, other.symbol) if part != "1")
        return Quantity(self.value * other.value, symbol or "1")


@dataclass(frozen=True, slots=True)
class Transfer:
    """One matrix, in one direction, at one place of the algorithm.

    Attributes:
        step: the place: ``line 8``, ``pass 2``.
        matrix: ``Q``, ``K``, ``V``, ``S``, ``P``, ``O``, ``l``, ``m``, ...
        direction: ``read`` (HBM to chip) or ``write``.
        elements: per head (of K and V, in the ledger of decode).
        size: bytes of an element.
        formula: the elements in symbols.
        phase: ``forward`` or ``backward``.
    """

    step: str
    matrix: str
    direction: Direction
    elements: int
    size: int
    formula: str
    phase: Phase = "forward"

    @property
    def bytes_per_head(self) -> int:
        """Elements times their size."""
        return self.elements * self.size

    @property
    def key(self) -> Key:
        """What a counter must agree on to count the same thing."""
        return self.phase, self.step, self.matrix, self.direction


@dataclass(frozen=True, slots=True)
class Ledger:
    """All transfers of one algorithm on one problem.

    Attributes:
        algorithm: ``standard``, ``fa1``, ``fa2`` or ``decode``.
        family: the kernel family, or an empty text for the paper's algorithm.
        heads: batch times heads; every head moves the same. Decode moves the same for every head of K and V.
        br, bc: the tile.
        transfers: in the order of the algorithm.
        flops: of all heads.
        remarks: what a reader should know of the symbols.
        unit: what a transfer's elements are of: ``head``, or ``kv head`` where heads share a K and V and are packed.
    """

    algorithm: str
    family: str
    heads: int
    br: int
    bc: int
    transfers: tuple[Transfer, ...]
    flops: int
    remarks: tuple[str, ...] = ()
    unit: str = "head"

    @property
    def read(self) -> int:
        """Bytes from HBM to the chip, all heads."""
        return self.heads * sum(t.bytes_per_head for t in self.transfers if t.direction == "read")

    @property
    def written(self) -> int:
        """Bytes from the chip to HBM, all heads."""
        return self.heads * sum(t.bytes_per_head for t in self.transfers if t.direction == "write")

    @property
    def total(self) -> int:
        """Bytes in both directions."""
        return self.read + self.written

    @property
    def intensity(self) -> float:
        """Flops for each byte that crosses."""
        return self.flops / self.total if self.total else 0.0

    def of_matrix(self, matrix: str, direction: Direction) -> int:
        """Bytes of one matrix in one direction, all heads."""
        found = (t.bytes_per_head for t in self.transfers if (t.matrix, t.direction) == (matrix, direction))
        return self.heads * sum(found)

    @property
    def matrices(self) -> tuple[str, ...]:
        """Every matrix, in the order of first appearance."""
        return tuple(dict.fromkeys(t.matrix for t in self.transfers))

    def as_dict(self) -> dict[str, Any]:
        """For JSON; the keys are stable and documented in docs/cli.md."""
        return {
            "algorithm": self.algorithm,
            "family": self.family or None,
            "br": self.br,
            "bc": self.bc,
            "unit": self.unit,
            "read_bytes": self.read,
            "written_bytes": self.written,
            "total_bytes": self.total,
            "flops": self.flops,
            "flops_per_byte": self.intensity,
            "remarks": list(self.remarks),
        }


def transfer(step: str, matrix: str, direction: Direction, what: Quantity, size: int) -> Transfer:
    """A transfer of the forward pass, of a quantity."""
    return Transfer(step, matrix, direction, what.value, size, what.symbol)


def without_empty(transfers: Iterable[Transfer]) -> tuple[Transfer, ...]:
    """Drops transfers of nothing (a kernel that has only one block of keys never reads O back)."""
    return tuple(transfer for transfer in transfers if transfer.elements)
