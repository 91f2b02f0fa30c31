"""Torch's FlexAttention, compiled by torch.compile: a kernel of its own for each shape, type and mask."""

from __future__ import annotations

from typing import Any

from flashgen.dtypes import BF16, FP16, FP32
from flashgen.measure.peers.base import Array, Call, Inputs, Peer, torch_array
from flashgen.measure.workload import Workload, to_torch
from flashgen.spec import Causal


class FlexAttention(Peer):
    """``torch.nn.attention.flex_attention`` under ``torch.compile``, with a block mask where it is causal."""

    key = "flex"
    name = "FlexAttention"
    packages = ("torch",)
    extra = "torch"
    dtypes = (FP16, BF16, FP32)

    def prepare(self, work: Workload, arrays: Inputs) -> Call:
        """See `Peer`; compiles for some ten seconds."""
        import torch
        from torch.nn.attention.flex_attention import create_block_mask, flex_attention

        # After eight compilations of one function dynamo gives up and runs the unfused one.
        torch._dynamo.reset()
        q, k, v = (to_torch(array) for array in arrays)
        n, causal, grouped = work.seqlen, work.causal is not Causal.NONE, work.heads != work.heads_kv
        mask = create_block_mask(_sees, None, None, n, n, device="cpu") if causal else None
        compiled = torch.compile(flex_attention, dynamic=False)

        def call() -> object:
            with torch.no_grad():
                return compiled(q, k, v, block_mask=mask, enable_gqa=grouped)

        call()  # compiles
        return call

    def as_array(self, result: Any, work: Workload) -> Array:
        """See `Peer`."""
        return torch_array(result)


def _sees(batch: Any, head: Any, row: Any, key: Any) -> Any:
    """As many queries as keys: both causal alignments are this one."""
    return row >= key
