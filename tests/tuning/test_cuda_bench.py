"""Measuring on a GPU, against a stand-in for the driver whose kernels are the oracle."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest
from stand_in_gpu import OpenStandIn, StandInGpu

from flashgen.compilation.artifact import Compiled
from flashgen.families import family_named
from flashgen.pipeline import Built, build_kernel
from flashgen.source import KernelSource, Source
from flashgen.spec import AttentionSpec, make_spec
from flashgen.target import Target, parse_target
from flashgen.tile_plan import TilePlan
from flashgen.tuning.sweep.bench import Tools
from flashgen.tuning.sweep.book import Book
from flashgen.tuning.sweep.conclusion import Task
from flashgen.tuning.sweep.cuda_bench import CudaBench
from flashgen.tuning.sweep.progress import silent
from flashgen.tuning.sweep.request import Request
from flashgen.tuning.sweep.runner import Compiler, WorkerRunner
from flashgen.tuning.sweep.shape import Shape
from flashgen.tuning.sweep.space import Candidate, Space
from flashgen.tuning.sweep.strategy import strategy_named
from flashgen.tuning.sweep.trial import Failure
from flashgen.tuning.sweep.tuner import tune_shape

FAMILY, SPEC, TARGET = family_named("cuda_fa1"), make_spec(8, "fp16"), parse_target("sm_80")
SHAPE = Shape(1, 2, 1, 48, 48)
TILES = ((64, 64), (32, 32), (16, 64), (32, 64))
TIMES = (("64x64", 1.0), ("32x32", 0.8), ("16x64", 1.3), ("32x64", 1.1))


@dataclass(frozen=True)
class NamingToolchain:
    """Compiles a kernel to its tile's name."""

    name: ClassVar[str] = "naming"

    def identity(self) -> tuple[tuple[str, str], ...]:
        return (("compiler", "naming"),)

    def flags(self, target: Target) -> tuple[str, ...]:
        return ()

    def compile(self, source: Source, workdir: Path) -> Compiled:
        assert isinstance(source, KernelSource)
        return Compiled({"cubin": f"{source.plan.br}x{source.plan.bc}".encode(), "ptx": b"//"})


def plan(br: int, bc: int, spec: AttentionSpec = SPEC) -> TilePlan:
    knobs = FAMILY.knobs(spec, TARGET, br, bc)
    return TilePlan(FAMILY.name, br, bc, knobs, FAMILY.footprint(spec, br, bc, knobs), "tuned")


def built(br: int, bc: int, spec: AttentionSpec = SPEC) -> Built:
    return build_kernel(spec, plan(br, bc, spec), TARGET, toolchain=NamingToolchain())


class Opened:
    """Opens a stand-in and keeps it, to look at what was asked of it."""

    def __init__(self, spec: AttentionSpec = SPEC, log: Path | None = None, **faults: str) -> None:
        named = {name.removeprefix("tile_"): fault for name, fault in faults.items()}
        self.gpu = StandInGpu(spec, named, dict(TIMES), log)

    def __call__(self) -> StandInGpu:
        return self.gpu


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLASHGEN_CACHE_DIR", str(tmp_path / "cache"))


@pytest.mark.parametrize("dtype", ["fp16", "bf16", "fp32"])
@pytest.mark.parametrize("causal", [False, "top_left", "bottom_right"])
def test_a_right_kernel_is_timed_by_events_with_a_cold_cache(dtype: str, causal: Any, tmp_path: Path) -> None:
    spec = make_spec(8, dtype, causal)
    opened = Opened(spec, tmp_path / "log")
    bench = CudaBench(spec, SHAPE, Tools(library=opened))
    assert bench.turn(built(32, 32, spec)) == pytest.approx(0.8e-3)
    lines = (tmp_path / "log").read_text().splitlines()
    timed = lines[-5 * 4 :]
    assert timed == ["flush", "event", "launch 32x32", "event"] * 5
    assert not opened.gpu.contexts  # every context that was pushed was popped


def test_buffers_of_the_checks_are_given_back(tmp_path: Path) -> None:
    opened = Opened()
    bench = CudaBench(SPEC, SHAPE, Tools(library=opened))
    bench.turn(built(32, 32))
    held = len(opened.gpu._memory)
    bench.turn(built(64, 64))
    assert len(opened.gpu._memory) == held
    assert opened.gpu.freed > 20


@pytest.mark.parametrize(
    ("fault", "kind", "words"),
    [
        ("wrong", "wrong result", "elements are wrong"),
        ("stray", "wrong result", "it wrote beyond out"),
        ("writes to q", "wrong result", "it wrote to its inputs"),
        ("illegal address", "device error", "CUDA_ERROR_ILLEGAL_ADDRESS"),
    ],
)
def test_faults_are_found(fault: str, kind: str, words: str) -> None:
    bench = CudaBench(SPEC, SHAPE, Tools(library=Opened(tile_32x32=fault)))
    answer = bench.turn(built(32, 32))
    assert isinstance(answer, Failure)
    assert answer.kind == kind
    assert words in answer.reason


def test_without_memory_a_plan_exceeds_resources() -> None:
    opened = Opened()
    bench = CudaBench(SPEC, SHAPE, Tools(library=opened))
    opened.gpu.fail["cuMemAlloc_v2"] = 2
    answer = bench.turn(built(32, 32))
    assert isinstance(answer, Failure)
    assert answer.kind == "exceeds resources"


def test_a_sick_device_is_replaced_with_its_process_and_the_sweep_goes_on(tmp_path: Path) -> None:
    """After an illegal address every later call in that process fails; in the next one it does not."""
    tools = Tools(NamingToolchain(), library=OpenStandIn(SPEC, (("16x64", "illegal address"),), TIMES))
    candidates = tuple(
        Candidate(plan(*tile), f"{tile[0]} x {tile[1]}", ("default",) if tile == TILES[0] else ()) for tile in TILES
    )
    space, request = Space(candidates, ()), Request(SPEC, TARGET, FAMILY)
    validity = {"how": "measured", "device": "Stand-in 0"}
    book = Book(request, SHAPE, space, validity)
    task = Task(request, SHAPE, space, validity, "Stand-in 0", 1000.0)
    with (
        contextlib.closing(Compiler(SPEC, TARGET, tools, 1)) as compiler,
        contextlib.closing(WorkerRunner(SPEC, SHAPE, TARGET, tools, compiler)) as runner,
    ):
        result = tune_shape(task, runner, strategy_named("halving"), book, silent)
    (failed,) = result.failures
    assert failed.candidate.label == "16 x 64"
    assert failed.failure is not None
    assert failed.failure.kind == "device error"
    assert (result.best.br, result.best.bc) == (32, 32)
    assert result.ratio is not None
    assert result.ratio.median == pytest.approx(0.8)
    assert result.how == "measured"
