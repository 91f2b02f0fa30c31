"""What a compiled CUDA kernel takes: registers, stack, spills, shared memory, barriers, occupancy.

The numbers are ptxas', from the artifact's report; shared memory is the launch plan's, since ptxas knows
nothing of dynamic shared memory. The planner, the manifest and the static_asserts in the source state the
same bytes, and `complaints` says where they would not.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from flashgen.compilation.artifact import Artifact
from flashgen.families import family_named
from flashgen.inspect.occupancy import Occupancy, occupancy
from flashgen.inspect.sass import hot_loop
from flashgen.launch_plan import LaunchStep
from flashgen.source import KernelSource
from flashgen.target import PRESETS


@dataclass(frozen=True, slots=True)
class KernelResources:
    """One entry of a module.

    Attributes:
        entry: its symbol.
        threads: of a CTA.
        shared_bytes: dynamic shared memory of a CTA.
        registers, stack_bytes, spill_store_bytes, spill_load_bytes, static_shared_bytes, barriers: as ptxas
            reports them; None when there was no ptxas (PTX for a target that the compiler does not know).
        occupancy: on the target's preset device.
        hot_loop: SASS instructions of the innermost loop with the most arithmetic, by kind, if nvdisasm is
            installed.
    """

    entry: str
    threads: int
    shared_bytes: int
    registers: int | None
    stack_bytes: int | None
    spill_store_bytes: int | None
    spill_load_bytes: int | None
    static_shared_bytes: int | None
    barriers: int | None
    occupancy: Occupancy | None
    hot_loop: dict[str, int] | None

    def as_json(self) -> dict[str, Any]:
        """The fields, as plain values."""
        return asdict(self)


def resources(source: KernelSource, artifact: Artifact, with_sass: bool = True) -> tuple[KernelResources, ...]:
    """The resources of each entry, in the order of the launches.

    Args:
        source: a rendered CUDA kernel.
        artifact: what was made of it.
        with_sass: also look for the hot loop, where nvdisasm is installed.
    """
    plan = family_named(source.plan.family).launch_plan(source.spec, source.plan)
    reported = artifact.report.get("kernels", {})
    cubin = artifact.paths.get("cubin") if with_sass else None
    return tuple(
        _of_step(source, step, reported.get(step.entry, {}), hot_loop(cubin, step.entry) if cubin else None)
        for step in plan.steps
    )


def complaints(found: tuple[KernelResources, ...], source: KernelSource) -> tuple[str, ...]:
    """What is wrong with a kernel's resources, one sentence each; empty for a sound kernel."""
    said = []
    for kernel in found:
        for name in ("stack_bytes", "spill_store_bytes", "spill_load_bytes", "static_shared_bytes"):
            if getattr(kernel, name):
                said.append(f"{kernel.entry}: {name} is {getattr(kernel, name)}, not 0")
    planned, launched = source.plan.footprint.total, max(kernel.shared_bytes for kernel in found)
    if planned != launched:
        said.append(f"the plan says {planned} bytes of shared memory, the launches take {launched}")
    return tuple(said)


def _of_step(
    source: KernelSource, step: LaunchStep, reported: dict[str, Any], loop: dict[str, int] | None
) -> KernelResources:
    registers = reported.get("registers")
    fits = None
    if registers is not None:
        fits = occupancy(source.target, PRESETS[source.target], step.block, registers, step.shared_bytes)
    return KernelResources(
        step.entry,
        step.block,
        step.shared_bytes,
        registers,
        reported.get("stack_bytes"),
        reported.get("spill_store_bytes"),
        reported.get("spill_load_bytes"),
        reported.get("static_smem_bytes"),
        reported.get("barriers"),
        fits,
        loop,
    )
