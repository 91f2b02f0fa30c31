"""What the model makes of a built kernel: the hot loop of each launch, in cycles and as a predicted rate.

The loop is all that is looked at: the rate is one of long sequences, without masks, tails, launches or device memory.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from flashgen.compilation.artifact import Artifact
from flashgen.errors import SpecError
from flashgen.families import family_named
from flashgen.inspect.occupancy import Occupancy
from flashgen.inspect.resources import resources
from flashgen.inspect.sass import Code
from flashgen.inspect.sass_paths import FMAS, Path, fma_paths, product_paths
from flashgen.inspect.sass_report import copies_by_element, kernel_code
from flashgen.pipes.cycles import PipeCycles
from flashgen.pipes.machine import LANES, SCHEDULERS, Machine, PipeRates, machine_of
from flashgen.pipes.overlap import cycles_alone, cycles_shared_out
from flashgen.pipes.sass import products, sass_cycles
from flashgen.source import KernelSource
from flashgen.spec import AttentionSpec
from flashgen.target import PRESETS, Target

_CHUNK = 8  # head dims count in chunks of as many columns on tensor cores


@dataclass(frozen=True, slots=True)
class LoopWork:
    """One turn of a hot loop.

    Attributes:
        cycles: of a scheduler, for one warp.
        flops: of that warp. On tensor cores only those that attention needs, not those of columns that pad a head
            dim; elsewhere all.
        unit: the pipe that multiplies: ``tensor``, ``fma`` or ``fp64``.
    """

    cycles: PipeCycles
    flops: float
    unit: str


@dataclass(frozen=True, slots=True)
class LoopPrediction:
    """The hot loop of one launch.

    Attributes:
        entry: the kernel.
        work: one turn of it.
        occupancy: CTAs and warps on a multiprocessor.
        util_lo: share of time in which the unit that multiplies would work if a warp were alone on its scheduler.
        util_hi: the same if everything overlapped.
        utilisation: the same by the model.
        share_of_peak: of what the device can multiply by its fastest instruction, at its published clock.
        tflops: predicted; None where the device's clock is not known.
    """

    entry: str
    work: LoopWork
    occupancy: Occupancy
    util_lo: float
    util_hi: float
    utilisation: float
    share_of_peak: float
    tflops: float | None

    @property
    def warps(self) -> float:
        """Of a scheduler, at once."""
        return self.occupancy.warps / SCHEDULERS

    def as_json(self) -> dict[str, Any]:
        """Plain values; the keys are stable and documented in docs/cli.md."""
        return {
            "entry": self.entry,
            "unit": self.work.unit,
            "cycles": {name: round(cycles, 1) for name, cycles in self.work.cycles.as_dict().items()},
            "busiest": self.work.cycles.busiest,
            "occupancy": asdict(self.occupancy),
            "warps_on_scheduler": self.warps,
            "util_lo": self.util_lo,
            "util_hi": self.util_hi,
            "utilisation": self.utilisation,
            "tflops": self.tflops,
            "share_of_peak": self.share_of_peak,
        }


@dataclass(frozen=True, slots=True)
class KernelPrediction:
    """A kernel, predicted for the preset device of its target.

    Attributes:
        source: the kernel.
        machine: the device.
        loops: of the launches that multiply, in stream order.
        without: entries of those that do not.
    """

    source: KernelSource
    machine: Machine
    loops: tuple[LoopPrediction, ...]
    without: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        """Plain values; the keys are stable and documented in docs/cli.md."""
        plan, target = self.source.plan, self.source.target
        return {
            "target": str(target),
            "device": PRESETS[target].device,
            "family": plan.family,
            "br": plan.br,
            "bc": plan.bc,
            "clock": self.machine.clock,
            "unverified_rates": list(self.machine.rates.unverified),
            "loops": [loop.as_json() for loop in self.loops],
            "launches_without_products": list(self.without),
        }


def require_model(family: str, target: Target) -> None:
    """Refuses what the model cannot say anything of.

    Raises:
        SpecError: no CUDA target, or a kernel that memory limits.
    """
    if target.kind != "cuda":
        raise SpecError(f"The model is of the pipes of NVIDIA's GPUs, and {target} is no CUDA target; try sm_80.")
    if family_named(family).algorithm == "decode":
        raise SpecError(
            f"The model is of hot loops that multiply, but {family} is as fast as memory gives it K and V; "
            "flashgen io counts these bytes."
        )


def predict_kernel(source: KernelSource, artifact: Artifact) -> KernelPrediction:
    """Predicts a built kernel.

    Args:
        source: a rendered CUDA kernel.
        artifact: what was made of it.

    Raises:
        SpecError: it is no CUDA kernel, one that memory limits, one that hardly multiplies, or one on tensor cores that
            copies rows by element.
        ToolchainError: there is no nvdisasm, or no machine code.
    """
    require_model(source.plan.family, source.target)
    if copies_by_element(source):
        raise SpecError(
            f"The model is of the loop that multiplies, but for {source.spec.summary} rows are copied by element, as a "
            "head dim is no multiple of 8, in loops that it does not count. flashgen autotune predicts with them."
        )
    machine = machine_of(source.target)
    code = kernel_code(source, artifact)
    loops, without = [], []
    for kernel in resources(source, artifact, with_sass=False):
        work = hot_work(code[kernel.entry], source.spec, machine.rates)
        if work is None:
            without.append(kernel.entry)
        else:
            assert kernel.occupancy is not None  # there is machine code, so there was ptxas
            loops.append(predict_loop(kernel.entry, work, kernel.occupancy, machine))
    if not loops:
        raise SpecError(
            f"The model is of hot loops that multiply, and {source.plan.family} has none for {source.spec.summary}: "
            "its head dim is too small."
        )
    return KernelPrediction(source, machine, tuple(loops), tuple(without))


def hot_work(code: Code, spec: AttentionSpec, rates: PipeRates) -> LoopWork | None:
    """A turn of a function's hot loop; None if it has none that multiplies.

    Of loops on tensor cores it is the one that needs no mask. Those of plain FMAs are taken together, each as often
    as makes its FMAs as many as the others': S = Q K^T and O = P V are loops of their own, and as much work.
    """
    on_tensor_cores = product_paths(code)
    if on_tensor_cores:
        path = on_tensor_cores[0]
        multiplied = sum(map(products, path.opcodes))
        useful = (spec.head_dim + spec.head_dim_v) / (_padded(spec.head_dim) + _padded(spec.head_dim_v))
        return LoopWork(sass_cycles(path.opcodes, rates), 2 * multiplied * useful, "tensor")
    paths = fma_paths(code)
    if not paths:
        return None
    fmas = max(path.count(*FMAS) for path in paths)
    cycles = sum((_scaled(path, fmas, rates) for path in paths), PipeCycles())
    return LoopWork(cycles, 2 * LANES * fmas * len(paths), "fp64" if paths[0].count("DFMA") else "fma")


def predict_loop(entry: str, work: LoopWork, occupancy: Occupancy, machine: Machine) -> LoopPrediction:
    """Puts a loop's work on a machine.

    Args:
        entry: its kernel.
        work: one turn of it.
        occupancy: of the kernel; no CTA on a multiprocessor counts as one.
        machine: the device.
    """
    cycles, rates = work.cycles, machine.rates
    multiplying = cycles.pipes[work.unit]
    took = cycles_shared_out(cycles, max(occupancy.warps, 1) / SCHEDULERS)
    flops_per_clock = work.flops / took * SCHEDULERS  # of a multiprocessor
    peak = {"tensor": rates.tensor_peak, "fma": rates.fp32, "fp64": rates.fp64}[work.unit] * 2
    return LoopPrediction(
        entry=entry,
        work=work,
        occupancy=occupancy,
        util_lo=multiplying / cycles_alone(cycles),
        util_hi=multiplying / cycles.longest,
        utilisation=multiplying / took,
        share_of_peak=flops_per_clock / peak,
        tflops=None if machine.clock is None else flops_per_clock * machine.sms * machine.clock / 1e12,
    )


def _scaled(path: Path, fmas: int, rates: PipeRates) -> PipeCycles:
    return sass_cycles(path.opcodes, rates) * (fmas / path.count(*FMAS))


def _padded(head_dim: int) -> int:
    return -(-head_dim // _CHUNK) * _CHUNK
