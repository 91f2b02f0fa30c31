"""Runs a kernel through its cases."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from flashgen.spec import AttentionSpec
from flashgen.verification.cases import Case, cases_for, make_inputs
from flashgen.verification.compare import compare, expect
from flashgen.verification.report import CaseResult, VerificationReport

Array = NDArray[Any]


class Kernel(Protocol):
    """What is verified: an `Attention`, or anything else that is called like one, on NumPy arrays."""

    def __call__(
        self,
        q: Array,
        k: Array,
        v: Array,
        *,
        return_lse: bool,
        softmax_scale: float | None,
        seqlens_k: NDArray[np.int64] | None,
        layout: str,
    ) -> tuple[Array, Array]:
        """Returns out, in the layout of q, and lse (B, Hq, Sq)."""
        ...


def verify(
    kernel: Kernel,
    spec: AttentionSpec,
    *,
    cases: Iterable[Case] | None = None,
    seed: int = 0,
    progress: Callable[[CaseResult], None] | None = None,
) -> VerificationReport:
    """Runs every case and reports.

    Args:
        kernel: what to verify. Errors that it raises pass through.
        spec: what it should compute.
        cases: which calls to make; `cases_for` the spec if None.
        seed: of the random values.
        progress: called after each case.
    """
    rows: list[CaseResult] = []
    for row in results(kernel, spec, cases=cases, seed=seed):
        rows.append(row)
        if progress is not None:
            progress(row)
    return VerificationReport(tuple(rows), seed)


def results(
    kernel: Kernel, spec: AttentionSpec, *, cases: Iterable[Case] | None = None, seed: int = 0
) -> Iterator[CaseResult]:
    """`verify` as a generator: one result at a time."""
    for case in cases_for(spec) if cases is None else cases:
        yield run_case(kernel, spec, case, seed)


def run_case(kernel: Kernel, spec: AttentionSpec, case: Case, seed: int = 0) -> CaseResult:
    """Calls the kernel once and compares what it returns with the oracle."""
    inputs = make_inputs(case, spec, seed)
    swap = case.layout == "bshd"
    arrays = [x.swapaxes(1, 2) if swap else x for x in (inputs.q, inputs.k, inputs.v)]
    before = [x.tobytes() for x in arrays]
    q, k, v = arrays
    out, lse = kernel(
        q,
        k,
        v,
        return_lse=True,
        softmax_scale=case.softmax_scale,
        seqlens_k=inputs.seqlens_k,
        layout=case.layout,
    )
    if [x.tobytes() for x in arrays] != before:
        return CaseResult(case.name, severity=np.inf, reason="The kernel wrote to its inputs.")
    return compare(spec, case, expect(spec, case, inputs), out.swapaxes(1, 2) if swap else out, lse)
