"""Other libraries' attention on this CPU, for `flashgen bench` to time beside flashgen's own."""

from __future__ import annotations

from flashgen.errors import SpecError
from flashgen.measure.peers.base import Call, Peer
from flashgen.measure.peers.flex import FlexAttention
from flashgen.measure.peers.onnx_runtime import OnnxRuntime
from flashgen.measure.peers.openvino_sdpa import OpenVino
from flashgen.measure.peers.torch_matmul import TorchMatmul
from flashgen.measure.peers.torch_sdpa import TorchSdpa

__all__ = ["PEERS", "SDPA", "Call", "Peer", "named_peers"]

SDPA = TorchSdpa()
PEERS: tuple[Peer, ...] = (SDPA, TorchMatmul(), FlexAttention(), OnnxRuntime(), OpenVino())


def named_peers(text: str) -> tuple[Peer, ...]:
    """The peers of a comma list, each once and in the order of `PEERS`.

    Args:
        text: keys such as ``sdpa,ort``; ``all`` for every one.

    Raises:
        SpecError: no peer of that name, or an empty list.
    """
    by_key = {peer.key: peer for peer in PEERS}
    asked = {item.strip().lower() for item in text.split(",") if item.strip()}
    unknown = sorted(asked - by_key.keys() - {"all"})
    if unknown or not asked:
        what = f"There is no peer {unknown[0]!r}" if unknown else "The list of peers is empty"
        raise SpecError(f"{what}. Peers are {', '.join(by_key)}, or all.")
    return tuple(peer for peer in PEERS if "all" in asked or peer.key in asked)
