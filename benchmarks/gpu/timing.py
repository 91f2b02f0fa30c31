"""How fast, honestly: events, L2 flushed, contenders interleaved, medians, random inputs, a peak of the day."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from kernels import Pack, Wanted, decoding, timed
from torch.nn.attention import SDPBackend, sdpa_kernel

DEVICE = "cuda"
SHAPES = ((16, 16, 1024), (4, 16, 4096), (1, 16, 16384))  # batch, heads, length
SLOW_LENGTH = 4096  # up to which kernels without tensor cores are timed
DECODE_SHAPES = ((1, 32, 8, 8192), (16, 32, 8, 8192), (64, 32, 32, 2048))  # batch, heads, kv heads, keys
ROUNDS = 9
PEERS = {
    "torch FLASH": SDPBackend.FLASH_ATTENTION,
    "torch CUDNN": SDPBackend.CUDNN_ATTENTION,
    "torch EFFICIENT": SDPBackend.EFFICIENT_ATTENTION,
}


@dataclass(frozen=True)
class Timed:
    """Median and spread of one contender on one problem."""

    contender: str
    problem: str
    milliseconds: float
    low: float
    high: float
    tflops: float


class Stopwatch:
    """Times single runs between events, each after the L2 cache has been overwritten."""

    def __init__(self) -> None:
        l2 = torch.cuda.get_device_properties(0).L2_cache_size
        self._scratch = torch.empty(max(4 * l2, 1 << 28), dtype=torch.uint8, device=DEVICE)

    def once(self, run: Callable[[], Any]) -> float:
        """Milliseconds of one run."""
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        self._scratch.zero_()
        begin.record()
        run()
        end.record()
        end.synchronize()
        return float(begin.elapsed_time(end))


def peaks() -> dict[str, float]:
    """TFLOP/s of square matrix products on random inputs, at the time of the other measurements."""
    found = {}
    kinds = {"fp16": (torch.float16, 8192), "bf16": (torch.bfloat16, 8192), "fp32": (torch.float32, 4096)}
    for name, (kind, size) in kinds.items():
        a, b = (torch.randn(size, size, device=DEVICE).to(kind) for _ in range(2))
        watch = Stopwatch()
        for _ in range(3):
            a @ b
        milliseconds = statistics.median(watch.once(lambda a=a, b=b: a @ b) for _ in range(ROUNDS))
        found[name] = 2 * size**3 / milliseconds / 1e9
    return found


def measure(pack: Pack, families: tuple[str, ...], deadline: Callable[[], bool]) -> list[Timed]:
    """Times our families beside torch's backends on the same inputs."""
    results: list[Timed] = []
    problems: dict[tuple[Any, ...], list[Wanted]] = {}
    for wanted in timed(families):
        problems.setdefault((wanted.d, wanted.dtype, wanted.causal), []).append(wanted)
    for shape in SHAPES:
        for (d, dtype, causal), ours in problems.items():
            if deadline():
                return results
            results += _race(pack, shape, d, dtype, bool(causal), ours)
    for wanted in decoding(families):
        for batch, heads, heads_kv, keys in DECODE_SHAPES:
            if deadline():
                return results
            results += _race_decoding(pack, wanted, batch, heads, heads_kv, keys)
    return results


def _race(pack: Pack, shape: tuple[int, int, int], d: int, dtype: str, causal: bool, ours: list[Wanted]) -> list[Timed]:
    batch, heads, length = shape
    kind = {"fp16": torch.float16, "bf16": torch.bfloat16, "fp32": torch.float32}[dtype]
    q, k, v = (torch.randn(batch, heads, length, d, device=DEVICE).to(kind) for _ in range(3))
    served = [w for w in ours if length <= SLOW_LENGTH or w.family == "cuda_fa2_mma"]
    contenders = _peers(q, k, v, causal) | {f"flashgen {w.family}": _ours(pack, w, q, k, v) for w in served}
    problem = f"B={batch} H={heads} N={length} d={d} {dtype}{' causal' if causal else ''}"
    operations = 4 * batch * heads * length * length * d / (2 if causal else 1)
    return _contest(contenders, problem, operations)


def _race_decoding(pack: Pack, wanted: Wanted, batch: int, heads: int, heads_kv: int, keys: int) -> list[Timed]:
    """One query row; what counts is how fast K and V are read."""
    kind, d = torch.bfloat16, wanted.d
    q = torch.randn(batch, heads, 1, d, device=DEVICE).to(kind)
    k, v = (torch.randn(batch, heads_kv, keys, d, device=DEVICE).to(kind) for _ in range(2))
    contenders = _peers(q, k, v, False) | {f"flashgen {wanted.family}": _ours(pack, wanted, q, k, v)}
    problem = f"B={batch} H={heads}/{heads_kv} 1 row, {keys} keys, d={d} bf16, {_megabytes(k, v):.0f} MB of K and V"
    return _contest(contenders, problem, 4 * batch * heads * keys * d)


def _megabytes(*tensors: torch.Tensor) -> float:
    return sum(x.numel() * x.element_size() for x in tensors) / 1e6


def _contest(contenders: dict[str, Callable[[], Any]], problem: str, operations: float) -> list[Timed]:
    watch, samples = Stopwatch(), {name: list[float]() for name in contenders}
    for name, run in list(contenders.items()):
        try:
            run()
            torch.cuda.synchronize()
        except RuntimeError:  # a backend that does not serve this dtype or device
            del contenders[name]
    for _ in range(ROUNDS):
        for name, run in contenders.items():
            samples[name].append(watch.once(run))
    return [_timed(name, problem, samples[name], operations) for name in contenders]


def _peers(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool) -> dict[str, Callable[[], Any]]:
    def peer(backend: SDPBackend) -> Callable[[], Any]:
        def run() -> Any:
            with sdpa_kernel(backend):
                return torch.nn.functional.scaled_dot_product_attention(
                    q, k, v, is_causal=causal, enable_gqa=q.shape[1] != k.shape[1]
                )

        return run

    return {name: peer(backend) for name, backend in PEERS.items()}


def _ours(pack: Pack, wanted: Wanted, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Callable[[], Any]:
    attn = pack.open(wanted)
    return lambda: attn(q, k, v)


def _timed(name: str, problem: str, samples: list[float], operations: float) -> Timed:
    low, middle, high = statistics.quantiles(samples, n=4)
    return Timed(name, problem, middle, low, high, operations / middle / 1e9)
