"""Torch's scaled_dot_product_attention: on a CPU, its own FlashAttention kernel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flashgen.dtypes import ALL
from flashgen.measure.peers.base import Call, Peer, in_turn, torch_array
from flashgen.measure.workload import Array, KeysValues, Workload, to_torch
from flashgen.spec import Causal


class TorchSdpa(Peer):
    """``torch.nn.functional.scaled_dot_product_attention``."""

    key = "sdpa"
    name = "torch SDPA"
    packages = ("torch",)
    extra = "torch"
    dtypes = ALL

    def prepare(self, work: Workload, q: Array, caches: Sequence[KeysValues]) -> Call:
        """See `Peer`."""
        import torch

        queries, sets = to_torch(q), [(to_torch(k), to_torch(v)) for k, v in caches]
        causal, grouped = work.causal is not Causal.NONE, work.heads != work.heads_kv
        function = torch.nn.functional.scaled_dot_product_attention

        def call(kv: tuple[Any, Any]) -> object:
            with torch.no_grad():
                return function(queries, *kv, is_causal=causal, enable_gqa=grouped)

        return in_turn(call, sets)

    def as_array(self, result: Any, work: Workload) -> Array:
        """See `Peer`."""
        return torch_array(result)
