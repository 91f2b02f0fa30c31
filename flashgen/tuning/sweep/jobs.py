"""The jobs that workers do for a sweep."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from flashgen.errors import CompileError, LaunchError, RenderError
from flashgen.pipeline import Built, build_kernel
from flashgen.spec import AttentionSpec
from flashgen.target import Target
from flashgen.tile_plan import TilePlan
from flashgen.tuning.sweep.bench import Bench, CpuBench, Tools
from flashgen.tuning.sweep.shape import Shape
from flashgen.tuning.sweep.trial import COMPILE, Failure


@dataclass(frozen=True, slots=True)
class CompileJob:
    """Renders and compiles a plan; the answer is a `Built`, or a `Failure` if it is the plan that fails.

    Where it is the compiler that fails, or a directory, no plan is to blame, and the error ends the sweep.
    """

    spec: AttentionSpec
    plan: TilePlan
    target: Target
    tools: Tools

    def run(self, kept: dict[str, Any]) -> Built | Failure:
        """Through the store, so that what was compiled once is found."""
        try:
            return build_kernel(self.spec, self.plan, self.target, toolchain=self.tools.toolchain)
        except (CompileError, RenderError) as error:
            return Failure(COMPILE, _first_lines(str(error)))


@dataclass(frozen=True, slots=True)
class OpenJob:
    """Sets a bench up in the worker."""

    spec: AttentionSpec
    shape: Shape
    target: Target
    tools: Tools

    def run(self, kept: dict[str, Any]) -> None:
        """Draws the inputs.

        Raises:
            LaunchError: there is not enough memory for them, or no device.
        """
        try:
            kept["bench"] = self._bench()
        except MemoryError:
            raise LaunchError(f"There is not enough memory for inputs of {self.shape.label}.") from None

    def _bench(self) -> Bench:
        if self.target.kind == "cpu":
            return CpuBench(self.spec, self.shape, self.target, self.tools)
        from flashgen.tuning.sweep.cuda_bench import CudaBench

        return CudaBench(self.spec, self.shape, self.tools)


@dataclass(frozen=True, slots=True)
class TurnJob:
    """Lets a kernel have its turn on the worker's bench; the answer is seconds or a `Failure`."""

    built: Built

    def run(self, kept: dict[str, Any]) -> float | Failure:
        """Checks it first, if it is new here."""
        bench: Bench = kept["bench"]
        return bench.turn(self.built)


def _first_lines(message: str, count: int = 3) -> str:
    """What the compiler said first; the whole is in its log."""
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    return " ".join(lines[:count])
