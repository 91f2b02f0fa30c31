"""What every peer tells and does."""

from __future__ import annotations

import importlib.util
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from flashgen.dtypes import DType
from flashgen.measure.workload import Workload

Array = NDArray[Any]
Inputs = tuple[Array, Array, Array]
Call = Callable[[], Any]


class Peer(ABC):
    """Attention of another library.

    Attributes:
        key: its name on the command line.
        name: its name in tables.
        packages: modules that it imports.
        extra: the extra of flashgen that installs them.
        dtypes: element types that it computes here.
        grouped: whether query heads may share a key and value head.
    """

    key: ClassVar[str]
    name: ClassVar[str]
    packages: ClassVar[tuple[str, ...]]
    extra: ClassVar[str] = "bench"
    dtypes: ClassVar[tuple[DType, ...]]
    grouped: ClassVar[bool] = True

    def why_not(self, work: Workload) -> str | None:
        """Why it cannot compute this workload here, in one line; None if it can."""
        if missing := self.missing():
            return f"{self.name} needs {' and '.join(missing)}: pip install 'flashgen[{self.extra}]'."
        if work.dtype not in self.dtypes:
            return f"{self.name} has no {work.dtype.name}."
        if work.heads != work.heads_kv and not self.grouped:
            return f"{self.name} has no grouped heads."
        return None

    def missing(self) -> list[str]:
        """Its packages that are not installed."""
        return [package for package in self.packages if importlib.util.find_spec(package) is None]

    @abstractmethod
    def prepare(self, work: Workload, arrays: Inputs) -> Call:
        """Does all that a user would do once: copies into the library's own layout, models, compilation.

        Args:
            work: a workload that `why_not` has nothing against.
            arrays: q (B, Hq, N, d), k (B, Hkv, N, d) and v (B, Hkv, N, dv) of the workload's type.

        Returns:
            The call to time. What it returns is the library's own; `as_array` reads it.
        """

    @abstractmethod
    def as_array(self, result: Any, work: Workload) -> Array:
        """A call's result as float64, (B, Hq, N, dv)."""


def torch_array(result: Any) -> Array:
    """A torch tensor of any float type as float64."""
    return np.asarray(result.double().numpy())
