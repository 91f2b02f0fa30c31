"""Benchmarks: flashgen's algorithms beside torch's SDPA, in one interleaved run for each workload."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flashgen.api import build
from flashgen.families import family_named
from flashgen.measure.clock import Timing, compare
from flashgen.measure.peak import PeakProbe, precision_of
from flashgen.measure.workload import Workload, to_torch, torch_is_here, torch_sdpa
from flashgen.runtime.dispatch import Attention
from flashgen.runtime.openmp import thread_pool

SDPA = "torch SDPA"


@dataclass(frozen=True, slots=True)
class Row:
    """One peer on one workload.

    Attributes:
        name: ``flashgen fa2``, ``torch SDPA``, ...
        workload: what was computed.
        timing: how long it took.
        gflops: rate by the field's convention.
        peak_gflops: the peak probed in the same run, of what the machine multiplies fastest for the dtype: fp16
            is widened to fp32 everywhere, bf16 unless the CPU multiplies it as it is.
        peak_fraction: of that peak.
        workspace_bytes: memory beyond inputs and output; None where it is not known.
        ratio_to_sdpa: how many times faster than torch SDPA; None without torch.
    """

    name: str
    workload: Workload
    timing: Timing
    gflops: float
    peak_gflops: float
    peak_fraction: float
    workspace_bytes: int | None
    ratio_to_sdpa: float | None

    def as_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return {
            "name": self.name,
            "shape": list(self.workload.shape),
            "causal": self.workload.causal.as_json,
            "dtype": self.workload.dtype.name,
            "median_s": self.timing.median_s,
            "spread": self.timing.spread,
            "rounds": self.timing.rounds,
            "discarded": self.timing.discarded,
            "gflops": self.gflops,
            "peak_gflops": self.peak_gflops,
            "peak_fraction": self.peak_fraction,
            "workspace_bytes": self.workspace_bytes,
            "ratio_to_sdpa": self.ratio_to_sdpa,
        }


@dataclass(frozen=True, slots=True)
class BenchResult:
    """All rows of a run, and the machine's peaks.

    Attributes:
        rows: one for each peer and workload.
        peaks: precision (``fp32``, ``bf16``, ``fp64``) -> GFLOP/s, the best that a workload of it saw.
    """

    rows: tuple[Row, ...]
    peaks: Mapping[str, float]

    @property
    def peak_gflops(self) -> float:
        """The highest of them."""
        return max(self.peaks.values(), default=0.0)


def bench(
    workloads: Sequence[Workload],
    algorithms: Sequence[str],
    *,
    target: str = "cpu",
    rounds: int = 11,
    progress: Callable[[str], None] = lambda name: None,
) -> BenchResult:
    """Times every algorithm on every workload, with torch's SDPA beside them where torch is installed.

    Args:
        workloads: what to compute.
        algorithms: ``standard``, ``fa1``, ``fa2``.
        target: a CPU target that this machine runs.
        rounds: how often each is timed.
        progress: called with a peer's name after each of its turns.
    """
    probes = {precision: PeakProbe(precision) for precision in dict.fromkeys(precision_of(w.dtype) for w in workloads)}
    rows: list[Row] = []
    peaks = dict.fromkeys(probes, 0.0)
    for workload in workloads:
        precision = precision_of(workload.dtype)
        probe = probes[precision]
        arrays = workload.inputs()
        kernels = {f"flashgen {name}": _kernel(workload, name, target) for name in algorithms}
        comparison = compare(
            _calls(workload, kernels, arrays),
            probe.measure,
            known_peak=probe.best,
            rounds=rounds,
            progress=lambda: progress(""),
        )
        peaks[precision] = max(peaks[precision], comparison.peak_gflops)
        sdpa = comparison.timings.get(SDPA)
        for name, timing in comparison.timings.items():
            gflops = workload.flops / timing.median_s / 1e9
            rows.append(
                Row(
                    name,
                    workload,
                    timing,
                    gflops,
                    comparison.peak_gflops,
                    gflops / comparison.peak_gflops,
                    _workspace(kernels.get(name), arrays),
                    sdpa.median_s / timing.median_s if sdpa else None,
                )
            )
    return BenchResult(tuple(rows), peaks)


def turns(workloads: Sequence[Workload], algorithms: Sequence[str], rounds: int) -> int:
    """How often `bench` will call ``progress``."""
    return len(workloads) * rounds * (len(algorithms) + torch_is_here())


def _kernel(workload: Workload, algorithm: str, target: str) -> Attention:
    causal = workload.causal.as_json
    return build(
        workload.d,
        workload.dtype.name,
        causal=causal,  # type: ignore[arg-type]
        target=target,
        algorithm=algorithm,
        d_v=workload.d_v,
    )


def _calls(
    workload: Workload, kernels: dict[str, Attention], arrays: tuple[Any, Any, Any]
) -> dict[str, Callable[[], object]]:
    with_torch = torch_is_here()
    tensors: Any = tuple(to_torch(array) for array in arrays) if with_torch else arrays

    def call(kernel: Attention) -> Callable[[], object]:
        return lambda: kernel(*tensors)

    calls = {name: call(kernel) for name, kernel in kernels.items()}
    return calls | ({SDPA: torch_sdpa(workload, tensors)} if with_torch else {})


def _workspace(kernel: Attention | None, arrays: tuple[Any, Any, Any]) -> int | None:
    if kernel is None:
        return None
    q, k, _ = arrays
    plan, threads = kernel.plan_for(q, k), thread_pool().max_threads()
    family = family_named(plan.family)
    return threads * family.workspace_bytes(kernel.spec, plan, q.shape[2], k.shape[2])
