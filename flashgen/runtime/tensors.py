"""TensorView: what a kernel needs to know of a tensor, whichever library it comes from."""

from __future__ import annotations

import sys
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from flashgen.dtypes import BY_NUMPY_NAME, DType
from flashgen.errors import ArgumentError


@dataclass(frozen=True, slots=True)
class TensorView:
    """A tensor as a kernel sees it.

    Attributes:
        shape: sizes.
        strides: in elements, one for each axis.
        dtype: element type, None if it is none that kernels take (``dtype_name`` says which).
        dtype_name: the library's name of the type.
        device: ``cpu``, ``cuda:0``, ...
        direct: a kernel can read it where it is: last axis contiguous, elements aligned, plain values.
            Otherwise it is copied first.
    """

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: DType | None
    dtype_name: str
    device: str
    direct: bool


class Framework(Protocol):
    """A library whose tensors kernels accept. `signature` and `pointer` are on the fast path."""

    name: str

    def signature(self, x: Any) -> Hashable:
        """Cheap and hashable; tensors of equal signature have equal views."""
        ...

    def pointer(self, x: Any) -> int:
        """Address of the first element."""
        ...

    def view(self, x: Any) -> TensorView:
        """Describes a tensor."""
        ...

    def direct(self, x: Any) -> Any:
        """A contiguous, aligned copy."""
        ...

    def empty(self, shape: tuple[int, ...], dtype: DType, like: Any) -> Any:
        """An uninitialised tensor on the device of ``like``."""
        ...

    def lengths(self, x: Any, like: Any) -> Any:
        """``seqlens_k`` as a contiguous int64 vector on the device of ``like``.

        Raises:
            TypeError, ValueError: it does not hold whole numbers.
        """
        ...

    def bounds(self, x: Any) -> tuple[int, int]:
        """Smallest and largest value of a `lengths` vector that is not empty."""
        ...

    def extent(self, x: Any) -> tuple[int, int]:
        """First byte, and one past the last byte, that the tensor touches."""
        ...

    def refusal(self, x: Any) -> str | None:
        """Why a tensor cannot be used at all (one phrase): sparse, masked, read-only for ``out``, ..."""
        ...

    def writable(self, x: Any) -> bool:
        """Whether results may be written into it."""
        ...

    def fill(self, x: Any, value: float) -> None:
        """Sets every element."""
        ...

    def tracks_gradient(self, *tensors: Any) -> bool:
        """Whether autograd would expect a backward pass through any of them."""
        ...


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
        dense = x.ndim == 0 or x.shape[-1] <= 1 or x.strides[-1] == size
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
        if given.dtype.kind not in "iu":
            raise TypeError(f"{given.dtype.name} values")
        return np.ascontiguousarray(given, dtype=np.int64)

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


_NUMPY = NumpyFramework()
_by_type: dict[type, Framework] = {np.ndarray: _NUMPY}


def framework_of(x: Any, name: str) -> Framework:
    """The framework that a tensor belongs to.

    Raises:
        ArgumentError: it is no tensor of a known library.
    """
    found = _by_type.get(type(x))
    if found is None:
        found = _by_type[type(x)] = _find_framework(x, name)
    return found


def _find_framework(x: Any, name: str) -> Framework:
    if isinstance(x, np.ndarray):
        return _NUMPY
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(x, torch.Tensor):
        from flashgen.runtime.torch_tensors import TORCH

        return TORCH
    got = type(x).__name__
    raise ArgumentError(
        f"{name} must be a NumPy array or a torch tensor, but is {got}. Convert it, for instance with numpy.asarray.",
        tensor=name,
        expected="NumPy array or torch tensor",
        got=got,
    )
