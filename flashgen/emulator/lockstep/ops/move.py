"""mov, packing, windows of generic addresses."""

from __future__ import annotations

import numpy as np

from flashgen.emulator.lockstep.ops.table import Array, Function, Lanewise, aux, define, define_by
from flashgen.emulator.program.layout import SPACES, window

WINDOW_BITS = window("shared").bit_length() - 1
WINDOWED = (SPACES["shared"], SPACES["local"], SPACES["const"], SPACES["param"])


def space_of(addresses: Array) -> Array:
    """The number of the space that generic addresses lie in."""
    top = (addresses >> np.uint64(WINDOW_BITS)).astype(np.int64)
    return np.where((top >= min(WINDOWED)) & (top <= max(WINDOWED)), top, SPACES["global"])


def _pack(whole: str) -> Function:
    """The first element is the lowest."""
    return lambda *parts: np.stack(parts, axis=1).reshape(-1).view(f"u{int(whole[1:]) // 8}")


def _unpack(part: str) -> Function:
    def of(whole: Array) -> tuple[Array, ...]:
        parts = whole.view(f"u{int(part[1:]) // 8}").reshape(len(whole), -1)
        return tuple(np.ascontiguousarray(parts[:, k]) for k in range(parts.shape[1]))

    return of


for _w in (16, 32, 64):
    define(f"mov.b{_w}", f"b{_w}", f"b{_w}", lambda a: a)
for _whole, _part, _count in (("b32", "b16", 2), ("b64", "b16", 4), ("b64", "b32", 2)):
    define(f"pack.{_whole}.{_part}", _whole, " ".join([_part] * _count), _pack(_whole))
    define(f"unpack.{_whole}.{_part}", " ".join([_part] * _count), _whole, _unpack(_part))
define_by("mov.pred", lambda op: Lanewise(("pred",), ("pred",), lambda a: ~a if aux(op, 0) else a))
define_by("isspacep", lambda op: Lanewise(("pred",), ("b64",), lambda a: space_of(a) == op.imm))
