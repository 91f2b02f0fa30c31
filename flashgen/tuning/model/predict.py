"""From counts to seconds.

Counted instructions become cycles of each pipe, and those become time by the warps that overlap them, as
flashgen/pipes has it. The multiprocessor with the most CTAs decides, and device memory may take longer than all of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from flashgen.inspect.resources import KernelResources
from flashgen.pipes.cycles import WAVEFRONT_BYTES, PipeCycles, byte_cycles, warp_cycles
from flashgen.pipes.machine import LANES, SCHEDULERS, Machine, PipeRates
from flashgen.pipes.overlap import cycles_shared_out
from flashgen.tuning.model.counts import StepCounts

_NOMINAL_CLOCK = 1.5e9  # where a device's is not known; plans are ranked all the same
_SECTOR_BYTES = 32
_FREE = ("move", "load.param")  # ptxas renames registers, and parameters are constants
_INTEGER = ("int", "compare", "convert")


@dataclass(frozen=True, slots=True)
class Work:
    """A launch of the whole problem.

    Attributes:
        counts: of all heads together, scaled from what was emulated.
        ctas: of the grid.
        imbalance: work of the busiest multiprocessor over what it would have were all CTAs equal.
        array_bytes: sizes of the arrays, by name.
    """

    counts: StepCounts
    ctas: int
    imbalance: float
    array_bytes: dict[str, int]


@dataclass(frozen=True, slots=True)
class StepTime:
    """What the model makes of a launch.

    Attributes:
        seconds: the launch.
        bound: the pipe that takes longest, or ``memory``.
        cycles: of each scheduler of the busiest multiprocessor, by pipe.
        memory_seconds: that device memory needs.
        ctas: on a multiprocessor at once.
        warps: on a scheduler at once.
    """

    seconds: float
    bound: str
    cycles: PipeCycles
    memory_seconds: float
    ctas: int
    warps: float

    def as_dict(self) -> dict[str, Any]:
        """Plain data, for records."""
        return {
            "seconds": self.seconds,
            "bound": self.bound,
            "cycles": {name: round(cycles) for name, cycles in self.cycles.as_dict().items()},
            "memory_seconds": self.memory_seconds,
            "ctas_on_sm": self.ctas,
            "warps_on_scheduler": self.warps,
        }


def step_time(work: Work, resources: KernelResources, machine: Machine) -> StepTime:
    """Predicts a launch.

    Args:
        work: what there is to do.
        resources: of the kernel, with its occupancy.
        machine: the device.
    """
    rounds = -(-work.ctas // machine.sms)  # CTAs that the busiest multiprocessor gets
    fitting = resources.occupancy.ctas if resources.occupancy else 1
    resident = max(min(fitting, rounds), 1)
    warps = resident * -(-resources.threads // LANES) / SCHEDULERS
    cycles = counted_cycles(work.counts, machine.rates) * (rounds * work.imbalance / work.ctas)
    seconds = cycles_shared_out(cycles, warps) / (machine.clock or _NOMINAL_CLOCK)
    memory = memory_seconds(work, machine)
    bound = cycles.busiest if seconds >= memory else "memory"
    return StepTime(max(seconds, memory), bound, cycles, memory, resident, warps)


def counted_cycles(counts: StepCounts, rates: PipeRates) -> PipeCycles:
    """Cycles of each of four schedulers, if all the work were that of a single multiprocessor."""
    units = counts.units

    def at(lanes: int, *kinds: str) -> float:
        return sum(units.get(kind, 0) for kind in kinds) * warp_cycles(lanes)

    all_of_them = PipeCycles(
        tensor=counts.products * SCHEDULERS / rates.tensor,
        fma=at(rates.fp32, "fp32"),
        fp64=at(rates.fp64, "fp64"),
        alu=at(rates.alu, *_INTEGER),
        special=at(rates.special, "special"),
        shared=byte_cycles(counts.wavefronts * WAVEFRONT_BYTES, rates.shared) + at(LANES, "warp"),
        l2=byte_cycles((sum(counts.sectors.values()) - counts.copied) * _SECTOR_BYTES, rates.l2),
        issue=sum(count for unit, count in units.items() if unit not in _FREE),
    )
    return all_of_them * (1 / SCHEDULERS)


def memory_seconds(work: Work, machine: Machine) -> float:
    """Time of device memory: every array once, and what does not fit into the L2 cache again and again."""
    if machine.bandwidth is None:
        return 0.0
    total = sum(work.array_bytes.values())
    missing = max(0.0, 1.0 - machine.l2_bytes / total) if total else 0.0
    moved = 0.0
    for name, sectors in work.counts.sectors.items():
        once, all_of_it = work.array_bytes.get(name, 0), sectors * _SECTOR_BYTES
        moved += min(once, all_of_it) + missing * max(all_of_it - once, 0)
    return moved / machine.bandwidth
