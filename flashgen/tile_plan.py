"""TilePlan and Footprint: the planner's answer, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, is_dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Footprint:
    """Bytes that a kernel keeps on chip, tile by tile, in the order in which they are laid out."""

    tiles: tuple[tuple[str, int], ...]

    @property
    def total(self) -> int:
        """Bytes of all tiles together."""
        return sum(size for _, size in self.tiles)

    def as_dict(self) -> dict[str, int]:
        """Tile name -> bytes, with ``total`` last."""
        return {**dict(self.tiles), "total": self.total}


@dataclass(frozen=True, slots=True)
class RuleTile:
    """What the paper's block rule says, before anything is fitted.

    Attributes:
        m_elements: M, the budget in elements of the dtype.
        br: query rows of a tile, min(ceil(M / 4d), d).
        bc: keys of a tile, ceil(M / 4d).
    """

    m_elements: int
    br: int
    bc: int


@dataclass(frozen=True, slots=True)
class NoKnobs:
    """The knobs of a family that has none."""


@dataclass(frozen=True, slots=True)
class TilePlan:
    """How a kernel is tiled, and how that was decided.

    Attributes:
        family: name of the kernel family that the plan belongs to.
        br: query rows of a tile.
        bc: keys of a tile.
        knobs: the family's further choices, a frozen dataclass.
        footprint: exact on-chip bytes of this tile in this family.
        origin: ``default``, ``rule``, ``user`` or ``tuned``.
        trail: one sentence for each decision.
        sram_bytes: the budget asked for, or None.
        rule: the paper's rule for that budget, or None without a budget.
    """

    family: str
    br: int
    bc: int
    knobs: Any
    footprint: Footprint
    origin: str
    trail: tuple[str, ...] = ()
    sram_bytes: int | None = None
    rule: RuleTile | None = None

    def __str__(self) -> str:
        """Tile, bytes and trail, a line for each."""
        tiles = ", ".join(f"{name} {size:,}" for name, size in self.footprint.tiles)
        head = f"{self.family}, tile Br {self.br} x Bc {self.bc} ({self.origin})"
        return "\n".join((head, f"on chip {self.footprint.total:,} bytes: {tiles}", *self.trail))

    @property
    def knobs_dict(self) -> Mapping[str, Any]:
        """The knobs by name."""
        return asdict(self.knobs) if is_dataclass(self.knobs) and not isinstance(self.knobs, type) else {}
