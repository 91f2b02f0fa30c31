"""Timing that can be believed on a shared machine.

Thread pools of different libraries spin after a call and steal the cores from whoever is timed next; a
pool that has slept may find its threads on one core for the first milliseconds; clocks and neighbours
drift. So: peers take turns within one run and start in turn, each timed call comes after a pause and
untimed calls, the machine's peak is probed in the same round, rounds in which it sags or others use the machine are
discarded (and counted), and what is reported is the median.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from flashgen.measure.foreign_load import ForeignLoad

PAUSE_SECONDS = 0.04
DISTURBED_BELOW = 0.85
DISTURBED_CORES = 0.15
_AFTER_PROBE = 4  # pauses
_WARM_SECONDS = 0.01
_SHORTEST_SECONDS = 5e-3


@dataclass(frozen=True, slots=True)
class Timing:
    """How long one peer's call takes.

    Attributes:
        median_s: median seconds of one call over the rounds that count.
        spread: (third quartile - first quartile) / median.
        rounds: how many rounds count.
        discarded: how many were disturbed by foreign load.
    """

    median_s: float
    spread: float
    rounds: int
    discarded: int


@dataclass(frozen=True, slots=True)
class Comparison:
    """One interleaved run.

    Attributes:
        timings: peer -> timing, in the order given.
        peak_gflops: the machine's FMA rate, median of the rounds that count.
        foreign_cores: cores that other work took, median of the rounds that count; None where the system does not tell.
    """

    timings: dict[str, Timing]
    peak_gflops: float
    foreign_cores: float | None = None


def compare(
    peers: dict[str, Callable[[], object]],
    probe: Callable[[], float],
    *,
    known_peak: float = 0.0,
    rounds: int = 11,
    pause: float = PAUSE_SECONDS,
    progress: Callable[[], None] = lambda: None,
    foreign: ForeignLoad | None = None,
) -> Comparison:
    """Times peers against each other in one interleaved run.

    Args:
        peers: name -> call to time.
        probe: measures the machine's FMA rate.
        known_peak: the best rate that the probe has read before; rounds are judged by it.
        rounds: how often each peer is timed.
        pause: seconds before each peer's turn, so that the last one's threads stop spinning.
        progress: called after each peer's turn.
        foreign: tells what others use of the machine; by default, the operating system does.
    """
    foreign = foreign or ForeignLoad()
    repeats = {name: _repeats(call) for name, call in peers.items()}
    seconds: dict[str, list[float]] = {name: [] for name in peers}
    peaks, loads = [], []
    names = list(peers)
    for turn in range(rounds):
        foreign.restart()
        time.sleep(pause)
        before = probe()
        # The clock is lower for a while after the probe: whoever came next would always read 4-7% low.
        time.sleep(_AFTER_PROBE * pause)
        first = turn % len(names)
        for name in names[first:] + names[:first]:
            time.sleep(pause)
            seconds[name].append(time_call(peers[name], repeats[name]))
            progress()
        time.sleep(pause)
        peaks.append(min(before, probe()))
        loads.append(foreign.cores())
    best = max(known_peak, *peaks)
    good = undisturbed(peaks, best, loads)
    discarded = rounds - len(good)
    timings = {name: _timing([all_seconds[i] for i in good], discarded) for name, all_seconds in seconds.items()}
    # Where every round was disturbed, the best one is reported, but not its peak.
    peak = max(statistics.median(peaks[i] for i in good), DISTURBED_BELOW * best)
    known_loads = [load for load in (loads[i] for i in good) if load is not None]
    return Comparison(timings, peak, statistics.median(known_loads) if known_loads else None)


def undisturbed(peaks: Sequence[float], best: float, loads: Sequence[float | None]) -> list[int]:
    """Rounds whose peak probe is near the best rate known and that others left the machine to; the best if none is.

    Args:
        peaks: what the probe read in each round.
        best: the best rate known.
        loads: cores that others took in each round; None where that is not known.
    """
    quiet = [load is None or load <= DISTURBED_CORES for load in loads]
    good = [index for index, peak in enumerate(peaks) if quiet[index] and peak >= DISTURBED_BELOW * best]
    return good or [max(range(len(peaks)), key=lambda index: (quiet[index], peaks[index]))]


def _repeats(call: Callable[[], object]) -> int:
    """Calls to time as one, so that the clock's own cost does not show."""
    elapsed = time_call(call, 1)
    return max(1, round(_SHORTEST_SECONDS / max(elapsed, 1e-7)))


def time_call(call: Callable[[], object], repeats: int, batches: int = 1) -> float:
    """Seconds of one call, timed after enough untimed ones to wake and spread the threads.

    Args:
        call: what to time.
        repeats: calls that are timed as one batch.
        batches: the fastest of so many batches counts.
    """
    begin = time.perf_counter()
    call()
    while time.perf_counter() - begin < _WARM_SECONDS:
        call()
    return min(_time_batch(call, repeats) for _ in range(batches))


def _time_batch(call: Callable[[], object], repeats: int) -> float:
    start = time.perf_counter()
    for _ in range(repeats):
        call()
    return (time.perf_counter() - start) / repeats


def _timing(seconds: list[float], discarded: int) -> Timing:
    median = statistics.median(seconds)
    if len(seconds) < 4:
        spread = (max(seconds) - min(seconds)) / median
    else:
        first, _, third = statistics.quantiles(seconds, n=4)
        spread = (third - first) / median
    return Timing(median, spread, len(seconds), discarded)
