"""Torch's scaled_dot_product_attention: on a CPU, its own FlashAttention kernel."""

from __future__ import annotations

from typing import Any

from flashgen.dtypes import ALL
from flashgen.measure.peers.base import Array, Call, Inputs, Peer, torch_array
from flashgen.measure.workload import Workload, to_torch
from flashgen.spec import Causal


class TorchSdpa(Peer):
    """``torch.nn.functional.scaled_dot_product_attention``."""

    key = "sdpa"
    name = "torch SDPA"
    packages = ("torch",)
    extra = "torch"
    dtypes = ALL

    def prepare(self, work: Workload, arrays: Inputs) -> Call:
        """See `Peer`."""
        import torch

        q, k, v = (to_torch(array) for array in arrays)
        causal, grouped = work.causal is not Causal.NONE, work.heads != work.heads_kv
        function = torch.nn.functional.scaled_dot_product_attention

        def call() -> object:
            with torch.no_grad():
                return function(q, k, v, is_causal=causal, enable_gqa=grouped)

        return call

    def as_array(self, result: Any, work: Workload) -> Array:
        """See `Peer`."""
        return torch_array(result)
