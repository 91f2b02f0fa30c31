"""Benchmark of decoding: few query rows against K and V that no cache holds, beside a probe of the memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from flashgen.api import build
from flashgen.measure.bench import prepared
from flashgen.measure.clock import Timing, compare
from flashgen.measure.memory import COLD_BYTES, ReadProbe
from flashgen.measure.peers import SDPA, Call, Peer
from flashgen.measure.peers.base import in_turn
from flashgen.measure.workload import Array, KeysValues, Workload, to_torch, torch_is_here
from flashgen.runtime.device import host_name
from flashgen.runtime.openmp import thread_pool

_MOST_SETS = 512
_PACKED = ", packed"


@dataclass(frozen=True, slots=True)
class DecodeRow:
    """One contender on one workload.

    Attributes:
        name: ``flashgen decode``, ``torch SDPA``, ...
        workload: what was computed.
        timing: how long it took.
        sets: how many K and V took turns.
        is_cold: whether together they are more than a cache holds.
        gbytes_per_s: bytes of K and V over the time.
        read_gbytes_per_s: what the probe read in the same rounds.
        ratio_to_sdpa: how many times faster than torch's SDPA; None where that was not timed.
        ratio_to_best_peer: than the fastest of the other libraries; None without any.
    """

    name: str
    workload: Workload
    timing: Timing
    sets: int
    is_cold: bool
    gbytes_per_s: float
    read_gbytes_per_s: float
    ratio_to_sdpa: float | None
    ratio_to_best_peer: float | None

    @property
    def read_fraction(self) -> float:
        """Of what the probe read."""
        return self.gbytes_per_s / self.read_gbytes_per_s

    def as_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        work = self.workload
        return {
            "name": self.name,
            "shape": [work.batch, work.heads, work.heads_kv, work.seqlen_q, work.seqlen_k, work.d],
            "dtype": work.dtype.name,
            "median_s": self.timing.median_s,
            "spread": self.timing.spread,
            "rounds": self.timing.rounds,
            "discarded": self.timing.discarded,
            "kv_bytes": work.kv_bytes,
            "sets": self.sets,
            "cold": self.is_cold,
            "gbytes_per_s": self.gbytes_per_s,
            "read_gbytes_per_s": self.read_gbytes_per_s,
            "read_fraction": self.read_fraction,
            "ratio_to_sdpa": self.ratio_to_sdpa,
            "ratio_to_best_peer": self.ratio_to_best_peer,
        }


@dataclass(frozen=True, slots=True)
class DecodeResult:
    """All rows of a run.

    Attributes:
        rows: one for each contender and workload.
        absent: why peers that were asked for have no rows, a line for each reason.
        foreign_cores: cores that other work took in the rounds that count, the most of any workload; None if unknown.
    """

    rows: tuple[DecodeRow, ...]
    absent: tuple[str, ...] = ()
    foreign_cores: float | None = None

    def as_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return {
            "machine": host_name(),
            "threads": thread_pool().max_threads(),
            "absent": list(self.absent),
            "foreign_cores": self.foreign_cores,
            "rows": [row.as_dict() for row in self.rows],
        }


def bench_decode(
    workloads: Sequence[Workload],
    algorithms: Sequence[str],
    *,
    peers: Sequence[Peer] = (SDPA,),
    target: str = "cpu",
    rounds: int = 11,
    cold_bytes: int = COLD_BYTES,
    progress: Callable[[], None] = lambda: None,
) -> DecodeResult:
    """Times algorithms, and other libraries beside them, on keys and values out of memory.

    Where query heads share K and V, torch's SDPA gets the heads as they are, and every peer gets them packed: the heads
    that share K and V as rows of one head, which reads K and V once.

    Args:
        workloads: what to compute, without a mask.
        algorithms: ``decode``, ``fa2``, ...
        peers: other libraries to time in the same rounds.
        target: a CPU target that this machine runs.
        rounds: how often each is timed.
        cold_bytes: how many bytes of K and V take turns, and how many the probe reads.
        progress: called after each turn of a contender.
    """
    probe = ReadProbe(cold_bytes)
    rows: list[DecodeRow] = []
    absent: list[str] = []
    loads: list[float] = []
    for work in workloads:
        q, caches = _inputs(work, cold_bytes)
        others, reasons = _peers(peers, work, q, caches)
        absent += reasons
        comparison = compare(
            _kernels(work, algorithms, target, q, caches) | others,
            probe.measure,
            known_peak=probe.best,
            rounds=rounds,
            progress=progress,
        )
        loads += [] if comparison.foreign_cores is None else [comparison.foreign_cores]
        timings = comparison.timings
        sdpa = timings[SDPA.name].median_s if SDPA.name in timings else None
        best = min((timings[name].median_s for name in others), default=None)
        for name, timing in timings.items():
            rows.append(
                DecodeRow(
                    name,
                    work,
                    timing,
                    len(caches),
                    len(caches) * work.kv_bytes >= cold_bytes,
                    work.kv_bytes / timing.median_s / 1e9,
                    comparison.peak_gflops,
                    sdpa / timing.median_s if sdpa else None,
                    best / timing.median_s if best else None,
                )
            )
    return DecodeResult(tuple(rows), tuple(dict.fromkeys(absent)), max(loads, default=None))


def turns(
    workloads: Sequence[Workload], algorithms: Sequence[str], rounds: int, peers: Sequence[Peer] = (SDPA,)
) -> int:
    """How often `bench_decode` will call ``progress``, if no peer fails."""
    able = sum(peer.why_not(work) is None for work in workloads for peer, work, _ in _variants(peers, work))
    return rounds * (len(workloads) * len(algorithms) + able)


def sets(work: Workload, cold_bytes: int) -> int:
    """How many K and V take turns, so that they come from memory; at most 512."""
    return min(max(-(-cold_bytes // work.kv_bytes), 1), _MOST_SETS)


def _inputs(work: Workload, cold_bytes: int) -> tuple[Array, list[KeysValues]]:
    """q, and K and V of equal numbers in other places."""
    q, k, v = work.inputs()
    return q, [(k.copy(), v.copy()) for _ in range(sets(work, cold_bytes))]


def _variants(peers: Sequence[Peer], work: Workload) -> list[tuple[Peer, Workload, str]]:
    """Who computes what, and what its name has at the end."""
    if work.heads == work.heads_kv:
        return [(peer, work, "") for peer in peers]
    as_they_are = [(peer, work, "") for peer in peers if peer is SDPA]
    return as_they_are + [(peer, work.packed(), _PACKED) for peer in peers]


def _peers(
    peers: Sequence[Peer], work: Workload, q: Array, caches: Sequence[KeysValues]
) -> tuple[dict[str, Call], list[str]]:
    calls: dict[str, Call] = {}
    absent = []
    for peer, variant, suffix in _variants(peers, work):
        able, reasons = prepared([peer], variant, q.reshape(variant.q_shape), caches)
        calls |= {name + suffix: call for name, call in able.items()}
        absent += reasons
    return calls, absent


def _kernels(
    work: Workload, algorithms: Sequence[str], target: str, q: Array, caches: Sequence[KeysValues]
) -> dict[str, Call]:
    make: Callable[[Array], Any] = to_torch if torch_is_here() else lambda array: array
    queries, given = make(q), [(make(k), make(v)) for k, v in caches]

    def call(name: str) -> Call:
        kernel = build(work.d, work.dtype.name, target=target, algorithm=name)
        return in_turn(lambda kv: kernel(queries, *kv), given)

    return {f"flashgen {name}": call(name) for name in algorithms}
