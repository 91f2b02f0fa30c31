"""What verification allows, and how it says what it found."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from flashgen.spec import make_spec
from flashgen.verification import CaseResult, VerificationReport, cases_for, compare, expect, make_inputs


def spec_of(dtype="fp32", causal=False):
    return make_spec(40, dtype, causal, 24)


# ---- Tolerances ----


def errors_allowed(dtype, values="gaussian", **fields):
    spec = spec_of(dtype, "bottom_right")
    case = replace(next(iter(cases_for(spec))), seqlen_q=50, seqlen_k=50, values=values, **fields)
    inputs = make_inputs(case, spec, 0)
    return case, expect(spec, case, inputs)


@pytest.mark.parametrize(("dtype", "relative"), [("fp64", 1e-13), ("fp32", 2e-6), ("fp16", 2.0**-9), ("bf16", 2.0**-6)])
def test_tolerances_are_as_promised(dtype, relative):
    _, expected = errors_allowed(dtype)
    assert expected.out_tolerance.max() <= relative * abs(expected.out).max()
    assert expected.out_tolerance.min() > 0
    np.testing.assert_array_equal(
        expected.lse_tolerance, (1e-13 if dtype == "fp64" else 2e-6) * np.maximum(1, abs(expected.lse))
    )


@pytest.mark.parametrize("dtype", ["fp16", "bf16", "fp32", "fp64"])
def test_rows_that_average_more_values_are_allowed_less(dtype):
    _, expected = errors_allowed(dtype)
    assert expected.out_tolerance[:, :, -1].max() < expected.out_tolerance[:, :, 0].max()


@pytest.mark.parametrize("which", ["out", "lse"])
@pytest.mark.parametrize("dtype", ["fp32", "fp64"])
@pytest.mark.parametrize("factor", [0.8, 1.2])
def test_an_error_passes_up_to_its_tolerance(dtype, which, factor):
    case, expected = errors_allowed(dtype)
    spec = spec_of(dtype, "bottom_right")
    right = {"out": expected.out, "lse": expected.lse}
    allowed = {"out": expected.out_tolerance, "lse": expected.lse_tolerance}[which]
    at = np.unravel_index(np.argmax(allowed), allowed.shape)
    wrong = right[which].copy()
    wrong[at] += factor * allowed[at]
    out, lse = (x.astype(spec.dtype.numpy()) for x in (right | {which: wrong}).values())
    result = compare(spec, case, expected, out, lse)
    assert result.passed == (factor < 1)
    assert result.severity == pytest.approx(factor, rel=0.1)


# ---- The report ----


def test_a_fault_is_described_with_its_place():
    case, expected = errors_allowed("fp64")
    out, lse = expected.out.copy(), expected.lse.copy()
    out[0, 1, 7, 3] += 1.0
    lse[0, 0, 5] = np.nan
    reason = compare(spec_of("fp64"), case, expected, out, lse).reason
    assert reason.startswith("out[0, 1, 7, 3] is ")
    assert "; 1 of " in reason
    reason = compare(spec_of("fp64"), case, expected, expected.out, lse).reason
    assert reason.startswith("lse[0, 0, 5] is nan, should be ")


def test_the_report_gives_the_worst_case_and_is_plain_data():
    rows = (
        CaseResult("good", 1e-7, 1e-8, 1e-6, 0.1),
        CaseResult("close", 9e-7, 1e-8, 1e-6, 0.9),
        CaseResult("wrong", 1e-9, 1e-9, 1e-6, math.inf, "out is nan."),
    )
    report = VerificationReport(rows, seed=7)
    assert not report.passed
    assert (report.cases, report.worst_case, report.max_abs_error, report.tolerance) == (3, "wrong", 1e-9, 1e-6)
    assert report.failures == rows[2:]
    assert "2 of 3 cases passed" in report.summary()
    assert "wrong: out is nan." in report.summary()
    data = json.loads(json.dumps(report.as_dict(), allow_nan=False))
    assert data["failed"] == 1
    assert data["seed"] == 7
    assert [row["passed"] for row in data["rows"]] == [True, True, False]
    assert data["severity"] is None
    assert VerificationReport(rows[:2], 0).passed
    assert VerificationReport(rows[:2], 0).worst_case == "close"


def test_a_report_of_nothing_is_no_pass():
    report = VerificationReport((), 0)
    assert not report.passed
    assert report.worst_case == "none"
    assert json.dumps(report.as_dict(), allow_nan=False)
