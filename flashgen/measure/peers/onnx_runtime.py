"""ONNX Runtime's MultiHeadAttention operator: the FlashAttention of its CPU library, MLAS."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from flashgen.dtypes import FP16, FP32
from flashgen.measure.peers.base import Call, Peer, in_turn
from flashgen.measure.workload import Array, KeysValues, Workload
from flashgen.runtime.openmp import thread_pool
from flashgen.spec import Causal

_IR_VERSION, _OPSET = 10, 17  # what every runtime of these years reads


class OnnxRuntime(Peer):
    """``com.microsoft.MultiHeadAttention``, its inputs and output bound once."""

    key = "ort"
    name = "ONNX Runtime MHA"
    packages = ("onnxruntime", "onnx")
    dtypes = (FP16, FP32)
    grouped = False

    def prepare(self, work: Workload, q: Array, caches: Sequence[KeysValues]) -> Call:
        """See `Peer`."""
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = thread_pool().max_threads()
        session = onnxruntime.InferenceSession(_model(work), options, providers=["CPUExecutionProvider"])
        value = onnxruntime.OrtValue.ortvalue_from_numpy
        out = value(np.empty((work.batch, work.seqlen_q, work.heads * work.d_v), work.dtype.numpy()))
        queries = value(_rows(q))
        bindings = []
        for k, v in caches:
            binding = session.io_binding()
            for name, given in (("q", queries), ("k", value(_rows(k))), ("v", value(_rows(v)))):
                binding.bind_ortvalue_input(name, given)
            binding.bind_ortvalue_output("out", out)
            bindings.append(binding)

        def call(binding: Any) -> object:
            session.run_with_iobinding(binding)
            return out

        return in_turn(call, bindings)

    def as_array(self, result: Any, work: Workload) -> Array:
        """See `Peer`."""
        rows = result.numpy().reshape(work.batch, work.seqlen_q, work.heads, work.d_v)
        return np.asarray(rows.transpose(0, 2, 1, 3), np.float64)


def _rows(array: Array) -> Array:
    """(B, H, N, d) as the operator takes it, (B, N, H * d)."""
    batch, heads, seqlen, d = array.shape
    return np.ascontiguousarray(array.transpose(0, 2, 1, 3)).reshape(batch, seqlen, heads * d)


def _model(work: Workload) -> bytes:
    """A model of that one operator."""
    from onnx import TensorProto, helper

    element = TensorProto.FLOAT16 if work.dtype is FP16 else TensorProto.FLOAT
    n, n_k = work.seqlen_q, work.seqlen_k
    sizes = {"q": (n, work.d), "k": (n_k, work.d), "v": (n_k, work.d_v), "out": (n, work.d_v)}
    values = [
        helper.make_tensor_value_info(name, element, [work.batch, seqlen, work.heads * dim])
        for name, (seqlen, dim) in sizes.items()
    ]
    node = helper.make_node(
        "MultiHeadAttention",
        ["q", "k", "v"],
        ["out"],
        domain="com.microsoft",
        num_heads=work.heads,
        unidirectional=int(work.causal is not Causal.NONE),
    )
    opsets = [helper.make_opsetid("", _OPSET), helper.make_opsetid("com.microsoft", 1)]
    graph = helper.make_graph([node], "attention", values[:3], values[3:])
    model = helper.make_model(graph, opset_imports=opsets, ir_version=_IR_VERSION)
    return bytes(model.SerializeToString())
