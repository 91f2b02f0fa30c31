"""A GPU that is not there: a stand-in for libcuda with memory, copies, events, and kernels that are the oracle."""
# ruff: noqa: N802 (the driver's own names)

from __future__ import annotations

import ctypes
import struct
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from planted_tools import at, note

from flashgen.launch_plan import ARGUMENT_FORMAT
from flashgen.reference import attention_reference
from flashgen.spec import AttentionSpec

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "unit"))
from cuda_stand_in import _WORDS, StandInCuda

ILLEGAL_ADDRESS = 700
_WORDS.setdefault(ILLEGAL_ADDRESS, (b"CUDA_ERROR_ILLEGAL_ADDRESS", b"an illegal memory access was encountered"))


class StandInGpu(StandInCuda):
    """Runs attention on host memory. Kernels are told apart by the bytes that were loaded.

    ``faults`` and ``milliseconds`` go by a text that the kernel's image contains.
    """

    def __init__(
        self, spec: AttentionSpec, faults: dict[str, str], milliseconds: dict[str, float], log: Path | None = None
    ) -> None:
        super().__init__(capability=80, sm_count=108)
        self.attributes[38] = 1 << 20
        self._spec = spec
        self._faults = faults
        self._milliseconds = milliseconds
        self._log = log
        self._memory: dict[int, Any] = {}
        self._module_of: list[bytes] = []
        self._clock = 0.0
        self._events: list[float] = []
        self._sick = False
        self.freed = 0

    def on_cuModuleGetFunction(self, function: Any, module: Any, entry: bytes) -> None:
        super().on_cuModuleGetFunction(function, module, entry)
        self._module_of.append(self.images[module.value - 1])

    def on_cuMemAlloc_v2(self, address: Any, size: Any) -> None:
        buffer = ctypes.create_string_buffer(size.value + 256)
        aligned = -(-ctypes.addressof(buffer) // 256) * 256
        self._memory[aligned] = buffer
        address._obj.value = aligned

    def on_cuMemFree_v2(self, address: Any) -> None:
        del self._memory[address.value]
        self.freed += 1

    def on_cuMemcpyHtoD_v2(self, to: Any, source: Any, size: Any) -> None:
        ctypes.memmove(to.value, source, size.value)

    def on_cuMemcpyDtoH_v2(self, to: Any, source: Any, size: Any) -> None:
        ctypes.memmove(to, source.value, size.value)

    def on_cuMemsetD8Async(self, address: Any, value: Any, size: Any, stream: Any) -> None:
        assert size.value >= 4 << 20
        note(self._log, "flush")
        self._clock += 0.1

    def on_cuEventCreate(self, event: Any, flags: int) -> None:
        self._events.append(0.0)
        event._obj.value = len(self._events)

    def on_cuEventRecord(self, event: Any, stream: Any) -> None:
        self._events[event.value - 1] = self._clock
        note(self._log, "event")

    def on_cuEventElapsedTime(self, milliseconds: Any, begin: Any, end: Any) -> None:
        milliseconds._obj.value = self._events[end.value - 1] - self._events[begin.value - 1]

    def cuCtxSynchronize(self) -> int:
        return ILLEGAL_ADDRESS if self._sick else 0

    def cuMemcpyDtoH_v2(self, *arguments: Any) -> int:
        if self._sick:
            return ILLEGAL_ADDRESS
        self.on_cuMemcpyDtoH_v2(*arguments)
        return 0

    def on_cuLaunchKernel(self, function: Any, *args: Any) -> None:
        super().on_cuLaunchKernel(function, *args)
        image = self._module_of[function.value - 1].decode(errors="replace")
        name = next((text for text in self._milliseconds if text in image), "")
        fault = next((fault for text, fault in self._faults.items() if text in image), "")
        note(self._log, f"launch {name}")
        self._clock += self._milliseconds.get(name, 1.1)
        if fault == "illegal address":
            self._sick = True
            return
        self._attend(struct.unpack(ARGUMENT_FORMAT, self.launches[-1]["args"]), fault)

    def _attend(self, values: tuple[Any, ...], fault: str) -> None:
        spec = self._spec
        q, k, v, out, lse, lengths, batch, heads, heads_kv, seqlen_q, seqlen_k, *rest = values
        strides, scale = [tuple(rest[i : i + 3]) for i in (0, 3, 6, 9)], rest[12]
        element = spec.dtype.numpy()
        rows, keys = (batch, heads, seqlen_q), (batch, heads_kv, seqlen_k)
        queries = at(q, (*rows, spec.head_dim), strides[0], element)
        arrays = (
            queries,
            at(k, (*keys, spec.head_dim), strides[1], element),
            at(v, (*keys, spec.head_dim_v), strides[2], element),
        )
        valid = at(lengths, (batch,), (), np.dtype(np.int64)) if lengths else None
        result, stats = attention_reference(*arrays, causal=spec.causal, softmax_scale=scale, seqlens_k=valid)
        target = at(out, (*rows, spec.head_dim_v), strides[3], element)
        target[...] = result
        if fault == "wrong":
            target[-1, -1, -1, -1] += 0.1
        if fault == "stray":
            ctypes.memset(out + (target.size + 5) * element.itemsize, 0, element.itemsize)
        if fault == "writes to q":
            queries[0, 0, 0, 0] += 1
        if lse:
            at(lse, rows, None, np.dtype(np.float32))[...] = stats


@dataclass(frozen=True)
class OpenStandIn:
    """What `Tools` takes: opens the library, in each worker anew, so that a sick device is well after a restart."""

    spec: AttentionSpec
    faults: tuple[tuple[str, str], ...]
    milliseconds: tuple[tuple[str, float], ...]
    log: Path | None = None

    def __call__(self) -> StandInGpu:
        return StandInGpu(self.spec, dict(self.faults), dict(self.milliseconds), self.log)
