"""Attention as two matrix products and a softmax in torch: what people write who know that Sq is small."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flashgen.dtypes import ALL
from flashgen.measure.peers.base import Call, Peer, in_turn, torch_array
from flashgen.measure.workload import Array, KeysValues, Workload, to_torch
from flashgen.reference import default_scale
from flashgen.spec import Causal


class TorchMatmul(Peer):
    """``softmax(Q K^T) V``, S and P in memory, in the type of the tensors."""

    key = "matmul"
    name = "torch matmul"
    packages = ("torch",)
    extra = "torch"
    dtypes = ALL
    grouped = False

    def prepare(self, work: Workload, q: Array, caches: Sequence[KeysValues]) -> Call:
        """See `Peer`."""
        import torch

        queries, scale = to_torch(q), default_scale(work.d)
        sets = [(to_torch(k).transpose(-1, -2), to_torch(v)) for k, v in caches]
        bias: Any = None
        if work.causal is not Causal.NONE:
            bias = torch.full((work.seqlen_q, work.seqlen_k), -torch.inf, dtype=queries.dtype).triu(1)

        def call(kv: tuple[Any, Any]) -> object:
            keys, values = kv
            with torch.no_grad():
                scores = (queries * scale) @ keys
                if bias is not None:
                    scores += bias
                return torch.softmax(scores, -1) @ values

        return in_turn(call, sets)

    def as_array(self, result: Any, work: Workload) -> Array:
        """See `Peer`."""
        return torch_array(result)
