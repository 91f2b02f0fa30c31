"""The kernels of a GPU run: which ones, compiled ahead into a folder, opened from there.

A folder of ready CUBINs is enough for a machine that has torch and nothing else of flashgen's
needs. Planning takes no packages; rendering takes jinja2, compiling takes NVRTC, both only where a kernel
is not in the folder yet.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

from flashgen.compilation.artifact import Artifact
from flashgen.families import family_named
from flashgen.runtime.cuda_launch import CudaExecutable
from flashgen.runtime.dispatch import Attention
from flashgen.runtime.kernel import CompiledKernel
from flashgen.source import KernelSource
from flashgen.spec import AttentionSpec, CausalArgument, make_spec
from flashgen.target import PRESETS, Target, parse_target
from flashgen.tile_plan import TilePlan
from flashgen.tiling import plan_tiles

DTYPES = ("fp16", "bf16", "fp32", "fp64")
CAUSAL: tuple[CausalArgument, ...] = (False, "bottom_right", "top_left")
HEAD_DIMS = (32, 40, 64, 80, 96, 128, 192, 256)
FAST_DIMS = (64, 72, 80, 128, 160, 256)  # of the tensor-core kernel: those of libraries, and those that they pad
SRAM = 98304


@dataclass(frozen=True)
class Wanted:
    """One kernel to have."""

    family: str
    d: int
    dtype: str
    causal: CausalArgument = False
    d_v: int | None = None
    sram: int | None = None

    @property
    def spec(self) -> AttentionSpec:
        """What it computes."""
        return make_spec(self.d, self.dtype, self.causal, self.d_v)

    def plan(self, target: Target) -> TilePlan:
        """How it is tiled there."""
        return plan_tiles(family_named(self.family), self.spec, target, PRESETS[target], sram_bytes=self.sram)


def taken(family: str, *dtypes: str) -> str | None:
    """The first of the dtypes that the family takes, on an A100."""
    for dtype in dtypes:
        if family_named(family).refusal(make_spec(64, dtype), parse_target("sm_80")) is None:
            return dtype
    return None


def grid(families: tuple[str, ...]) -> Iterator[Wanted]:
    """The conformance grid: every dtype x mask for a few head dims, every head dim for a few dtypes."""
    for family in families:
        for dtype in filter(partial(taken, family), DTYPES):
            for causal in CAUSAL:
                yield Wanted(family, 64, dtype, causal)
        for d in HEAD_DIMS:
            yield Wanted(family, d, "fp16", "bottom_right")
            if taken(family, "fp32"):
                yield Wanted(family, d, "fp32")
        for d, d_v in ((1, 3), (33, 17), (40, 24), (130, 256)):
            yield Wanted(family, d, "bf16", "top_left", d_v)


def timed(families: tuple[str, ...]) -> Iterator[Wanted]:
    """The kernels that are timed on square problems."""
    for family in families:
        if family == "cuda_decode":
            continue
        fast = family == "cuda_fa2_mma"
        for d, causal in itertools.product(FAST_DIMS if fast else (64, 128), (False, "bottom_right")):
            yield Wanted(family, d, "bf16" if fast else "fp16", causal, sram=None if fast else SRAM)  # type: ignore[arg-type]
        if taken(family, "fp32"):
            yield Wanted(family, 64, "fp32", False, sram=SRAM)


def decoding(families: tuple[str, ...]) -> Iterator[Wanted]:
    """The kernels that are timed on one query row against many keys."""
    if "cuda_decode" in families:
        for d in (64, 128):
            yield Wanted("cuda_decode", d, "bf16")


class Pack:
    """Compiled kernels for one target, in a folder."""

    def __init__(self, directory: Path, target: Target) -> None:
        self.directory = directory / str(target)
        self.target = target
        self.seconds: list[float] = []

    def ensure(self, wanted: Wanted) -> dict[str, Any]:
        """Compiles a kernel unless it is there; returns what ptxas said of it."""
        plan = wanted.plan(self.target)
        stem = self.directory / Path(_filename(wanted, plan, self.target)).stem
        if not stem.with_suffix(".json").is_file():
            self._compile(wanted, plan, stem)
        report: dict[str, Any] = json.loads(stem.with_suffix(".json").read_text())
        return report

    def open(self, wanted: Wanted) -> Attention:
        """A callable of a kernel, through flashgen's torch loader."""
        return _opened(self, wanted)

    def kernel(self, wanted: Wanted, host: Any) -> CompiledKernel:
        """Loads a kernel for a host library (torch)."""
        self.ensure(wanted)
        plan = wanted.plan(self.target)
        name = _filename(wanted, plan, self.target)
        stem = self.directory / Path(name).stem
        text = (self.directory / name).read_text(encoding="utf-8")
        source = KernelSource(text, "cuda", family_named(wanted.family).entry, wanted.spec, plan, self.target)
        paths = {s: stem.with_suffix(f".{s}") for s in ("cubin", "ptx") if stem.with_suffix(f".{s}").is_file()}
        artifact = Artifact(source.digest, paths, (), {}, "", cache_hit=True)
        return CompiledKernel(source, artifact, CudaExecutable(host, artifact, source))

    def _compile(self, wanted: Wanted, plan: TilePlan, stem: Path) -> None:
        import time

        from flashgen.compilation.toolchains.cuda import cuda_toolchain
        from flashgen.render.renderer import render

        source = render(family_named(wanted.family), wanted.spec, plan, self.target)
        self.directory.mkdir(parents=True, exist_ok=True)
        start = time.perf_counter()
        compiled = cuda_toolchain(self.target).compile(source, self.directory)
        self.seconds.append(time.perf_counter() - start)
        source.write_to(self.directory)
        for suffix, contents in compiled.files.items():
            stem.with_suffix(f".{suffix}").write_bytes(contents)
        stem.with_suffix(".json").write_text(json.dumps(dict(compiled.report)))  # last: it marks a whole entry


def _filename(wanted: Wanted, plan: TilePlan, target: Target) -> str:
    return KernelSource("", "cuda", "", wanted.spec, plan, target).filename


@cache
def torch_host() -> Any:
    """Torch, as flashgen's loader sees it."""
    from flashgen.runtime.cuda_driver import open_driver
    from flashgen.runtime.torch_loader import TorchHost

    return TorchHost(open_driver())


@cache
def _opened(pack: Pack, wanted: Wanted) -> Attention:
    def build_kernel(shape_class: str) -> CompiledKernel:
        return pack.kernel(wanted, torch_host())

    return Attention(wanted.spec, pack.target, lambda problem: "prefill", build_kernel)
