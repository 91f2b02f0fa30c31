"""What is tuned, whatever the shape."""

from __future__ import annotations

from dataclasses import dataclass

from flashgen.families.base import Family
from flashgen.spec import AttentionSpec
from flashgen.target import Target

DIFFERENCE = 0.01


@dataclass(frozen=True, slots=True)
class Request:
    """A sweep's subject.

    Attributes:
        spec: what is computed.
        target: where.
        family: by which family.
        sram_bytes: the budget, or None.
        difference: share of the time from which on a difference matters.
    """

    spec: AttentionSpec
    target: Target
    family: Family
    sram_bytes: int | None = None
    difference: float = DIFFERENCE
