"""What a kernel family is: one way to compute attention, with its arithmetic.

A family is stateless. It says what it can compute and where, how many on-chip bytes a tile takes,
which tiles are legal, and which constants its template needs. Everything above (planner, renderer,
runtime, tuner) knows families only through this class.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar

from flashgen.launch_plan import LaunchPlan
from flashgen.spec import AttentionSpec
from flashgen.target import DeviceLimits, Target
from flashgen.tile_plan import Footprint, NoKnobs, TilePlan


@dataclass(frozen=True, slots=True)
class TileGrid:
    """The tile sizes that the planner may choose, ascending: legal values of br and of bc."""

    br: tuple[int, ...]
    bc: tuple[int, ...]


def snap(value: int, legal: tuple[int, ...]) -> int:
    """The largest legal value that does not exceed ``value``, else the smallest one."""
    return legal[max(bisect_right(legal, value) - 1, 0)]


class Family(ABC):
    """One way to compute attention on one kind of target.

    Attributes:
        name: the family's name, and its template's and entry's.
        algorithm: ``standard``, ``online_softmax``, ``fa1``, ``fa2`` or ``fa3``.
        kind: the kind of target that it runs on, ``cpu`` or ``cuda``.
        language: ``c++`` or ``cuda``.
        priority: ``auto`` takes the serving family with the highest.
    """

    name: ClassVar[str]
    algorithm: ClassVar[str]
    kind: ClassVar[str]
    language: ClassVar[str]
    priority: ClassVar[int] = 0

    @property
    def template(self) -> str:
        """Path of the template below the templates directory."""
        suffix = "cpp" if self.language == "c++" else "cu"
        return f"{self.kind}/{self.name}.{suffix}.j2"

    @property
    def entry(self) -> str:
        """Symbol of the rendered kernel."""
        return f"flashgen_{self.name}"

    @property
    def packs_heads(self) -> bool:
        """Whether all query heads that share a K and V are rows of one tile, and the keys are split: to decode."""
        return self.algorithm == "decode"

    def refusal(self, spec: AttentionSpec, target: Target) -> str | None:
        """Why this family cannot compute ``spec`` on ``target`` (one phrase), or None if it can."""
        return None if target.kind == self.kind else f"runs on {self.kind} targets only"

    @abstractmethod
    def footprint(self, spec: AttentionSpec, br: int, bc: int, knobs: Any) -> Footprint:
        """Exact on-chip bytes of a br x bc tile."""

    @abstractmethod
    def grid(self, spec: AttentionSpec, target: Target) -> TileGrid:
        """The tiles that the planner may choose from."""

    @abstractmethod
    def default_tile(self, spec: AttentionSpec, target: Target) -> tuple[int, int]:
        """(br, bc) to use when no budget is given."""

    def knobs(self, spec: AttentionSpec, target: Target, br: int, bc: int) -> Any:
        """The family's further choices for a tile, as a frozen dataclass."""
        return NoKnobs()

    def thrifty_knobs(self, spec: AttentionSpec, target: Target, br: int, bc: int) -> Any:
        """Those for a budget that the tile exceeds with the usual ones; they need not take less."""
        return self.knobs(spec, target, br, bc)

    def tile_refusal(self, spec: AttentionSpec, target: Target, br: int, bc: int) -> str | None:
        """Why a tile that a user asked for cannot be had (one sentence), or None if it can."""
        grid = self.grid(spec, target)
        for name, value, legal in (("br", br, grid.br), ("bc", bc, grid.bc)):
            if value not in legal:
                return f"{name}={value} is not a tile of {self.name}; it takes {_describe(legal)}."
        return None

    @abstractmethod
    def constants(self, spec: AttentionSpec, plan: TilePlan, target: Target) -> Mapping[str, Any]:
        """What the template needs beyond spec, plan and target."""

    def launch_plan(self, spec: AttentionSpec, plan: TilePlan) -> LaunchPlan:
        """How a rendered CUDA kernel is launched. CPU kernels are called, so they have none."""
        raise NotImplementedError(f"{self.name} is not launched")

    def workspace_bytes(self, spec: AttentionSpec, plan: TilePlan, seqlen_q: int, seqlen_k: int) -> int:
        """Memory that one thread (CPU) or block (CUDA) needs beyond inputs and outputs."""
        return plan.footprint.total

    def small_tile(self, spec: AttentionSpec, target: Target) -> tuple[int, int] | None:
        """(br, bc) of a second kernel for short sequences, or None if one kernel serves all lengths."""
        return None

    def knob_choices(self, spec: AttentionSpec, target: Target, br: int, bc: int) -> tuple[Any, ...]:
        """Settings of the knobs that are worth measuring for a tile, when tuning; the one of `knobs` first."""
        return (self.knobs(spec, target, br, bc),)

    def describe_knobs(self, knobs: Any) -> str:
        """The knobs in a phrase, beside a tile in a table: ``warps 4``; empty if there are none."""
        return ", ".join(f"{field.name} {getattr(knobs, field.name)}" for field in fields(knobs))

    def most_packed_rows(self, spec: AttentionSpec, target: Target, group: int) -> int:
        """Query rows of a kv head, over all heads that share it, up to which a decode family is the one to take.

        Args:
            spec: what is computed.
            target: where.
            group: how many heads share a kv head.
        """
        return 0

    def candidates(self, spec: AttentionSpec, target: Target, limits: DeviceLimits) -> tuple[tuple[int, int], ...]:
        """Tiles worth measuring when tuning, whether or not they fit: the tuner prunes, and says why.

        Those of the grid whose sides are powers of two or one and a half times one; neighbours in between
        rarely differ by more than the noise.
        """
        grid = self.grid(spec, target)
        return tuple((br, bc) for br in _octaves(grid.br) for bc in _octaves(grid.bc))


def _octaves(legal: tuple[int, ...]) -> tuple[int, ...]:
    """The values of the form 2^n or 3 * 2^n."""
    return tuple(value for value in legal if _is_power(value) or (value % 3 == 0 and _is_power(value // 3)))


def _is_power(value: int) -> bool:
    return value & (value - 1) == 0


def _describe(legal: tuple[int, ...]) -> str:
    if len(legal) <= 8:
        return ", ".join(map(str, legal))
    return f"{', '.join(map(str, legal[:4]))}, ... {legal[-1]}"
