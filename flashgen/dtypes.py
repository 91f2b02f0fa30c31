"""The element types that kernels read and write: one table, every backend's names in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from flashgen.errors import SpecError

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True, slots=True)
class DType:
    """One element type.

    Attributes:
        name: flashgen's name, ``fp16``, ``bf16``, ``fp32`` or ``fp64``.
        size: bytes of one element in memory.
        compute_size: bytes of the type that kernels accumulate in (float, or double for fp64).
        numpy_name: NumPy's name (bf16 comes from ml_dtypes); torch uses the same.
        mantissa_bits: explicit mantissa bits, so one ulp at 1 is ``2 ** -mantissa_bits``.
    """

    name: str
    size: int
    compute_size: int
    numpy_name: str
    mantissa_bits: int

    def __str__(self) -> str:
        return self.name

    @property
    def compute_name(self) -> str:
        """C++ name of the type that kernels accumulate in."""
        return "double" if self.compute_size == 8 else "float"

    def numpy(self) -> np.dtype:
        """The NumPy dtype (importing ml_dtypes when it is bf16)."""
        import numpy as np

        if self.name == "bf16":
            import ml_dtypes

            bf16: np.dtype = np.dtype(ml_dtypes.bfloat16)
            return bf16
        return np.dtype(self.numpy_name)


FP16 = DType("fp16", 2, 4, "float16", 10)
BF16 = DType("bf16", 2, 4, "bfloat16", 7)
FP32 = DType("fp32", 4, 4, "float32", 23)
FP64 = DType("fp64", 8, 8, "float64", 52)

ALL = (FP16, BF16, FP32, FP64)
BY_NUMPY_NAME = {dtype.numpy_name: dtype for dtype in ALL}
_BY_NAME = {dtype.name: dtype for dtype in ALL} | BY_NUMPY_NAME | {"half": FP16, "float": FP32, "double": FP64}


def parse_dtype(name: str | DType) -> DType:
    """Looks a dtype up by flashgen's or NumPy's name.

    Raises:
        SpecError: no kernel is generated for that type.
    """
    if isinstance(name, DType):
        return name
    text = name if isinstance(name, str) else getattr(name, "__name__", None) or str(name)  # np.float16, torch.half
    dtype = _BY_NAME.get(text.removeprefix("torch.").lower())
    if dtype is None:
        raise SpecError(f"dtype {text!r} is not supported. Choose fp16, bf16, fp32 or fp64.")
    return dtype
