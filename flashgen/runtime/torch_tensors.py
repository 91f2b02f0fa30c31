"""torch tensors as kernel arguments. Imported only once the caller has imported torch."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import torch

from flashgen.dtypes import ALL, DType
from flashgen.runtime.tensors import TensorView

_TO_TORCH = {dtype: getattr(torch, dtype.numpy_name) for dtype in ALL}
_FROM_TORCH = {theirs: ours for ours, theirs in _TO_TORCH.items()}


class TorchFramework:
    """torch tensors."""

    name = "torch"

    def signature(self, x: torch.Tensor) -> Hashable:
        """Shape, strides, dtype, device and the lazy negation that ``z.conj().imag`` carries."""
        return x.shape, x.stride(), x.dtype, x.device, x.is_neg()

    def pointer(self, x: torch.Tensor) -> int:
        """Address of the first element."""
        return x.data_ptr()

    def view(self, x: torch.Tensor) -> TensorView:
        """Describes a tensor."""
        strides = tuple(x.stride())
        dense = x.numel() == 0 or x.dim() == 0 or x.shape[-1] <= 1 or strides[-1] == 1
        return TensorView(
            shape=tuple(x.shape),
            strides=strides,
            dtype=_FROM_TORCH.get(x.dtype),
            dtype_name=str(x.dtype).removeprefix("torch."),
            device=str(x.device),
            direct=dense and not x.is_neg() and x.data_ptr() % x.element_size() == 0,
        )

    def direct(self, x: torch.Tensor) -> torch.Tensor:
        """A contiguous copy."""
        return x.detach().resolve_neg().clone(memory_format=torch.contiguous_format)

    def empty(self, shape: tuple[int, ...], dtype: DType, like: torch.Tensor) -> torch.Tensor:
        """An uninitialised tensor on the same device."""
        return torch.empty(shape, dtype=_TO_TORCH[dtype], device=like.device)

    def lengths(self, x: Any, like: torch.Tensor) -> torch.Tensor:
        """Reads a tensor or any sequence of whole numbers."""
        given = torch.as_tensor(x)
        whole = not (given.is_floating_point() or given.is_complex() or given.dtype == torch.bool)
        if not whole and given.numel():  # an empty list has a float's dtype
            raise TypeError(f"{given.dtype} values")
        return given.to(device=like.device, dtype=torch.int64).contiguous()

    def bounds(self, x: torch.Tensor) -> tuple[int, int] | None:
        """Smallest and largest value, or None for a CUDA tensor."""
        return None if x.is_cuda else (int(x.min()), int(x.max()))

    def extent(self, x: torch.Tensor) -> tuple[int, int]:
        """Byte range (torch strides are never negative)."""
        last = sum((size - 1) * stride for size, stride in zip(x.shape, x.stride(), strict=True))
        begin = x.data_ptr()
        return begin, begin + (last + 1) * x.element_size() if x.numel() else begin

    def refusal(self, x: torch.Tensor) -> str | None:
        """Only dense tensors have strides to read by."""
        if x.layout != torch.strided:
            return f"a {str(x.layout).removeprefix('torch.')} tensor; use a dense one"
        return "quantized; dequantize it first" if x.is_quantized else None

    def writable(self, x: torch.Tensor) -> bool:
        """Inference tensors aside, torch has no read-only tensors; autograd leaves must not be overwritten."""
        return not (x.requires_grad and torch.is_grad_enabled()) and not x.is_neg()

    def fill(self, x: torch.Tensor, value: float) -> None:
        """Sets every element."""
        x.fill_(value)

    def tracks_gradient(self, *tensors: torch.Tensor) -> bool:
        """Whether grad mode is on and any tensor requires a gradient."""
        return torch.is_grad_enabled() and any(x.requires_grad for x in tensors)


TORCH = TorchFramework()
