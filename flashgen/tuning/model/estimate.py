"""A plan's prediction: compile, ask ptxas, emulate a part of one head, check it, scale it, time it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from flashgen.errors import LaunchError
from flashgen.families import family_named
from flashgen.inspect.io_emulated import random_head
from flashgen.inspect.io_kernel import Sizes
from flashgen.inspect.resources import complaints, resources
from flashgen.launch_plan import Geometry, LaunchPlan, resolve
from flashgen.pipeline import Built
from flashgen.pipes.machine import Machine, machine_of
from flashgen.spec import AttentionSpec, Causal
from flashgen.tile_plan import TilePlan
from flashgen.tuning.model.counts import Counts, Run, StepCounts, count_head
from flashgen.tuning.model.predict import StepTime, Work, step_time
from flashgen.verification import Case, Inputs, compare, expect

_EMULATED = 512  # query rows and keys that are emulated, or a few tiles if those are larger
_TILES = 2


class WrongResultError(Exception):
    """The kernel does not compute attention; the text says where."""


@dataclass(frozen=True, slots=True)
class Problem:
    """A call, for the model: batch, num_heads, num_heads_kv, seqlen_q, seqlen_k."""

    batch: int
    heads: int
    heads_kv: int
    seqlen_q: int
    seqlen_k: int

    @property
    def sizes(self) -> tuple[int, int, int, int, int]:
        """As launch plans take them."""
        return self.batch, self.heads, self.heads_kv, self.seqlen_q, self.seqlen_k


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
    head = _count(built, launches, geometry, problem)
    found = resources(source, built.artifact, with_sass=False)
    steps = tuple(
        step_time(_work(counts, grid, geometry, problem, spec, plan), kernel, machine)
        for counts, grid, kernel in zip(head, geometry.grids, found, strict=True)
    )
    return Prediction(sum(step.seconds for step in steps), steps, tuple(kernel.registers for kernel in found))


def _count(built: Built, launches: LaunchPlan, geometry: Geometry, problem: Problem) -> list[Counts]:
    """Counts of one whole head, from a part of it, and a part of that.

    What a kernel does is so much for each block of query rows, and so much for each pair of a query tile and a key
    tile that it visits: two parts of different proportions tell both.
    """
    spec, plan = built.source.spec, built.source.plan
    sizes = [(problem.seqlen_q, problem.seqlen_k)]
    part = _part(problem, plan)
    if part != sizes[0]:
        sizes = [part, (max(part[0] // 2, 1), max(part[1] // 2, 1))]
    runs = []
    for seqlen_q, seqlen_k in sizes:
        one = Problem(1, 1, 1, seqlen_q, seqlen_k)
        run = _emulate(built, spec, plan, launches, one, _ranges(geometry, problem, one, plan))
        runs.append((_blocks(one, plan), _visits(one, spec, plan), [counts.flat for counts in run.steps]))
    whole = _blocks(problem, plan), _visits(problem, spec, plan)
    return [
        _extrapolated(whole, [(blocks, visits, steps[i]) for blocks, visits, steps in runs])
        for i in range(len(runs[0][2]))
    ]


def _extrapolated(whole: tuple[int, int], parts: list[tuple[int, int, Counts]]) -> Counts:
    """Solves count = a * blocks + b * visits for two parts, and puts the whole in."""
    blocks, visits = whole
    blocks_1, visits_1, counts_1 = parts[0]
    if len(parts) == 1:
        return counts_1
    blocks_2, visits_2, counts_2 = parts[1]
    determinant = blocks_1 * visits_2 - blocks_2 * visits_1
    found = {}
    for name, count in counts_1.items():
        if determinant:
            each_visit = (blocks_1 * counts_2.get(name, 0) - blocks_2 * count) / determinant
            each_visit = min(max(each_visit, 0.0), count / visits_1)
        else:
            each_visit = count / visits_1
        found[name] = (count - each_visit * visits_1) / blocks_1 * blocks + each_visit * visits
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


def _part(problem: Problem, plan: TilePlan) -> tuple[int, int]:
    """Query rows and keys of a part of one head that is quick to emulate and has several tiles each way."""
    queries = min(problem.seqlen_q, max(_EMULATED, _TILES * plan.br))
    return queries, min(problem.seqlen_k, max(_EMULATED, _TILES * plan.bc))


def _ranges(geometry: Geometry, problem: Problem, part: Problem, plan: TilePlan) -> int:
    """As many row ranges for the part that one of them has as many row blocks as in the whole."""
    blocks = _blocks(part, plan)
    return max(1, min(blocks, round(geometry.row_ranges * blocks / _blocks(problem, plan))))


def _emulate(
    built: Built, spec: AttentionSpec, plan: TilePlan, launches: LaunchPlan, part: Problem, row_ranges: int
) -> Run:
    if "ptx" not in built.artifact.paths:
        raise LaunchError("There is no PTX to emulate.")
    q, k, v = random_head(spec, Sizes(1, 1, part.seqlen_q, part.seqlen_k))
    run = count_head(built.artifact.paths["ptx"].read_bytes(), spec, launches, q, k, v, row_ranges)
    name = f"Sq={part.seqlen_q} Sk={part.seqlen_k}, emulated"
    case = Case(name, 1, 1, 1, part.seqlen_q, part.seqlen_k, spec.head_dim, spec.head_dim_v, values="emulated")
    one = (None, None)
    expected = expect(spec, case, Inputs(q[one], k[one], v[one], None))
    result = compare(spec, case, expected, run.out[one], run.lse[one])
    if not result.passed:
        raise WrongResultError(f"{name}: {result.reason}")
    return run


def _blocks(problem: Problem, plan: TilePlan) -> int:
    return -(-problem.seqlen_q // plan.br)


def _visits(problem: Problem, spec: AttentionSpec, plan: TilePlan) -> int:
    """How many pairs of a query tile and a key tile one head visits under the mask."""
    total = 0
    for first in range(0, problem.seqlen_q, plan.br):
        last = min(first + plan.br, problem.seqlen_q) - 1
        seen = problem.seqlen_k
        if spec.causal is not Causal.NONE:
            offset = problem.seqlen_k - problem.seqlen_q if spec.causal is Causal.BOTTOM_RIGHT else 0
            seen = min(max(last + 1 + offset, 0), problem.seqlen_k)
        total += max(-(-seen // plan.bc), 1)
    return total


def _work(
    head: Counts,
    grid: tuple[int, int, int],
    geometry: Geometry,
    problem: Problem,
    spec: AttentionSpec,
    plan: TilePlan,
) -> Work:
    heads = problem.batch * problem.heads
    counts = StepCounts.of({name: count * heads for name, count in head.items()})
    blocks = _blocks(problem, plan)
    imbalance = -(-blocks // geometry.row_ranges) / (blocks / geometry.row_ranges) if geometry.row_ranges > 1 else 1.0
    return Work(counts, grid[0] * grid[1] * grid[2], imbalance, _array_bytes(problem, spec, geometry))


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
