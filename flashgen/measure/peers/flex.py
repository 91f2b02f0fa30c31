"""Torch's FlexAttention, compiled by torch.compile: a kernel of its own for each shape, type and mask."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flashgen.dtypes import BF16, FP16, FP32
from flashgen.measure.peers.base import Call, Peer, in_turn, torch_array
from flashgen.measure.workload import Array, KeysValues, Workload, to_torch
from flashgen.spec import Causal


class FlexAttention(Peer):
    """``torch.nn.attention.flex_attention`` under ``torch.compile``, with a block mask where it is causal."""

    key = "flex"
    name = "FlexAttention"
    packages = ("torch",)
    extra = "torch"
    dtypes = (FP16, BF16, FP32)

    def prepare(self, work: Workload, q: Array, caches: Sequence[KeysValues]) -> Call:
        """See `Peer`; compiles for some ten seconds."""
        import torch
        from torch.nn.attention.flex_attention import create_block_mask, flex_attention

        # After eight compilations of one function dynamo gives up and runs the unfused one.
        torch._dynamo.reset()
        queries, sets = to_torch(q), [(to_torch(k), to_torch(v)) for k, v in caches]
        causal, grouped = work.causal is not Causal.NONE, work.heads != work.heads_kv
        mask = create_block_mask(_sees, None, None, work.seqlen_q, work.seqlen_k, device="cpu") if causal else None
        compiled = torch.compile(flex_attention, dynamic=False)

        def call(kv: tuple[Any, Any]) -> object:
            with torch.no_grad():
                return compiled(queries, *kv, block_mask=mask, enable_gqa=grouped)

        call(sets[0])  # compiles
        return in_turn(call, sets)

    def as_array(self, result: Any, work: Workload) -> Array:
        """See `Peer`."""
        return torch_array(result)


def _sees(batch: Any, head: Any, row: Any, key: Any) -> Any:
    """As many queries as keys: both causal alignments are this one."""
    return row >= key
