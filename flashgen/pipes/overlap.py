"""How long warps take that share the pipes of a scheduler.

A warp goes from pipe to pipe. Alone it needs the sum of its times in them; many warps overlap until the busiest pipe
never rests. Between the two, mean value analysis of a closed network of queues gives the time exactly, with nothing
to fit: a warp that comes to a pipe finds there, on average, what it would find in a network with one warp less.

Source: M. Reiser and S. S. Lavenberg, Mean-Value Analysis of Closed Multichain Queuing Networks, JACM 27 (1980).
"""

from __future__ import annotations

from math import ceil, floor

from flashgen.pipes.cycles import PipeCycles


def cycles_alone(work: PipeCycles) -> float:
    """Cycles of a warp that is alone: nothing overlaps but shared memory, whose accesses ptxas spreads out."""
    others = sum(work.pipes.values()) - work.shared
    return max(others, work.shared, work.issue)


def cycles_together(work: PipeCycles, warps: float) -> float:
    """Cycles until each of some warps on one scheduler has done its work.

    Args:
        work: of each warp.
        warps: how many. Between two whole numbers, time is interpolated; less than one is one, beside idle schedulers.
    """
    warps = max(warps, 1.0)
    low, high = floor(warps), ceil(warps)
    first = _whole(work, low)
    return first if high == low else first + (warps - low) * (_whole(work, high) - first)


def cycles_shared_out(work: PipeCycles, warps: float) -> float:
    """Cycles for work that is dealt out to so many warps of each scheduler.

    Args:
        work: of a scheduler, on the average of all four.
        warps: of a scheduler, on the average; less than one leaves some of the four idle.
    """
    return cycles_together(work, warps) / warps


def _whole(work: PipeCycles, warps: int) -> float:
    times = tuple(work.pipes.values())
    waiting = [0.0] * len(times)
    total = 0.0
    for present in range(1, warps + 1):
        stays = [time * (1 + queue) for time, queue in zip(times, waiting, strict=True)]
        total = sum(stays)
        waiting = [present * stay / total if total else 0.0 for stay in stays]
    one_by_one = warps * cycles_alone(work)
    return max(min(total, one_by_one), warps * work.longest)
