"""AttentionSpec: what to compute, parsed and checked once."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from flashgen.dtypes import DType, parse_dtype
from flashgen.errors import SpecError

MAX_HEAD_DIM = 512

CausalArgument = bool | Literal["top_left", "bottom_right"] | None


class Causal(StrEnum):
    """Which keys a query row may see when the mask is causal (i = row, j = key).

    ``TOP_LEFT``: j <= i, as torch aligns it. ``BOTTOM_RIGHT``: j <= i + Sk - Sq, as flash-attn and KV
    caches align it; Sk is ``seqlens_k[b]`` where given.
    """

    NONE = "none"
    TOP_LEFT = "top_left"
    BOTTOM_RIGHT = "bottom_right"

    @property
    def as_json(self) -> bool | str:
        """``False``, or the alignment's name."""
        return False if self is Causal.NONE else self.value


@dataclass(frozen=True, slots=True)
class AttentionSpec:
    """What a kernel computes. Shapes are not part of it: one kernel serves every length.

    Attributes:
        head_dim: d, elements of a query and key row, 1 to 512.
        head_dim_v: dv, elements of a value and output row, 1 to 512.
        dtype: type of q, k, v and out in memory.
        causal: the mask.
    """

    head_dim: int
    head_dim_v: int
    dtype: DType
    causal: Causal = Causal.NONE

    @property
    def summary(self) -> str:
        """One phrase for tables and banners: ``d=64, fp16, causal bottom_right``."""
        dims = f"d={self.head_dim}" + (f", dv={self.head_dim_v}" if self.head_dim_v != self.head_dim else "")
        mask = "no mask" if self.causal is Causal.NONE else f"causal {self.causal.value}"
        return f"{dims}, {self.dtype}, {mask}"


def make_spec(
    d: int, dtype: str | DType = "fp16", causal: CausalArgument = False, d_v: int | None = None
) -> AttentionSpec:
    """Builds a spec from plain arguments.

    Raises:
        SpecError: a head dim outside 1..512, an unknown dtype or an unknown alignment.
    """
    return AttentionSpec(
        head_dim=_head_dim("d", d),
        head_dim_v=_head_dim("d_v", d if d_v is None else d_v),
        dtype=parse_dtype(dtype),
        causal=parse_causal(causal),
    )


def parse_causal(causal: CausalArgument | Causal) -> Causal:
    """Reads the ``causal`` argument: True means ``bottom_right``.

    Raises:
        SpecError: not a bool and not the name of an alignment.
    """
    if causal is None or causal is False:
        return Causal.NONE
    if causal is True:
        return Causal.BOTTOM_RIGHT
    try:
        return Causal(causal)
    except ValueError:
        raise SpecError(
            f"causal={causal!r} is not known. Use False, True (= 'bottom_right'), 'bottom_right' or 'top_left'."
        ) from None


def _head_dim(name: str, value: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MAX_HEAD_DIM:
        raise SpecError(f"{name}={value!r} is out of range: head dims are whole numbers from 1 to {MAX_HEAD_DIM}.")
    return value
