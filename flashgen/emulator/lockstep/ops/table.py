"""The table of lane-wise operations: what a handler's name means, as a function of arrays.

A function takes one array for each source and returns one for each result (a tuple if there are several), of
the types that its entry names. It never sees masks: the executor keeps what inactive lanes held.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from flashgen.emulator.program.ops import Op

Array = npt.NDArray[Any]
Function = Callable[..., Any]

# How the lanes of a register of each type look to a function. Halves come as bits; a packed pair as twice as
# many elements; ``cc`` is the carry that add.cc and its like leave behind.
VIEWS: dict[str, np.dtype[Any]] = {
    name: np.dtype(code)
    for name, code in {
        "b16": "u2", "b32": "u4", "b64": "u8", "u16": "u2", "u32": "u4", "u64": "u8", "s16": "i2", "s32": "i4",
        "s64": "i8", "f32": "f4", "f64": "f8", "f16": "u2", "bf16": "u2", "f16x2": "u2", "bf16x2": "u2",
        "u16x2": "u2", "s16x2": "i2", "f32x2": "f4", "pred": "?", "cc": "?",
    }.items()
}  # fmt: skip
BITS = {"b16": 16, "b32": 32, "b64": 64, "u16": 16, "u32": 32, "u64": 64, "s16": 16, "s32": 32, "s64": 64}
INTEGERS = ("u16", "u32", "u64", "s16", "s32", "s64")


@dataclass(frozen=True, slots=True)
class Lanewise:
    """An operation that each lane does by itself.

    Attributes:
        results, sources: their types, in the order of the operation's written and other operands.
        function: arrays of the sources -> arrays of the results.
    """

    results: tuple[str, ...]
    sources: tuple[str, ...]
    function: Function


TABLE: dict[str, Callable[[Op], Lanewise]] = {}


def define(name: str, results: str, sources: str, function: Function) -> None:
    """Adds an operation that needs nothing but its operands."""
    entry = Lanewise(tuple(results.split()), tuple(sources.split()), function)
    define_by(name, lambda op: entry)


def define_by(name: str, make: Callable[[Op], Lanewise]) -> None:
    """Adds an operation that depends on the parameters in ``op.aux`` and ``op.imm``."""
    assert name not in TABLE, name
    TABLE[name] = make


def aux(op: Op, index: int) -> int:
    """A parameter; those that are not given are 0."""
    return op.aux[index] if index < len(op.aux) else 0
