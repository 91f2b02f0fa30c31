"""What every peer tells and does."""

from __future__ import annotations

import importlib.util
import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, TypeVar

import numpy as np

from flashgen.dtypes import DType
from flashgen.measure.workload import Array, KeysValues, Workload

Call = Callable[[], Any]
_Set = TypeVar("_Set")


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
    def prepare(self, work: Workload, q: Array, caches: Sequence[KeysValues]) -> Call:
        """Does all that a user would do once: copies into the library's own layout, models, compilation.

        Args:
            work: a workload that `why_not` has nothing against.
            q: (B, Hq, Sq, d), of the workload's type.
            caches: k (B, Hkv, Sk, d) and v (B, Hkv, Sk, dv), once or more: calls take them in turn.

        Returns:
            The call to time. What it returns is the library's own; `as_array` reads it.
        """

    @abstractmethod
    def as_array(self, result: Any, work: Workload) -> Array:
        """A call's result as float64, (B, Hq, Sq, dv)."""


def in_turn(function: Callable[[_Set], object], sets: Sequence[_Set]) -> Call:
    """A call that takes the sets in turn."""
    if len(sets) == 1:
        return lambda: function(sets[0])
    turn = itertools.cycle(sets)
    return lambda: function(next(turn))


def torch_array(result: Any) -> Array:
    """A torch tensor of any float type as float64."""
    return np.asarray(result.double().numpy())
