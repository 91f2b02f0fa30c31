"""TensorView: what a kernel needs to know of a tensor, whichever library it comes from."""

from __future__ import annotations

import sys
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, Protocol

from flashgen.dtypes import DType
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

    def bounds(self, x: Any) -> tuple[int, int] | None:
        """Smallest and largest value of a `lengths` vector that is not empty.

        None on a GPU, where reading them would wait for the device: kernels there clamp each length.
        """
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


_by_type: dict[type, Framework] = {}


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
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(x, numpy.ndarray):
        from flashgen.runtime.numpy_tensors import NUMPY

        return NUMPY
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(x, torch.Tensor):
        from flashgen.runtime.torch_tensors import TORCH

        return TORCH
    cupy = sys.modules.get("cupy")
    if cupy is not None and isinstance(x, cupy.ndarray):
        from flashgen.runtime.cupy_tensors import CUPY

        return CUPY
    got = type(x).__name__
    raise ArgumentError(
        f"{name} must be a NumPy array, a torch tensor or a CuPy array, but is {got}. "
        "Convert it, for instance with numpy.asarray.",
        tensor=name,
        expected="NumPy array or torch tensor",
        got=got,
    )
