"""Floats of 8 bits, which ml_dtypes knows: cvt from and to pairs of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import ml_dtypes
import numpy as np
import numpy.typing as npt

from flashgen.emulator.lockstep.ops.rounding import decode, encode
from flashgen.emulator.lockstep.ops.table import Array, Lanewise, aux, define_by
from flashgen.emulator.program.ops import Op

_NAN = 0x7F


class EightBits(NamedTuple):
    """A format: its type, and the largest finite number."""

    dtype: npt.DTypeLike
    largest: float


EIGHT_BITS = {"e4m3": EightBits(ml_dtypes.float8_e4m3fn, 448.0), "e5m2": EightBits(ml_dtypes.float8_e5m2, 57344.0)}


def _narrowed(x: Array, form: EightBits, relu: int) -> Array:
    """Nearest even; .satfinite: nothing beyond the largest, and one NaN."""
    kept = np.clip(np.nan_to_num(x, nan=0.0), -form.largest, form.largest)
    kept = np.where(kept <= 0, 0.0, kept) if relu else kept
    return np.where(np.isnan(x), np.uint8(_NAN), kept.astype(np.float32).astype(form.dtype).view(np.uint8))


def _bytes_of(kind: str, source: str) -> Callable[[Op], Lanewise]:
    """cvt.e4m3x2.f32 d, a, b: a becomes the high byte; cvt.e4m3x2.f16x2 d, a: the high half does."""

    def entry(op: Op) -> Lanewise:
        def of(*operands: Array) -> Array:
            high, low = operands if source == "f32" else decode(operands[0], "f16").reshape(-1, 2).T[::-1]
            codes = [_narrowed(x, EIGHT_BITS[kind], aux(op, 0)) for x in (low, high)]
            return np.stack(codes, axis=1).reshape(-1).view(np.uint16)

        return Lanewise(("b16",), ("f32", "f32") if source == "f32" else ("f16x2",), of)

    return entry


def _halves_of(kind: str) -> Callable[[Op], Lanewise]:
    """cvt.f16x2.e4m3x2 d, a."""

    def entry(op: Op) -> Lanewise:
        def of(a: Array) -> Array:
            x = a.view(np.uint8).view(EIGHT_BITS[kind].dtype).astype(np.float64)
            return encode(np.where(x <= 0, 0.0, x) if aux(op, 0) else x, "f16")

        return Lanewise(("f16x2",), ("b16",), of)

    return entry


for _kind in EIGHT_BITS:
    for _source in ("f32", "f16x2"):
        define_by(f"cvt.{_kind}x2.{_source}", _bytes_of(_kind, _source))
    define_by(f"cvt.f16x2.{_kind}x2", _halves_of(_kind))
