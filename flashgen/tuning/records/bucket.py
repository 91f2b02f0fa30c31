"""Shape buckets: calls of about one size share a tuned plan.

A bucket rounds B * Hq, Sq and Sk up to powers of two. Tiles that are best at 1,000 keys are best at 1,024. What counts
for a decode kernel is how many K and V there are, and how many query rows meet each: B * Hkv, and the rows of all heads
that share them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from flashgen.families.base import Family

_NAME = re.compile(r"(h|kv)(\d+)_(q|rows)(\d+)_k(\d+)")


@dataclass(frozen=True, slots=True, order=True)
class Bucket:
    """One class of shapes; each size is the largest that belongs to it.

    Attributes:
        heads: batch * num_heads; batch * num_heads_kv where heads are packed.
        seqlen_q: query rows of a head; of all heads that share a K and V where these are packed.
        seqlen_k: keys.
        packed: whether heads are packed, as decode kernels do.
    """

    heads: int
    seqlen_q: int
    seqlen_k: int
    packed: bool = False

    @property
    def name(self) -> str:
        """As file names have it: ``h8_q1024_k1024``, ``kv8_rows4_k4096``."""
        heads, rows = ("kv", "rows") if self.packed else ("h", "q")
        return f"{heads}{self.heads}_{rows}{self.seqlen_q}_k{self.seqlen_k}"

    @property
    def summary(self) -> str:
        """For people: ``B*H 5-8, Sq 513-1,024, Sk 513-1,024``."""
        heads, rows = ("B*Hkv", "packed rows") if self.packed else ("B*H", "Sq")
        sizes = ((heads, self.heads), (rows, self.seqlen_q), ("Sk", self.seqlen_k))
        return ", ".join(f"{label} {_range(size)}" for label, size in sizes)


def bucket_of(heads: int, seqlen_q: int, seqlen_k: int) -> Bucket:
    """The bucket of a call with ``heads`` = batch * num_heads; sizes are positive."""
    return Bucket(_next_power(heads), _next_power(seqlen_q), _next_power(seqlen_k))


def bucket_for(family: Family, batch: int, heads: int, heads_kv: int, seqlen_q: int, seqlen_k: int) -> Bucket:
    """The bucket of a call that a family serves; sizes are positive."""
    if not family.packs_heads:
        return bucket_of(batch * heads, seqlen_q, seqlen_k)
    packed = bucket_of(batch * heads_kv, seqlen_q * (heads // heads_kv), seqlen_k)
    return Bucket(packed.heads, packed.seqlen_q, packed.seqlen_k, packed=True)


def parse_bucket(name: str) -> Bucket | None:
    """Reads a bucket's name; None if it is none."""
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    bucket = Bucket(int(match[2]), int(match[4]), int(match[5]), packed=match[1] == "kv")
    return bucket if bucket.name == name else None


def _next_power(size: int) -> int:
    return 1 << (size - 1).bit_length()


def _range(largest: int) -> str:
    return f"{largest // 2 + 1:,}-{largest:,}" if largest > 2 else f"{largest}"
