"""One body of tests for every backend: fixtures that hand it kernels, inputs and the oracle.

A backend is an algorithm on a target, for everything that runs on this machine: a new kernel family is
tested by being listed in `flashgen.families.FAMILIES`. Tests write NumPy arrays and get NumPy arrays;
where the kernel runs, and in which library's tensors, is the backend's business.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import flashgen
from flashgen.dtypes import parse_dtype
from flashgen.families import FAMILIES
from flashgen.runtime.device import host_target, runs_here
from flashgen.spec import AttentionSpec, make_spec
from flashgen.target import PRESETS, X86_LEVELS, Target
from flashgen.verification import Case, Inputs, compare, expect

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Backend:
    """An algorithm on a target, its tensors made by a library."""

    algorithm: str
    target: Target
    library: str = "numpy"

    def __str__(self) -> str:
        library = "" if self.library == "numpy" else f"-{self.library}"
        return f"{self.algorithm}-{self.target.arch}{library}"

    def build(
        self, d: int = 16, dtype: str = "fp32", causal: Any = False, d_v: int | None = None, **tile: Any
    ) -> Runner:
        """A kernel; the test is skipped where every family of the algorithm declines the spec."""
        spec = make_spec(d, dtype, causal, d_v)
        families = [f for f in FAMILIES if (f.algorithm, f.kind) == (self.algorithm, self.target.kind)]
        refusals = [f"{family.name} {family.refusal(spec, self.target)}" for family in families]
        if all(family.refusal(spec, self.target) for family in families):
            pytest.skip("; ".join(refusals))
        options = {"target": str(self.target), "algorithm": self.algorithm}
        return Runner(flashgen.build(d, dtype, causal=causal, d_v=d_v, **options, **tile), self.library)


@dataclass(frozen=True)
class Runner:
    """A built kernel that takes and returns NumPy arrays, whatever tensors it works on."""

    attention: flashgen.Attention
    library: str

    @property
    def spec(self) -> AttentionSpec:
        return self.attention.spec

    def __call__(self, q: Array, k: Array, v: Array, *, out: Array | None = None, **options: Any) -> Any:
        if self.library == "numpy":
            return self.attention(q, k, v, out=out, **options)
        device = "cpu" if self.attention.target.kind == "cpu" else "cuda"
        tensors = [None if x is None else to_torch(x, device) for x in (q, k, v, out)]
        with_lse = options.get("return_lse", False)
        results = self.attention(*tensors[:3], out=tensors[3], **options)
        arrays = [from_torch(x) for x in (results if with_lse else (results,))]
        if out is not None:
            out[...] = arrays[0]
            arrays[0] = out
        return tuple(arrays) if with_lse else arrays[0]


def to_torch(x: Array, device: str) -> Any:
    """A tensor on the device with the array's values, strides and offset, in a copy of its whole buffer."""
    import torch

    dtype = getattr(torch, parse_dtype(x.dtype.name).numpy_name)
    if x.size == 0:
        return torch.empty(x.shape, dtype=dtype, device=device)
    root = x
    while isinstance(root.base, np.ndarray):
        root = root.base
    if min(x.strides) < 0 or not root.flags.c_contiguous:
        root = x = np.ascontiguousarray(x)  # torch has no negative strides
    offset = x.__array_interface__["data"][0] - root.__array_interface__["data"][0]
    flat = torch.from_numpy(root.reshape(-1).view(np.uint8).copy()).to(device).view(dtype)
    strides = [stride // x.itemsize for stride in x.strides]
    return flat.as_strided(x.shape, strides, offset // x.itemsize)


def from_torch(x: Any) -> Array:
    """The tensor's values as an array."""
    import torch

    if x.dtype == torch.bfloat16:
        return x.cpu().contiguous().view(torch.int16).numpy().view(parse_dtype("bf16").numpy())
    return x.cpu().contiguous().numpy()


def _targets() -> list[Target]:
    """The best CPU target of this machine, and its GPU if there is one."""
    return [host_target(), *_gpus()]


def _gpus() -> list[Target]:
    if not any(family.kind == "cuda" for family in FAMILIES):
        return []
    try:
        import torch
    except ImportError:
        return []
    if not torch.cuda.is_available():
        return []
    major, minor = torch.cuda.get_device_capability()
    names = [Target("cuda", f"sm_{major}{minor}{suffix}") for suffix in ("", "a")]
    return [target for target in names if target in PRESETS]


def _algorithms(kind: str) -> list[str]:
    return list(dict.fromkeys(family.algorithm for family in FAMILIES if family.kind == kind))


def _library(target: Target) -> str:
    return "numpy" if target.kind == "cpu" else "torch"


BACKENDS = [
    Backend(algorithm, target, _library(target)) for target in _targets() for algorithm in _algorithms(target.kind)
]
OTHER_LEVELS = [
    Backend(algorithm, target)
    for target in (Target("cpu", level) for level in X86_LEVELS)
    if runs_here(target) and target != host_target()
    for algorithm in _algorithms("cpu")
]


@pytest.fixture(scope="session", params=BACKENDS, ids=str)
def backend(request: pytest.FixtureRequest) -> Backend:
    """Every algorithm on the best target of this machine."""
    chosen: Backend = request.param
    return chosen


@pytest.fixture(scope="session", params=[b for b in BACKENDS if b.target.kind == "cpu"], ids=str)
def cpu_backend(request: pytest.FixtureRequest) -> Backend:
    """Those that run on the CPU."""
    chosen: Backend = request.param
    return chosen


@pytest.fixture(scope="session", params=OTHER_LEVELS, ids=str)
def lower_level(request: pytest.FixtureRequest) -> Backend:
    """Every algorithm on the lesser instruction sets that this CPU has as well."""
    chosen: Backend = request.param
    return chosen


@pytest.fixture(scope="session", params=["fp16", "bf16", "fp32", "fp64"])
def dtype(request: pytest.FixtureRequest) -> str:
    """Every element type."""
    return str(request.param)


@pytest.fixture(scope="session", params=["bf16", "fp32"])
def two_dtypes(request: pytest.FixtureRequest) -> str:
    """One 16-bit type and one that is computed as it is stored, where more would teach nothing new."""
    return str(request.param)


@pytest.fixture(scope="session", params=[False, "top_left", "bottom_right"], ids=["none", "top_left", "bottom_right"])
def causal(request: pytest.FixtureRequest) -> Any:
    """Every mask."""
    return request.param


def draw(
    shape: tuple[int, int, int, int, int], d: int = 16, d_v: int | None = None, dtype: str = "fp32", seed: int = 0
) -> tuple[Array, Array, Array]:
    """N(0, 1) arrays q, k, v for (batch, num_heads, num_heads_kv, seqlen_q, seqlen_k)."""
    batch, heads, heads_kv, seqlen_q, seqlen_k = shape
    rng, storage = np.random.default_rng(seed), parse_dtype(dtype).numpy()
    shapes = [(heads, seqlen_q, d), (heads_kv, seqlen_k, d), (heads_kv, seqlen_k, d if d_v is None else d_v)]
    q, k, v = (rng.standard_normal((batch, *rest)).astype(storage) for rest in shapes)
    return q, k, v


def check(
    spec: AttentionSpec,
    inputs: tuple[Array, Array, Array],
    out: Array,
    lse: Array | None = None,
    *,
    softmax_scale: float | None = None,
    seqlens_k: Any = None,
) -> None:
    """Compares a result with the oracle's; arrays are 4-D, heads before rows."""
    q, k, v = inputs
    lengths = None if seqlens_k is None else np.asarray(seqlens_k, np.int64)
    case = Case(
        "call", *q.shape[:2], k.shape[1], q.shape[2], k.shape[2], q.shape[3], v.shape[3], softmax_scale=softmax_scale
    )
    expected = expect(spec, case, Inputs(q, k, v, lengths))
    wanted = expected.lse.astype(np.float64 if spec.dtype.size == 8 else np.float32)
    result = compare(spec, case, expected, out, wanted if lse is None else lse)
    assert result.passed, result.reason


@pytest.fixture(scope="session", name="draw")
def _draw() -> Any:
    return draw


@pytest.fixture(scope="session", name="check")
def _check() -> Any:
    return check
