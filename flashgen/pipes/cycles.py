"""Cycles by pipe: what instructions are turned into, and what time is made of."""

from __future__ import annotations

from dataclasses import dataclass, fields

from flashgen.pipes.machine import LANES, SCHEDULERS

WAVEFRONT_BYTES = 128


@dataclass(frozen=True, slots=True)
class PipeCycles:
    """Cycles of one of a multiprocessor's four schedulers, in each pipe that its warps use.

    A scheduler has pipes of its own for arithmetic, and a quarter of what the multiprocessor has of the others.

    Attributes:
        tensor: products on tensor cores.
        fma: fp32 arithmetic and integer products.
        fp64: fp64 arithmetic.
        alu: integers, logic, comparisons, maxima, packed conversions.
        special: 2^x, single conversions.
        shared: shared memory, shuffles, local memory.
        l2: global memory, as far as L2. Asynchronous copies keep no warp waiting and are in `shared` alone.
        issue: all instructions, one in a cycle: no pipe that work waits in, but a limit to all of them together.
    """

    tensor: float = 0.0
    fma: float = 0.0
    fp64: float = 0.0
    alu: float = 0.0
    special: float = 0.0
    shared: float = 0.0
    l2: float = 0.0
    issue: float = 0.0

    def __add__(self, other: PipeCycles) -> PipeCycles:
        mine, theirs = self.as_dict(), other.as_dict()
        return PipeCycles(**{name: mine[name] + theirs[name] for name in mine})

    def __mul__(self, factor: float) -> PipeCycles:
        return PipeCycles(**{name: cycles * factor for name, cycles in self.as_dict().items()})

    def as_dict(self) -> dict[str, float]:
        """By name, in the order of the attributes."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @property
    def pipes(self) -> dict[str, float]:
        """All but `issue`."""
        return {name: cycles for name, cycles in self.as_dict().items() if name != "issue"}

    @property
    def busiest(self) -> str:
        """What takes longest; of equals the first."""
        cycles = self.as_dict()
        return max(cycles, key=lambda name: cycles[name])

    @property
    def longest(self) -> float:
        """Cycles of the busiest: no schedule is faster."""
        return max(self.as_dict().values())


def warp_cycles(lanes: float) -> float:
    """Cycles of a scheduler for one instruction of a warp, in a pipe that has so many lanes in a multiprocessor."""
    return LANES * SCHEDULERS / lanes


def byte_cycles(size: float, rate: float) -> float:
    """Cycles of a scheduler's quarter for some bytes, at a multiprocessor's bytes in a clock."""
    return size * SCHEDULERS / rate
