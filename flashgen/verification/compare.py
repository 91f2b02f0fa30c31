"""Tolerances, and the comparison of a kernel's result with the oracle's.

All tolerances stand here. With u the unit roundoff of the storage type (2^-11 fp16, 2^-8 bf16), P the
softmax weights and A = P |V|, the mean of |V| that a row sees:

    fp64    1e-13 * A       } for N(0, 1) data, 1e-13 or 2e-6 * max |out| where that is less
    fp32    2e-6 * A        }
    16-bit  2e-6 * A + u * (A + |out|)
            for N(0, 1) data, 2 * (max error of the math path) + 1 ulp of max |out| where that is less
    lse     2e-6 * max(1, |lse|), fp64 1e-13 * max(1, |lse|)

Every rounding inside attention is relative to some term p_j v_j, hence A. The u-terms are P and the result,
each rounded once. As A belongs to its row, a late causal row, an average of many values, is not measured
with the yardstick of the first row, which is one value. Where a few keys take all the weight, errors do not
average out, so only N(0, 1) data is held to the second clauses.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flashgen.dtypes import FP32, FP64, DType
from flashgen.reference import attention_reference, math_path
from flashgen.spec import AttentionSpec
from flashgen.verification.cases import Case, Inputs
from flashgen.verification.report import CaseResult

Array = NDArray[Any]
Float64 = NDArray[np.float64]

_ACCUMULATED = {FP32: 2e-6, FP64: 1e-13}  # relative error allowed to sums in that type
_SMALLEST = {"fp16": 2.0**-24, "bf16": 2.0**-133, "fp32": 2.0**-149, "fp64": 2.0**-1074}


@dataclass(frozen=True, slots=True)
class Expected:
    """The right answer and the distance from it that is allowed, element by element."""

    out: Float64
    lse: Float64
    out_tolerance: Float64
    lse_tolerance: Float64


def accumulator(dtype: DType) -> DType:
    """The type that kernels accumulate in and return lse in."""
    return FP64 if dtype is FP64 else FP32


def expect(spec: AttentionSpec, case: Case, inputs: Inputs) -> Expected:
    """Asks the oracle, and derives the tolerances."""
    q, k, v = inputs.q, inputs.k, inputs.v.astype(np.float64)
    options: dict[str, Any] = {
        "causal": spec.causal,
        "softmax_scale": case.softmax_scale,
        "seqlens_k": inputs.seqlens_k,
    }
    both, lse = attention_reference(q, k, np.concatenate([v, abs(v)], axis=-1), **options)
    out, weight = both[..., : case.head_dim_v], both[..., case.head_dim_v :]
    relative = _ACCUMULATED[accumulator(spec.dtype)]
    tolerance = relative * weight
    if spec.dtype.size == 2:
        tolerance += 2.0 ** -(spec.dtype.mantissa_bits + 1) * (weight + abs(out))
    if case.values == "gaussian":
        largest = _max_abs(out)
        if spec.dtype.size == 2:
            yardstick = math_path(q, k, inputs.v, spec.dtype, **options).astype(np.float64)
            finite = np.isfinite(out)
            limit = 2 * _largest(abs(yardstick[finite] - out[finite])) + _ulp(largest, spec.dtype)
        else:
            limit = relative * largest
        tolerance = np.minimum(tolerance, limit)
    tolerance += _underflow(spec.dtype, v, case)
    with np.errstate(over="ignore"):
        lse = lse.astype(accumulator(spec.dtype).numpy()).astype(np.float64)
    return Expected(out, lse, tolerance, relative * np.maximum(1.0, abs(lse)))


def compare(spec: AttentionSpec, case: Case, expected: Expected, out: Array, lse: Array) -> CaseResult:
    """Compares a kernel's out and lse (heads before rows) with the oracle's."""
    reason = _wrong_kind("out", out, expected.out, spec.dtype)
    reason = reason or _wrong_kind("lse", lse, expected.lse, accumulator(spec.dtype))
    if reason:
        return CaseResult(case.name, severity=np.inf, reason=reason)
    got, got_lse = out.astype(np.float64), lse.astype(np.float64)
    severity = _out_severity(got, expected)
    lse_severity = _lse_severity(got_lse, expected)
    if _largest(severity) > 1:
        reason = _describe("out", got, expected.out, expected.out_tolerance, severity)
    elif _largest(lse_severity) > 1:
        reason = _describe("lse", got_lse, expected.lse, expected.lse_tolerance, lse_severity)
    finite = np.isfinite(expected.out) & np.isfinite(got)
    error = got[finite] - expected.out[finite]
    return CaseResult(
        case.name,
        max_abs_error=_largest(abs(error)),
        rms_error=float(np.sqrt(np.mean(error**2))) if error.size else 0.0,
        tolerance=_largest(expected.out_tolerance[np.isfinite(expected.out)]),
        severity=max(_largest(severity), _largest(lse_severity)),
        reason=reason,
    )


def _out_severity(got: Float64, expected: Expected) -> Float64:
    """Error over tolerance; a row that sees no key must be 0, one that sees a NaN or inf must show it."""
    sees_nothing = (expected.lse == -np.inf)[..., None]
    allowed = np.where(sees_nothing, 0.0, expected.out_tolerance)
    severity = _ratio(got, expected.out, allowed)
    return np.where(np.isfinite(expected.out), severity, np.where(np.isfinite(got), np.inf, 0.0))


def _lse_severity(got: Float64, expected: Expected) -> Float64:
    """Error over tolerance; infinities and NaN must be the very ones expected."""
    same = (got == expected.lse) | (np.isnan(got) & np.isnan(expected.lse))
    severity = _ratio(got, expected.lse, expected.lse_tolerance)
    return np.where(np.isfinite(expected.lse), severity, np.where(same, 0.0, np.inf))


def _ratio(got: Float64, want: Float64, allowed: Float64) -> Float64:
    """|got - want| / allowed: 0 without error, infinite for what is not finite or may not err."""
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        error = abs(got - want)
        return np.where(error == 0, 0.0, np.where(np.isfinite(error), error / allowed, np.inf))


def _wrong_kind(name: str, got: Array, want: Float64, dtype: DType) -> str:
    if got.shape != want.shape:
        return f"{name} has shape {got.shape}, should have {want.shape}."
    if got.dtype != dtype.numpy():
        return f"{name} has type {got.dtype}, should have {dtype.numpy()}."
    return ""


def _describe(name: str, got: Float64, want: Float64, allowed: Float64, severity: Float64) -> str:
    """Points at the worst element, and says how many are wrong."""
    at = np.unravel_index(int(np.argmax(severity)), severity.shape)
    place = ", ".join(str(int(i)) for i in at)
    count = f"{np.count_nonzero(severity > 1):,} of {severity.size:,} elements are wrong"
    return f"{name}[{place}] is {got[at]:.9g}, should be {want[at]:.9g} within {allowed[at]:.2g}; {count}."


def _underflow(dtype: DType, v: Float64, case: Case) -> Float64:
    """What roundings below the smallest normal number may add, in out and P (storage) and in sums.

    For bf16 it is the smallest normal number itself: bf16 dot products of x86 read and write zero there.
    """
    storage, sums = _SMALLEST[dtype.name], _SMALLEST[accumulator(dtype).name]
    total = np.where(np.isfinite(v), abs(v), 0.0).sum(axis=2, keepdims=True)  # over the keys
    group = case.num_heads // case.num_heads_kv
    flushed = 2.0**-126 if dtype.name == "bf16" else 0.0
    bound: Float64 = storage * ((1 + np.repeat(total, group, axis=1)) / 2) + sums * (case.seqlen_k / 2) + flushed
    return bound


def _ulp(x: float, dtype: DType) -> float:
    """Distance between neighbours of the dtype at x."""
    return float(2.0 ** (np.floor(np.log2(x)) - dtype.mantissa_bits)) if x else _SMALLEST[dtype.name]


def _max_abs(x: Float64) -> float:
    return _largest(abs(x[np.isfinite(x)]))


def _largest(x: Float64) -> float:
    return float(np.max(x, initial=0.0))
