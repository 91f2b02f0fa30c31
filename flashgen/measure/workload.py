"""What is timed: shapes, their inputs, their flops and their bytes."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flashgen.dtypes import DType
from flashgen.spec import Causal

Array = NDArray[Any]
KeysValues = tuple[Array, Array]


@dataclass(frozen=True, slots=True)
class Workload:
    """One forward pass over random inputs.

    Attributes:
        batch, heads, heads_kv, seqlen_q, seqlen_k, d, d_v: sizes.
        dtype: of the tensors.
        causal: the mask; both alignments are one where queries and keys are equally many.
    """

    batch: int
    heads: int
    heads_kv: int
    seqlen_q: int
    seqlen_k: int
    d: int
    d_v: int
    dtype: DType
    causal: Causal = Causal.NONE

    @property
    def flops(self) -> int:
        """2 (d + dv) for each (query, key) pair that the mask lets through, the field's convention."""
        return 2 * self.batch * self.heads * (self.d + self.d_v) * self.pairs

    @property
    def pairs(self) -> int:
        """(query, key) pairs of one head that the mask lets through."""
        if self.causal is Causal.NONE:
            return self.seqlen_q * self.seqlen_k
        offset = self.seqlen_k - self.seqlen_q if self.causal is Causal.BOTTOM_RIGHT else 0
        return sum(min(max(row + 1 + offset, 0), self.seqlen_k) for row in range(self.seqlen_q))

    @property
    def kv_bytes(self) -> int:
        """Bytes of K and V, each read once."""
        return self.batch * self.heads_kv * self.seqlen_k * (self.d + self.d_v) * self.dtype.size

    def inputs(self, seed: int = 0) -> tuple[Array, Array, Array]:
        """Arrays q (B, Hq, Sq, d), k (B, Hkv, Sk, d) and v (B, Hkv, Sk, dv), N(0, 1)."""
        rng = np.random.default_rng(seed)
        shapes = [
            (self.batch, heads, seqlen, dim)
            for heads, seqlen, dim in (
                (self.heads, self.seqlen_q, self.d),
                (self.heads_kv, self.seqlen_k, self.d),
                (self.heads_kv, self.seqlen_k, self.d_v),
            )
        ]
        q, k, v = (rng.standard_normal(shape, dtype=np.float32).astype(self.dtype.numpy()) for shape in shapes)
        return q, k, v

    def packed(self) -> Workload:
        """The same work without grouped heads: the query heads that share K and V, one below the other, are one head.

        Only without a mask, which would see other positions. q of (B, Hq, Sq, d) is reshaped to what this one says.
        """
        group = self.heads // self.heads_kv
        return replace(self, heads=self.heads_kv, seqlen_q=group * self.seqlen_q)

    @property
    def q_shape(self) -> tuple[int, int, int, int]:
        """(B, Hq, Sq, d)."""
        return self.batch, self.heads, self.seqlen_q, self.d


def torch_is_here() -> bool:
    """Whether torch is installed."""
    return importlib.util.find_spec("torch") is not None


def to_torch(array: Array) -> Any:
    """A torch tensor on the array's memory; bf16 passes through as its bits."""
    import torch

    if array.dtype.name == "bfloat16":
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)
