"""NumPy arrays as kernel arguments. Imported only once the caller has imported NumPy."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np

from flashgen.dtypes import BY_NUMPY_NAME, DType
from flashgen.runtime.tensors import TensorView


class NumpyFramework:
    """NumPy arrays; bf16 is ml_dtypes' type."""

    name = "numpy"

    def signature(self, x: np.ndarray) -> Hashable:
        """Class (masked arrays are refused), shape, strides, dtype and alignment."""
        return type(x), x.shape, x.strides, x.dtype, x.flags.aligned

    def pointer(self, x: np.ndarray) -> int:
        """Address of the first element."""
        address: int = x.__array_interface__["data"][0]
        return address

    def view(self, x: np.ndarray) -> TensorView:
        """Describes an array; a byte order that is not the machine's counts as another dtype."""
        size = x.itemsize
        whole = size > 0 and all(stride % size == 0 for stride in x.strides)
        dense = x.size == 0 or x.ndim == 0 or x.shape[-1] <= 1 or x.strides[-1] == size
        return TensorView(
            shape=x.shape,
            strides=tuple(stride // size for stride in x.strides) if size else (0,) * x.ndim,
            dtype=BY_NUMPY_NAME.get(x.dtype.name) if x.dtype.isnative else None,
            dtype_name=x.dtype.name if x.dtype.isnative else f"{x.dtype.name} of foreign byte order",
            device="cpu",
            direct=whole and dense and x.flags.aligned,
        )

    def direct(self, x: np.ndarray) -> np.ndarray:
        """A C-contiguous copy."""
        return np.array(x, order="C", copy=True)

    def empty(self, shape: tuple[int, ...], dtype: DType, like: np.ndarray) -> np.ndarray:
        """An uninitialised array."""
        return np.empty(shape, dtype.numpy())

    def lengths(self, x: Any, like: np.ndarray) -> np.ndarray:
        """Reads any sequence of whole numbers."""
        given = np.asarray(x)
        if given.dtype.kind not in "iu" and given.size:  # an empty list has a float's dtype
            raise TypeError(f"{given.dtype.name} values")
        return np.asarray(given, dtype=np.int64, order="C")

    def bounds(self, x: np.ndarray) -> tuple[int, int]:
        """Smallest and largest value."""
        return int(x.min()), int(x.max())

    def extent(self, x: np.ndarray) -> tuple[int, int]:
        """Byte range."""
        return np.lib.array_utils.byte_bounds(x)

    def refusal(self, x: np.ndarray) -> str | None:
        """A masked array's mask would be ignored silently, so it is refused."""
        return "a masked array; fill it first" if isinstance(x, np.ma.MaskedArray) else None

    def writable(self, x: np.ndarray) -> bool:
        """The array's own flag."""
        return bool(x.flags.writeable)

    def fill(self, x: np.ndarray, value: float) -> None:
        """Sets every element."""
        x[...] = value

    def tracks_gradient(self, *tensors: np.ndarray) -> bool:
        """NumPy has no autograd."""
        return False


NUMPY = NumpyFramework()
