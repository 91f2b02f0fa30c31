"""A plan's prediction: compile, ask ptxas, emulate a part of a call, check it, scale it, time it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from flashgen.errors import LaunchError
from flashgen.families import family_named
from flashgen.inspect.resources import KernelResources, complaints, resources
from flashgen.launch_plan import Geometry, LaunchPlan, resolve
from flashgen.pipeline import Built
from flashgen.pipes.machine import Machine, machine_of
from flashgen.spec import AttentionSpec
from flashgen.tuning.model.counts import Counts, Run, StepCounts, count_unit
from flashgen.tuning.model.parts import Layout, Problem, imbalance
from flashgen.tuning.model.predict import StepTime, Work, step_time
from flashgen.verification import Case, compare, expect, make_inputs

_SEED = 0


class WrongResultError(Exception):
    """The kernel does not compute attention; the text says where."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """What the model expects.

    Attributes:
        seconds: of the call.
        steps: of each launch.
        registers: of each launch's threads.
    """

    seconds: float
    steps: tuple[StepTime, ...]
    registers: tuple[int | None, ...]

    def as_dict(self) -> dict[str, Any]:
        """Plain data, for records."""
        return {"registers": list(self.registers), "steps": [step.as_dict() for step in self.steps]}


def resource_complaint(built: Built) -> str:
    """Why ptxas' numbers rule a kernel out: stack, spills, or no room for a single CTA; empty if nothing does."""
    found = resources(built.source, built.artifact, with_sass=False)
    said = list(complaints(found, built.source))
    for kernel in found:
        if kernel.occupancy is not None and kernel.occupancy.ctas == 0:
            said.append(f"{kernel.entry}: no CTA fits on a multiprocessor ({kernel.occupancy.limiter})")
    return "; ".join(said)


def predict(built: Built, problem: Problem) -> Prediction:
    """Predicts a kernel's time on its target's preset device.

    Raises:
        WrongResultError: the emulated result is wrong.
        LaunchError: the emulator found a fault.
        PtxError: it does not know an instruction.
    """
    source = built.source
    spec, plan = source.spec, source.plan
    launches = family_named(plan.family).launch_plan(spec, plan)
    machine = machine_of(source.target)
    geometry = _geometry(launches, spec, problem, machine)
    whole = Layout(spec, plan, problem)
    unit = _count(built, launches, whole, geometry.row_ranges)
    found = resources(source, built.artifact, with_sass=False)
    launched = [step for step, _ in geometry.launches(launches)]
    steps = tuple(
        step_time(_work(counts, grid, kernel, whole, geometry, problem, spec, machine), kernel, machine)
        for step, counts, grid, kernel in zip(launches.steps, unit, geometry.grids, found, strict=True)
        if step in launched
    )
    return Prediction(sum(step.seconds for step in steps), steps, tuple(kernel.registers for kernel in found))


def _count(built: Built, launches: LaunchPlan, whole: Layout, ranges: int) -> list[Counts]:
    """Counts of one whole unit, from a part of it, and another part.

    What a kernel does is so much whenever a CTA begins with a tile of query rows, and so much for each pair of a query
    tile and a key tile that it visits: two parts of different proportions tell both.
    """
    parts = whole.parts(ranges)
    if len(parts) > 1:  # they have no tails, so somebody else must be right there
        _emulate(built, launches, whole.tail(), 1)
    runs = []
    for part, its_ranges in parts:
        run = _emulate(built, launches, part, its_ranges)
        runs.append((part.starts(its_ranges), sum(part.visits), [counts.flat for counts in run.steps]))
    target = whole.starts(ranges), sum(whole.visits)
    return [
        _extrapolated(target, [(starts, visits, steps[i]) for starts, visits, steps in runs])
        for i in range(len(launches.steps))
    ]


def _extrapolated(whole: tuple[int, int], parts: list[tuple[int, int, Counts]]) -> Counts:
    """Solves count = a * starts + b * visits for two parts, and puts the whole in."""
    starts, visits = whole
    starts_1, visits_1, counts_1 = parts[0]
    if len(parts) == 1:
        return counts_1
    starts_2, visits_2, counts_2 = parts[1]
    determinant = starts_1 * visits_2 - starts_2 * visits_1
    found = {}
    for name, count in counts_1.items():
        if determinant:
            each_visit = (starts_1 * counts_2.get(name, 0) - starts_2 * count) / determinant
            each_visit = min(max(each_visit, 0.0), count / visits_1)
        else:
            each_visit = count / visits_1
        found[name] = (count - each_visit * visits_1) / starts_1 * starts + each_visit * visits
    return found


def _geometry(launches: LaunchPlan, spec: AttentionSpec, problem: Problem, machine: Machine) -> Geometry:
    p = problem
    rows, keys = p.heads * p.seqlen_q, p.heads_kv * p.seqlen_k
    strides = tuple(
        (heads_rows * dim, length * dim, dim)
        for heads_rows, length, dim in (
            (rows, p.seqlen_q, spec.head_dim),
            (keys, p.seqlen_k, spec.head_dim),
            (keys, p.seqlen_k, spec.head_dim_v),
            (rows, p.seqlen_q, spec.head_dim_v),
        )
    )
    return resolve(launches, p.sizes, strides, machine.sms)


def _emulate(built: Built, launches: LaunchPlan, part: Layout, row_ranges: int) -> Run:
    if "ptx" not in built.artifact.paths:
        raise LaunchError("There is no PTX to emulate.")
    spec, p = built.source.spec, part.problem
    name = f"Sq={p.seqlen_q} Sk={p.seqlen_k}, emulated"
    case = Case(name, *p.sizes, spec.head_dim, spec.head_dim_v)
    inputs = make_inputs(case, spec, _SEED)
    run = count_unit(built.artifact.paths["ptx"].read_bytes(), spec, launches, inputs, row_ranges)
    result = compare(spec, case, expect(spec, case, inputs), run.out, run.lse)
    if not result.passed:
        raise WrongResultError(f"{name}: {result.reason}")
    return run


def _work(
    unit: Counts,
    grid: tuple[int, int, int],
    kernel: KernelResources,
    whole: Layout,
    geometry: Geometry,
    problem: Problem,
    spec: AttentionSpec,
    machine: Machine,
) -> Work:
    units, ctas = whole.units(problem), grid[0] * grid[1] * grid[2]
    weights, resident = whole.weights(geometry.row_ranges), kernel.occupancy.ctas if kernel.occupancy else 1
    uneven = imbalance(weights, units, machine.sms, resident) if len(weights) * units == ctas else 1.0
    counts = StepCounts.of({name: count * units for name, count in unit.items()})
    return Work(counts, ctas, uneven, _array_bytes(problem, spec, geometry))


def _array_bytes(problem: Problem, spec: AttentionSpec, geometry: Geometry) -> dict[str, int]:
    size, rows = spec.dtype.size, problem.batch * problem.heads * problem.seqlen_q
    keys = problem.batch * problem.heads_kv * problem.seqlen_k
    return {
        "q": rows * spec.head_dim * size,
        "k": keys * spec.head_dim * size,
        "v": keys * spec.head_dim_v * size,
        "out": rows * spec.head_dim_v * size,
        "workspace": geometry.workspace_bytes,
    }
