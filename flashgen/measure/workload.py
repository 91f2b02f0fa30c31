"""What is timed: shapes, their inputs and their flops."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from typing import Any

import numpy as np

from flashgen.dtypes import DType
from flashgen.spec import Causal


@dataclass(frozen=True, slots=True)
class Workload:
    """One forward pass over random inputs.

    Attributes:
        batch, heads, heads_kv, seqlen, d, d_v: sizes; queries and keys are equally many.
        dtype: of the tensors.
        causal: the mask.
    """

    batch: int
    heads: int
    heads_kv: int
    seqlen: int
    d: int
    d_v: int
    dtype: DType
    causal: Causal

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """(B, H, N, d)."""
        return self.batch, self.heads, self.seqlen, self.d

    @property
    def flops(self) -> int:
        """2 (d + dv) for each (query, key) pair that the mask lets through, the field's convention."""
        pairs = self.seqlen * self.seqlen if self.causal is Causal.NONE else self.seqlen * (self.seqlen + 1) // 2
        return 2 * self.batch * self.heads * (self.d + self.d_v) * pairs

    def inputs(self, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """q, k and v, N(0, 1)."""
        rng = np.random.default_rng(seed)
        heads_dims = ((self.heads, self.d), (self.heads_kv, self.d), (self.heads_kv, self.d_v))
        shapes = [(self.batch, heads, self.seqlen, dim) for heads, dim in heads_dims]
        q, k, v = (rng.standard_normal(shape, dtype=np.float32).astype(self.dtype.numpy()) for shape in shapes)
        return q, k, v


def torch_is_here() -> bool:
    """Whether torch is installed."""
    return importlib.util.find_spec("torch") is not None


def to_torch(array: np.ndarray) -> Any:
    """A torch tensor on the array's memory; bf16 passes through as its bits."""
    import torch

    if array.dtype.name == "bfloat16":
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)
