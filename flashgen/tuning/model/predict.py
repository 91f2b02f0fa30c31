"""From counts to seconds.

On one multiprocessor each kind of work has its own pipe. Alone, a warp goes from one to the next, so its time is their
sum; many warps keep all pipes busy at once, so their time is the longest of them. With W warps on a scheduler the model
takes the longest, and the rest divided by W:

    cycles of a CTA = longest + (sum - longest) / W

The multiprocessor with the most CTAs decides, and device memory may take longer than all of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from flashgen.inspect.resources import KernelResources
from flashgen.tuning.model.counts import StepCounts
from flashgen.tuning.model.machine import LANES, SCHEDULERS, Machine

_SECTOR_BYTES = 32
_FREE = ("move", "load.param")  # ptxas renames registers, and parameters are constants
_INTEGER = ("int", "compare", "convert")


@dataclass(frozen=True, slots=True)
class Work:
    """A launch of the whole problem.

    Attributes:
        counts: of all heads together, scaled from what was emulated.
        ctas: of the grid.
        imbalance: time of the longest CTA over the mean.
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
        pipes: cycles of the busiest multiprocessor in each pipe.
        memory_seconds: that device memory needs.
        ctas: on a multiprocessor at once.
        warps: on a scheduler at once.
    """

    seconds: float
    bound: str
    pipes: dict[str, float]
    memory_seconds: float
    ctas: int
    warps: float

    def as_dict(self) -> dict[str, Any]:
        """Plain data, for records."""
        return {
            "seconds": self.seconds,
            "bound": self.bound,
            "cycles": {name: round(cycles) for name, cycles in self.pipes.items()},
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
    share = rounds * work.imbalance / work.ctas
    pipes = {name: cycles * share for name, cycles in pipe_cycles(work.counts, machine).items()}
    longest = max(pipes, key=lambda name: pipes[name])
    # Issuing is no pipe that work waits in, only a limit to all of them together.
    others = sum(cycles for name, cycles in pipes.items() if name not in (longest, "issue"))
    seconds = (pipes[longest] + others / max(warps, 1.0)) / machine.clock
    memory = memory_seconds(work, machine)
    return StepTime(max(seconds, memory), longest if seconds >= memory else "memory", pipes, memory, resident, warps)


def pipe_cycles(counts: StepCounts, machine: Machine) -> dict[str, float]:
    """Cycles that all the work would take in each pipe of a single multiprocessor."""
    units = counts.units
    issued = sum(count for unit, count in units.items() if unit not in _FREE)
    global_instructions = sum(units.get(unit, 0) for unit in ("load.global", "store.global", "atomic", "copy.async"))
    pipes = {
        "fp32": units.get("fp32", 0) / machine.fp32,
        "integer": sum(units.get(unit, 0) for unit in _INTEGER) / machine.integer,
        "special": units.get("special", 0) / machine.special,
        "shared": (counts.wavefronts + units.get("warp", 0)) / machine.wavefronts,
        "global": max(sum(counts.sectors.values()) * _SECTOR_BYTES / 64, float(global_instructions)),
        "issue": issued / SCHEDULERS,
    }
    if units.get("fp64"):
        pipes["fp64"] = units["fp64"] / machine.fp64
    if counts.products and machine.tensor:
        pipes["tensor"] = counts.products / machine.tensor
    return pipes


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
