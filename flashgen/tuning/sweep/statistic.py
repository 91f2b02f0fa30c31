"""What a handful of noisy timings tells: medians, and how sure they are.

Seconds of different moments cannot be compared on a shared machine; ratios of two turns that lie side by side can.
Nothing here assumes a distribution: on such machines it is skewed, with a long tail.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

# Four finalists are compared with the default, and looked at several times.
CONFIDENCE = 0.99


@dataclass(frozen=True, slots=True)
class Interval:
    """A median and the range in which the true one lies with 99% confidence.

    Attributes:
        median: of the values.
        low, high: the range; 0 and infinity while there are too few values to say.
    """

    median: float
    low: float
    high: float

    @property
    def width(self) -> float:
        """High - low."""
        return self.high - self.low


def median_interval(values: Sequence[float], confidence: float = CONFIDENCE) -> Interval:
    """The median and its confidence interval, from order statistics.

    That the median lies between the k-th smallest and the k-th largest of n values has the probability
    1 - 2 P(Binomial(n, 1/2) < k), whatever the distribution is. Eight values are the fewest that tell anything at 99%.
    """
    ordered = sorted(values)
    rank = _rank(len(ordered), confidence)
    middle = statistics.median(ordered)
    if rank == 0:
        return Interval(middle, 0.0, math.inf)
    return Interval(middle, ordered[rank - 1], ordered[-rank])


def spread(values: Sequence[float]) -> float:
    """(third quartile - first quartile) / median; the whole range where there are fewer than four values."""
    if len(values) < 4:
        return (max(values) - min(values)) / statistics.median(values)
    first, _, third = statistics.quantiles(values, n=4)
    return (third - first) / statistics.median(values)


def _rank(count: int, confidence: float) -> int:
    """The largest k whose interval still has the confidence asked for; 0 if none has."""
    tail, below = 0.0, 0
    for k in range(count // 2 + 1):
        tail += math.comb(count, k) / 2.0**count
        if 2 * tail > 1 - confidence:
            break
        below = k + 1
    return below
