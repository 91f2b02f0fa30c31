"""OpenVINO's ScaledDotProductAttention (opset 13)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from flashgen.dtypes import BF16, FP16, FP32
from flashgen.measure.peers.base import Call, Peer, in_turn
from flashgen.measure.workload import Array, KeysValues, Workload
from flashgen.runtime.openmp import thread_pool
from flashgen.spec import Causal

_TYPES = {FP16: "f16", BF16: "bf16", FP32: "f32"}


class OpenVino(Peer):
    """``opset13.scaled_dot_product_attention``, compiled for latency on the CPU."""

    key = "openvino"
    name = "OpenVINO SDPA"
    packages = ("openvino",)
    dtypes = (FP16, BF16, FP32)
    grouped = False

    def prepare(self, work: Workload, q: Array, caches: Sequence[KeysValues]) -> Call:
        """See `Peer`."""
        import openvino

        core = openvino.Core()
        config = {
            "INFERENCE_PRECISION_HINT": _precision(work, core.get_property("CPU", "OPTIMIZATION_CAPABILITIES")),
            "PERFORMANCE_HINT": "LATENCY",
            "INFERENCE_NUM_THREADS": thread_pool().max_threads(),
        }
        compiled = core.compile_model(_model(work), "CPU", config)
        requests = []
        for k, v in caches:
            request = compiled.create_infer_request()
            for index, array in enumerate((q, k, v)):
                request.set_input_tensor(index, _tensor(work, array))
            requests.append(request)

        def call(request: Any) -> object:
            request.infer()
            return request.get_output_tensor(0)

        return in_turn(call, requests)

    def as_array(self, result: Any, work: Workload) -> Array:
        """See `Peer`."""
        return np.asarray(result.data.view(work.dtype.numpy()), np.float64)


def _precision(work: Workload, capabilities: list[str]) -> str:
    """The type to multiply in.

    Where the CPU does not multiply fp16, OpenVINO takes the hint ``f16`` for bf16, which is not what was asked for.
    """
    return "f32" if work.dtype is FP16 and "FP16" not in capabilities else _TYPES[work.dtype]


def _model(work: Workload) -> Any:
    """A model of that one operator."""
    import openvino
    from openvino import opset13

    element = getattr(openvino.Type, _TYPES[work.dtype])
    rows = ((work.seqlen_q, work.d), (work.seqlen_k, work.d), (work.seqlen_k, work.d_v))
    inputs = [opset13.parameter([work.batch, work.heads, seqlen, dim], element) for seqlen, dim in rows]
    out = opset13.scaled_dot_product_attention(*inputs, causal=work.causal is not Causal.NONE)
    return openvino.Model([out], inputs, "attention")


def _tensor(work: Workload, array: Array) -> Any:
    """A tensor on the array's memory; bf16 passes through as its bits."""
    import openvino

    if work.dtype is BF16:
        return openvino.Tensor(array.view(np.int16), array.shape, openvino.Type.bf16)
    return openvino.Tensor(array, shared_memory=True)
