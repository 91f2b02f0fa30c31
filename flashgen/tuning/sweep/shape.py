"""The shapes that a sweep measures at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flashgen.families.base import Family
from flashgen.runtime.kernel import Problem
from flashgen.spec import AttentionSpec, Causal
from flashgen.tuning.records.bucket import Bucket, bucket_for

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Shape:
    """Sizes of one call.

    Attributes:
        batch, heads, heads_kv: sizes; heads_kv divides heads.
        seqlen_q: query rows.
        seqlen_k: keys.
    """

    batch: int
    heads: int
    heads_kv: int
    seqlen_q: int
    seqlen_k: int

    def bucket(self, family: Family) -> Bucket:
        """The bucket that a family's results for this shape belong to."""
        return bucket_for(family, self.batch, self.heads, self.heads_kv, self.seqlen_q, self.seqlen_k)

    @property
    def problem(self) -> Problem:
        """The call, as builds classify it."""
        return Problem.of_sizes(self.batch, self.heads, self.heads_kv, self.seqlen_q, self.seqlen_k)

    @property
    def label(self) -> str:
        """For people: ``B1 H8 N1024``, ``B1 H32/8 1x4096``."""
        heads = f"H{self.heads}" + (f"/{self.heads_kv}" if self.heads_kv != self.heads else "")
        square = self.seqlen_q == self.seqlen_k
        return f"B{self.batch} {heads} " + (f"N{self.seqlen_q}" if square else f"{self.seqlen_q}x{self.seqlen_k}")

    def as_dict(self) -> dict[str, int]:
        """Plain data, for JSON."""
        names = ("batch", "heads", "heads_kv", "seqlen_q", "seqlen_k")
        return {name: getattr(self, name) for name in names}

    def visible_keys(self, row: int, causal: Causal) -> int:
        """How many keys a query row sees; they are the first ones."""
        if causal is Causal.NONE:
            return self.seqlen_k
        offset = self.seqlen_k - self.seqlen_q if causal is Causal.BOTTOM_RIGHT else 0
        return min(max(row + 1 + offset, 0), self.seqlen_k)

    def flops(self, spec: AttentionSpec) -> int:
        """2 (d + dv) for each (query, key) pair that the mask lets through, the field's convention."""
        pairs = sum(self.visible_keys(row, spec.causal) for row in range(self.seqlen_q))
        return 2 * self.batch * self.heads * (spec.head_dim + spec.head_dim_v) * pairs

    def inputs(self, spec: AttentionSpec, seed: int = 0) -> tuple[Array, Array, Array]:
        """q, k and v, N(0, 1), heads before rows."""
        rng = np.random.default_rng(seed)
        keys = (self.batch, self.heads_kv, self.seqlen_k)
        shapes = (
            (self.batch, self.heads, self.seqlen_q, spec.head_dim),
            (*keys, spec.head_dim),
            (*keys, spec.head_dim_v),
        )
        storage = spec.dtype.numpy()
        q, k, v = (rng.standard_normal(shape, dtype=np.float32).astype(storage) for shape in shapes)
        return q, k, v
