"""How much of the machine others use: load that lasts is not seen by a probe that never knew the machine without it."""

from __future__ import annotations

import os
import time
from pathlib import Path

_STAT = Path("/proc/stat")
# user, nice, system, idle, iowait, irq, softirq, steal: guests are within user and nice
_BUSY = (0, 1, 2, 5, 6, 7)


class ForeignLoad:
    """Cores that other processes, and other guests of the same host, took since the last start."""

    def __init__(self, stat: Path = _STAT) -> None:
        """Starts.

        Args:
            stat: the kernel's table of processor times.
        """
        self._stat = stat
        self.restart()

    def restart(self) -> None:
        """Counts from now on."""
        self._start = self._now()

    def cores(self) -> float | None:
        """Mean number of cores since the start; None where the system does not tell.

        Good to a few percent of a core over half a second, as the kernel counts ticks.
        """
        before, after = self._start, self._now()
        if before is None or after is None or after[0] <= before[0]:
            return None
        elapsed, busy, own = (b - a for a, b in zip(before, after, strict=True))
        return max(0.0, (busy - own) / elapsed)

    def _now(self) -> tuple[float, float, float] | None:
        """Wall time, busy time of all cores, this process' own, in seconds."""
        try:
            ticks = [int(word) for word in self._stat.read_text().split("\n", 1)[0].split()[1:]]
            busy = sum(ticks[column] for column in _BUSY) / os.sysconf("SC_CLK_TCK")
        except (OSError, ValueError, IndexError):
            return None
        return time.perf_counter(), busy, time.process_time()
