"""Which executor traces which kernel family."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from flashgen.errors import SpecError
from flashgen.families import family_named
from flashgen.inspect.trace import Run
from flashgen.inspect.trace_decode import run_cpu_decode, run_cuda_decode
from flashgen.inspect.trace_fa1 import run_cpu_fa1, run_cuda_fa1
from flashgen.inspect.trace_fa2 import run_fa2
from flashgen.inspect.trace_standard import run_cpu_standard, run_cuda_standard
from flashgen.reference import Array


def execute(run: Run, ranges: int = 1) -> Array:
    """Runs the algorithm of the run's plan to its end; returns the output, (seqlen_q, dv).

    Args:
        run: a head that has not been run yet.
        ranges: CTAs that share the query rows of the head (`cuda_fa1`), or splits of its keys (`cuda_decode`).

    Raises:
        SpecError: the family has no executor.
    """
    family = family_named(run.plan.family)
    executor = _EXECUTORS.get((family.algorithm, family.kind))
    if executor is None:
        raise SpecError(f"There is no step-by-step executor for {family.name}.")
    executor(run, ranges)
    return run.hbm["out" if "out" in run.hbm else "O"]


_EXECUTORS: Mapping[tuple[str, str], Callable[[Run, int], None]] = {
    ("standard", "cpu"): lambda run, _: run_cpu_standard(run),
    ("standard", "cuda"): lambda run, _: run_cuda_standard(run),
    ("fa1", "cpu"): lambda run, _: run_cpu_fa1(run),
    ("fa1", "cuda"): run_cuda_fa1,
    ("fa2", "cpu"): lambda run, _: run_fa2(run),
    ("fa2", "cuda"): lambda run, _: run_fa2(run),
    ("decode", "cpu"): lambda run, _: run_cpu_decode(run),
    ("decode", "cuda"): run_cuda_decode,
}
