"""Benchmarks: flashgen's algorithms beside other libraries', in one interleaved run for each workload."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flashgen.api import build
from flashgen.families import family_named
from flashgen.measure.clock import Comparison, Timing, compare
from flashgen.measure.peak import PeakProbe, precision_of
from flashgen.measure.peers import SDPA, Call, Peer
from flashgen.measure.workload import Array, KeysValues, Workload, to_torch, torch_is_here
from flashgen.runtime.device import host_name
from flashgen.runtime.dispatch import Attention
from flashgen.runtime.openmp import thread_pool


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
        ratio_to_sdpa: how many times faster than torch SDPA; None where that was not timed.
        ratio_to_best_peer: than the fastest of the other libraries; None without any.
    """

    name: str
    workload: Workload
    timing: Timing
    gflops: float
    peak_gflops: float
    peak_fraction: float
    workspace_bytes: int | None
    ratio_to_sdpa: float | None
    ratio_to_best_peer: float | None

    def as_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return {
            "name": self.name,
            "shape": [self.workload.batch, self.workload.heads, self.workload.seqlen_k, self.workload.d],
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
            "ratio_to_best_peer": self.ratio_to_best_peer,
        }


@dataclass(frozen=True, slots=True)
class BenchResult:
    """All rows of a run, and the machine's peaks.

    Attributes:
        rows: one for each contender and workload.
        peaks: precision (``fp32``, ``bf16``, ``fp64``) -> GFLOP/s, the best that a workload of it saw.
        absent: why peers that were asked for have no rows, a line for each reason.
        foreign_cores: cores that other work took in the rounds that count, the most of any workload; None if unknown.
    """

    rows: tuple[Row, ...]
    peaks: Mapping[str, float]
    absent: tuple[str, ...] = ()
    foreign_cores: float | None = None

    @property
    def peak_gflops(self) -> float:
        """The highest of them."""
        return max(self.peaks.values(), default=0.0)

    def as_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return {
            "machine": host_name(),
            "threads": thread_pool().max_threads(),
            "peak_gflops": self.peak_gflops,
            "peaks": dict(self.peaks),
            "absent": list(self.absent),
            "foreign_cores": self.foreign_cores,
            "rows": [row.as_dict() for row in self.rows],
        }


def bench(
    workloads: Sequence[Workload],
    algorithms: Sequence[str],
    *,
    peers: Sequence[Peer] = (SDPA,),
    target: str = "cpu",
    rounds: int = 11,
    progress: Callable[[str], None] = lambda name: None,
) -> BenchResult:
    """Times every algorithm on every workload, with those peers beside them that can compute it here.

    Args:
        workloads: what to compute.
        algorithms: ``standard``, ``fa1``, ``fa2``.
        peers: other libraries to time in the same rounds.
        target: a CPU target that this machine runs.
        rounds: how often each is timed.
        progress: called with a contender's name after each of its turns.
    """
    probes = {precision: PeakProbe(precision) for precision in dict.fromkeys(precision_of(w.dtype) for w in workloads)}
    rows: list[Row] = []
    absent: list[str] = []
    peaks = dict.fromkeys(probes, 0.0)
    loads: list[float] = []
    for workload in workloads:
        precision = precision_of(workload.dtype)
        probe = probes[precision]
        arrays = workload.inputs()
        kernels = {f"flashgen {name}": _kernel(workload, name, target) for name in algorithms}
        others, reasons = prepared(peers, workload, arrays[0], [arrays[1:]])
        absent += reasons
        comparison = compare(
            _calls(kernels, arrays) | others,
            probe.measure,
            known_peak=probe.best,
            rounds=rounds,
            progress=lambda: progress(""),
        )
        peaks[precision] = max(peaks[precision], comparison.peak_gflops)
        loads += [] if comparison.foreign_cores is None else [comparison.foreign_cores]
        memory = {name: _workspace(kernel, arrays) for name, kernel in kernels.items()}
        rows += _rows(workload, comparison, others.keys(), memory)
    return BenchResult(tuple(rows), peaks, tuple(dict.fromkeys(absent)), max(loads, default=None))


def turns(
    workloads: Sequence[Workload], algorithms: Sequence[str], rounds: int, peers: Sequence[Peer] = (SDPA,)
) -> int:
    """How often `bench` will call ``progress``, if no peer fails."""
    able = sum(peer.why_not(workload) is None for workload in workloads for peer in peers)
    return rounds * (len(workloads) * len(algorithms) + able)


def prepared(
    peers: Sequence[Peer], workload: Workload, q: Array, caches: Sequence[KeysValues]
) -> tuple[dict[str, Call], list[str]]:
    """The calls of the peers that can, and why the others cannot. Arguments as of `Peer.prepare`."""
    calls, reasons = {}, []
    for peer in peers:
        reason = peer.why_not(workload)
        if reason is None:
            try:
                calls[peer.name] = peer.prepare(workload, q, caches)
            except Exception as error:  # whatever another library raises must not cost the rows of all others
                lines = str(error).strip().splitlines()
                reason = f"{peer.name} failed: {type(error).__name__}: {lines[0] if lines else 'no message'}"
        if reason is not None:
            reasons.append(reason)
    return calls, reasons


def _rows(workload: Workload, comparison: Comparison, peers: Collection[str], memory: Mapping[str, int]) -> list[Row]:
    timings, peak = comparison.timings, comparison.peak_gflops
    sdpa = timings[SDPA.name].median_s if SDPA.name in peers else None
    best = min((timings[name].median_s for name in peers), default=None)
    rows = []
    for name, timing in timings.items():
        gflops = workload.flops / timing.median_s / 1e9
        rows.append(
            Row(
                name,
                workload,
                timing,
                gflops,
                peak,
                gflops / peak,
                memory.get(name),
                sdpa / timing.median_s if sdpa else None,
                best / timing.median_s if best else None,
            )
        )
    return rows


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


def _calls(kernels: Mapping[str, Attention], arrays: tuple[Any, Any, Any]) -> dict[str, Call]:
    tensors: Any = tuple(to_torch(array) for array in arrays) if torch_is_here() else arrays

    def call(kernel: Attention) -> Call:
        return lambda: kernel(*tensors)

    return {name: call(kernel) for name, kernel in kernels.items()}


def _workspace(kernel: Attention, arrays: tuple[Any, Any, Any]) -> int:
    q, k, _ = arrays
    plan, threads = kernel.plan_for(q, k), thread_pool().max_threads()
    family = family_named(plan.family)
    return threads * family.workspace_bytes(kernel.spec, plan, q.shape[2], k.shape[2])
