"""Shape buckets: calls of about one size share a tuned plan.

A bucket rounds B * Hq, Sq and Sk up to powers of two. Tiles that are best at 1,000 keys are best at 1,024.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_NAME = re.compile(r"h(\d+)_q(\d+)_k(\d+)")


@dataclass(frozen=True, slots=True, order=True)
class Bucket:
    """One class of shapes; each size is the largest that belongs to it.

    Attributes:
        heads: batch * num_heads.
        seqlen_q: query rows.
        seqlen_k: keys.
    """

    heads: int
    seqlen_q: int
    seqlen_k: int

    @property
    def name(self) -> str:
        """As file names have it: ``h8_q1024_k1024``."""
        return f"h{self.heads}_q{self.seqlen_q}_k{self.seqlen_k}"

    @property
    def summary(self) -> str:
        """For people: ``B*H 5-8, Sq 513-1,024, Sk 513-1,024``."""
        sizes = (("B*H", self.heads), ("Sq", self.seqlen_q), ("Sk", self.seqlen_k))
        return ", ".join(f"{label} {_range(size)}" for label, size in sizes)


def bucket_of(heads: int, seqlen_q: int, seqlen_k: int) -> Bucket:
    """The bucket of a call with ``heads`` = batch * num_heads; sizes are positive."""
    return Bucket(_next_power(heads), _next_power(seqlen_q), _next_power(seqlen_k))


def parse_bucket(name: str) -> Bucket | None:
    """Reads a bucket's name; None if it is none."""
    match = _NAME.fullmatch(name)
    return Bucket(*map(int, match.groups())) if match else None


def _next_power(size: int) -> int:
    return 1 << (size - 1).bit_length()


def _range(largest: int) -> str:
    return f"{largest // 2 + 1:,}-{largest:,}" if largest > 2 else f"{largest}"
