"""CuPy arrays as kernel arguments. Imported only once the caller has imported cupy.

bf16 has no CuPy dtype and no code in __cuda_array_interface__, so it never comes this way; torch has it.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import cupy
import numpy as np

from flashgen.dtypes import BF16, BY_NUMPY_NAME, DType
from flashgen.errors import ArgumentError
from flashgen.runtime.tensors import TensorView


class CupyFramework:
    """CuPy arrays."""

    name = "cupy"

    def signature(self, x: Any) -> Hashable:
        """Shape, strides, dtype and device, and the library, since CuPy uses NumPy's dtypes."""
        return "cupy", x.shape, x.strides, x.dtype, x.device.id, x.data.ptr % x.dtype.itemsize

    def pointer(self, x: Any) -> int:
        """Address of the first element."""
        return int(x.data.ptr)

    def view(self, x: Any) -> TensorView:
        """Describes an array."""
        size = x.dtype.itemsize
        whole = all(stride % size == 0 for stride in x.strides)
        dense = x.ndim == 0 or x.shape[-1] <= 1 or x.strides[-1] == size
        return TensorView(
            shape=tuple(x.shape),
            strides=tuple(stride // size for stride in x.strides),
            dtype=BY_NUMPY_NAME.get(x.dtype.name) if x.dtype.name != BF16.numpy_name else None,
            dtype_name=x.dtype.name,
            device=f"cuda:{x.device.id}",
            direct=whole and dense and x.data.ptr % size == 0,
        )

    def direct(self, x: Any) -> Any:
        """A C-contiguous copy, on the array's device."""
        with x.device:
            return cupy.array(x, order="C", copy=True)

    def empty(self, shape: tuple[int, ...], dtype: DType, like: Any) -> Any:
        """An uninitialised array on the same device."""
        if dtype is BF16:
            raise ArgumentError(
                "CuPy has no bf16 arrays. Use torch tensors for bf16.", expected="fp16, fp32 or fp64", got="bf16"
            )
        with like.device:
            return cupy.empty(shape, dtype.numpy())

    def lengths(self, x: Any, like: Any) -> Any:
        """Reads an array or any sequence of whole numbers."""
        given = x if isinstance(x, cupy.ndarray) else np.asarray(x)
        if given.size and given.dtype.kind not in "iu":
            raise TypeError(f"{given.dtype.name} values")
        with like.device:
            return cupy.ascontiguousarray(cupy.asarray(given), dtype=np.int64)

    def bounds(self, x: Any) -> tuple[int, int] | None:
        """None: reading them would wait for the device; kernels clamp lengths to the tensors."""
        return None

    def extent(self, x: Any) -> tuple[int, int]:
        """Byte range."""
        begin, end = cupy.byte_bounds(x)
        return int(begin), int(end)

    def refusal(self, x: Any) -> str | None:
        """Every cupy.ndarray is dense."""
        return None

    def writable(self, x: Any) -> bool:
        """CuPy has no read-only arrays."""
        return True

    def fill(self, x: Any, value: float) -> None:
        """Sets every element."""
        with x.device:
            x.fill(value)

    def tracks_gradient(self, *tensors: Any) -> bool:
        """CuPy has no autograd."""
        return False


CUPY = CupyFramework()
