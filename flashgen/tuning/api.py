"""`flashgen.autotune`: plain arguments in, a TuneResult out."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

from flashgen.api import forget_built
from flashgen.choice import choose
from flashgen.compilation.lock import hold
from flashgen.errors import SpecError
from flashgen.families import family_named, serving
from flashgen.log import logger
from flashgen.runtime.device import limits_of, resolve_target, runs_here
from flashgen.spec import CausalArgument, make_spec
from flashgen.tuning.records.directory import sweep_lock
from flashgen.tuning.records.validity import place_of, validity_here
from flashgen.tuning.sweep.bench import Tools
from flashgen.tuning.sweep.book import Book
from flashgen.tuning.sweep.conclusion import Task
from flashgen.tuning.sweep.pool import Pool
from flashgen.tuning.sweep.predictor import predict_shape
from flashgen.tuning.sweep.progress import WAITING, Progress, Tell, silent
from flashgen.tuning.sweep.request import DIFFERENCE, Request
from flashgen.tuning.sweep.result import ShapeResult, TuneResult
from flashgen.tuning.sweep.runner import Compiler, WorkerRunner, default_jobs
from flashgen.tuning.sweep.shape import Shape
from flashgen.tuning.sweep.space import Space, make_space
from flashgen.tuning.sweep.strategy import strategy_named
from flashgen.tuning.sweep.tuner import tune_shape
from flashgen.units import parse_bytes

SECONDS = 60.0
_LOCK_SECONDS = 24 * 3600.0

Length = int | tuple[int, int]


def autotune(
    d: int,
    dtype: str = "fp16",
    seqlens: int | Sequence[Length] = 1024,
    *,
    batch: int = 1,
    heads: int = 8,
    heads_kv: int | None = None,
    causal: CausalArgument = False,
    target: str = "auto",
    algorithm: str = "auto",
    sram: str | int | None = None,
    d_v: int | None = None,
    strategy: str = "halving",
    time_limit: float = SECONDS,
    jobs: int | None = None,
    difference: float = DIFFERENCE,
    fresh: bool = False,
    seed: int = 0,
    progress: Tell = silent,
    tools: Tools | None = None,
) -> TuneResult:
    """Measures the plans of a kernel family on this machine; later builds use what was found.

    Every plan is compiled ahead, checked against float64, and timed in turn with the others, in a process that is
    replaced when a plan hangs or crashes. The default plan is replaced only by one that beats it by more than the
    noise. What was measured is kept, so a sweep that was interrupted goes on where it was.

    Args:
        d: head dim of q and k.
        dtype: ``fp16``, ``bf16``, ``fp32`` or ``fp64``.
        seqlens: a length to tune for, or several; in a list a pair is (query rows, keys).
        batch: of the calls that are timed.
        heads: query heads of them.
        heads_kv: key and value heads; as many if None.
        causal: see `flashgen.plan`.
        target: see there. A CUDA target that no GPU here runs is ranked by a model, and the result says so.
        algorithm: see there; `auto` tunes the family that builds use.
        sram: budget that plans must keep to. The record serves builds with the same budget.
        d_v: head dim of v; d if None.
        strategy: ``halving``, ``exhaustive`` or ``random``.
        time_limit: seconds for the whole sweep, all lengths together. Waiting for another sweep does not count.
        jobs: how many plans to compile at once; one for each CPU if None.
        difference: share of the time from which on a difference matters.
        fresh: forget what was measured before.
        seed: of the ``random`` strategy.
        progress: is told how it goes.
        tools: replace compiler, loader or clock.

    Raises:
        SpecError: the request makes no sense, or cannot be measured here.
        TuneError: every plan failed; ``trials`` says why each did.
        ToolchainError: there is no compiler.
    """
    request = make_request(d, dtype, causal, d_v, target, algorithm, sram, difference)
    measured = runs_here(request.target)
    if not measured and request.target.kind == "cpu":
        raise SpecError(f"This machine cannot run {request.target}, so its plans cannot be measured here.")
    strategy_named(strategy)  # a wrong name is told before anything is done
    if not isinstance(time_limit, int | float) or not time_limit > 0:
        raise SpecError(f"time_limit={time_limit!r} must be a positive number of seconds.")
    lengths = [seqlens] if isinstance(seqlens, int) else seqlens
    shapes = [make_shape(length, batch, heads, heads_kv) for length in lengths]
    if not shapes:
        raise SpecError("seqlens is empty: name at least one length.")
    tools = tools or Tools()
    jobs = jobs or default_jobs()
    validity = validity_here(request.target, tools.toolchain)
    results: list[ShapeResult] = []
    with _alone(shapes[0], progress), contextlib.ExitStack() as stack:
        compiler = stack.enter_context(contextlib.closing(Compiler(request.spec, request.target, tools, jobs)))
        pool = stack.enter_context(contextlib.closing(Pool(jobs)))
        deadline = time.monotonic() + time_limit
        for number, shape in enumerate(shapes):
            own, space = space_for(request, algorithm, shape)
            seconds = max(deadline - time.monotonic(), 0.0) / (len(shapes) - number)
            task = Task(own, shape, space, validity, place_of(validity), seconds)
            book = Book(own, shape, space, validity, fresh=fresh)
            if measured:
                runner = WorkerRunner(request.spec, shape, request.target, tools, compiler)
                with contextlib.closing(runner):
                    results.append(tune_shape(task, runner, strategy_named(strategy, seed), book, progress))
            else:
                results.append(predict_shape(task, pool, tools, book, progress))
    forget_built()
    return TuneResult(request, tuple(results))


def make_request(
    d: int,
    dtype: str,
    causal: CausalArgument,
    d_v: int | None,
    target: str,
    algorithm: str,
    sram: str | int | None,
    difference: float = DIFFERENCE,
) -> Request:
    """The subject of a sweep from plain arguments; see `autotune`."""
    spec, where = make_spec(d, dtype, causal, d_v), resolve_target(target)
    if not 0 < difference < 1:
        raise SpecError(f"difference={difference!r} must be a share between 0 and 1, such as 0.01.")
    family = serving(spec, where, algorithm)[0]
    return Request(spec, where, family, None if sram is None else parse_bytes(sram), difference)


def make_shape(length: Length, batch: int, heads: int, heads_kv: int | None) -> Shape:
    """A shape from plain arguments.

    Raises:
        SpecError: a size is not positive, or heads_kv does not divide heads.
    """
    seqlen_q, seqlen_k = length if isinstance(length, tuple) else (length, length)
    shape = Shape(batch, heads, heads_kv or heads, seqlen_q, seqlen_k)
    for name, size in shape.as_dict().items():
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise SpecError(f"{name}={size!r} must be a positive whole number.")
    if shape.heads % shape.heads_kv:
        raise SpecError(f"heads_kv={shape.heads_kv} must divide heads={shape.heads}.")
    return shape


def space_for(request: Request, algorithm: str, shape: Shape) -> tuple[Request, Space]:
    """What there is to choose from for a shape: of the family that serves it in a build, which the request gets."""
    spec, target, budget = request.spec, request.target, request.sram_bytes
    choice = choose(spec, target, algorithm, budget)
    default = choice.plans[choice.untuned_class(shape.problem)]
    family = family_named(default.family)
    return replace(request, family=family), make_space(family, spec, target, limits_of(target), default, budget)


@contextlib.contextmanager
def _alone(first: Shape, progress: Tell) -> Iterator[None]:
    """Lets one sweep at a time run on this machine: side by side they would measure each other."""
    try:
        path = sweep_lock()
    except OSError as error:  # the records will say so, too
        logger.debug("no lock for sweeps: %s", error)
        yield
        return
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(hold(path, 0.0))
        except TimeoutError:
            progress(Progress(first.label, WAITING, 0, 0, 0, "", 1.0, 0.0))
            stack.enter_context(hold(path, _LOCK_SECONDS))
        yield
