"""Verification: does a kernel compute what its spec says? `verify` runs it through the cases and reports."""

from __future__ import annotations

from flashgen.verification.cases import Case, Inputs, cases_for, make_inputs
from flashgen.verification.compare import Expected, compare, expect
from flashgen.verification.report import CaseResult, VerificationReport
from flashgen.verification.runner import Kernel, results, run_case, verify

__all__ = [
    "Case", "CaseResult", "Expected", "Inputs", "Kernel", "VerificationReport", "cases_for", "compare", "expect",
    "make_inputs", "results", "run_case", "verify",
]  # fmt: skip
