"""Benchmark of decoding: few query rows against K and V that no cache holds, beside a probe of the memory."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from flashgen.api import build
from flashgen.dtypes import DType
from flashgen.measure.clock import Timing, compare
from flashgen.measure.memory import COLD_BYTES, ReadProbe
from flashgen.measure.workload import to_torch, torch_is_here
from flashgen.runtime.device import host_name
from flashgen.runtime.openmp import thread_pool

SDPA = "torch SDPA"
_MOST_SETS = 512

Call = Callable[[], object]


@dataclass(frozen=True, slots=True)
class DecodeWorkload:
    """One step of decoding.

    Attributes:
        batch, heads, heads_kv, seqlen_q, seqlen_k, d: sizes; every query row sees all keys.
        dtype: of the tensors.
    """

    batch: int
    heads: int
    heads_kv: int
    seqlen_q: int
    seqlen_k: int
    d: int
    dtype: DType

    @property
    def kv_bytes(self) -> int:
        """Bytes of K and V, each read once."""
        return 2 * self.batch * self.heads_kv * self.seqlen_k * self.d * self.dtype.size

    def sets(self, cold_bytes: int) -> int:
        """How many K and V take turns, so that they come from memory; at most 512."""
        return min(max(-(-cold_bytes // self.kv_bytes), 1), _MOST_SETS)


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
        ratio_to_sdpa: how many times faster than torch's SDPA; None without torch.
    """

    name: str
    workload: DecodeWorkload
    timing: Timing
    sets: int
    is_cold: bool
    gbytes_per_s: float
    read_gbytes_per_s: float
    ratio_to_sdpa: float | None

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
        }


@dataclass(frozen=True, slots=True)
class DecodeResult:
    """All rows of a run."""

    rows: tuple[DecodeRow, ...]

    def as_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return {
            "machine": host_name(),
            "threads": thread_pool().max_threads(),
            "rows": [row.as_dict() for row in self.rows],
        }


def bench_decode(
    workloads: Sequence[DecodeWorkload],
    algorithms: Sequence[str],
    *,
    target: str = "cpu",
    rounds: int = 11,
    cold_bytes: int = COLD_BYTES,
    progress: Callable[[], None] = lambda: None,
) -> DecodeResult:
    """Times algorithms, and torch's SDPA where torch is installed, on keys and values out of memory.

    Args:
        workloads: what to compute.
        algorithms: ``decode``, ``fa2``, ...
        target: a CPU target that this machine runs.
        rounds: how often each is timed.
        cold_bytes: how many bytes of K and V take turns, and how many the probe reads.
        progress: called after each turn of a contender.
    """
    probe = ReadProbe(cold_bytes)
    rows: list[DecodeRow] = []
    for work in workloads:
        comparison = compare(
            _calls(work, algorithms, target, cold_bytes),
            probe.measure,
            known_peak=probe.best,
            rounds=rounds,
            progress=progress,
        )
        sdpa, sets = comparison.timings.get(SDPA), work.sets(cold_bytes)
        for name, timing in comparison.timings.items():
            rate = work.kv_bytes / timing.median_s / 1e9
            ratio = sdpa.median_s / timing.median_s if sdpa else None
            is_cold = sets * work.kv_bytes >= cold_bytes
            rows.append(DecodeRow(name, work, timing, sets, is_cold, rate, comparison.peak_gflops, ratio))
    return DecodeResult(tuple(rows))


def turns(workloads: Sequence[DecodeWorkload], algorithms: Sequence[str], rounds: int) -> int:
    """How often `bench_decode` will call ``progress``."""
    return rounds * len(workloads) * (len(algorithms) + torch_is_here())


def _calls(work: DecodeWorkload, algorithms: Sequence[str], target: str, cold_bytes: int) -> dict[str, Call]:
    rng, storage = np.random.default_rng(0), work.dtype.numpy()
    q_shape = (work.batch, work.heads, work.seqlen_q, work.d)
    kv_shape = (work.batch, work.heads_kv, work.seqlen_k, work.d)
    q, k, v = (rng.standard_normal(x, dtype=np.float32).astype(storage) for x in (q_shape, kv_shape, kv_shape))
    with_torch = torch_is_here()
    make: Callable[[np.ndarray], Any] = to_torch if with_torch else lambda array: array
    cache = [(make(k.copy()), make(v.copy())) for _ in range(work.sets(cold_bytes))]  # equal numbers, other places
    functions: dict[str, Callable[..., object]] = {
        f"flashgen {name}": build(work.d, work.dtype.name, target=target, algorithm=name) for name in algorithms
    }
    if with_torch:
        functions[SDPA] = _sdpa(grouped=work.heads != work.heads_kv)
    return {name: _in_turn(function, make(q), cache) for name, function in functions.items()}


def _in_turn(function: Callable[..., object], q: Any, cache: Sequence[tuple[Any, Any]]) -> Call:
    turn = itertools.cycle(cache)
    return lambda: function(q, *next(turn))


def _sdpa(grouped: bool) -> Callable[..., object]:
    import torch

    function = torch.nn.functional.scaled_dot_product_attention

    def call(q: Any, k: Any, v: Any) -> object:
        with torch.no_grad():
            return function(q, k, v, enable_gqa=grouped)

    return call
