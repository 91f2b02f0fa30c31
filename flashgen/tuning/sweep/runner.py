"""Runners: how a plan gets its turn. The real one works through processes that can be lost."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar, Protocol

from flashgen.pipeline import Built
from flashgen.runtime.openmp import thread_pool
from flashgen.spec import AttentionSpec
from flashgen.target import Target
from flashgen.tuning.sweep.bench import Tools
from flashgen.tuning.sweep.jobs import CompileJob, OpenJob, TurnJob
from flashgen.tuning.sweep.pool import Pool
from flashgen.tuning.sweep.shape import Shape
from flashgen.tuning.sweep.space import Candidate
from flashgen.tuning.sweep.trial import Failure
from flashgen.tuning.sweep.worker import Worker, WorkerLostError

COMPILE_LIMIT = 120.0
_FIRST_LIMIT = 120.0
_OPEN_LIMIT = 300.0
_LEAST_LIMIT, _PATIENCE = 10.0, 5.0


class Runner(Protocol):
    """Prepares plans and times them. Time is the runner's own, so that a replay takes none."""

    how: ClassVar[str]

    def now(self) -> float:
        """Seconds on a clock that only moves forward."""
        ...

    def prepare(self, candidates: Sequence[Candidate], until: float) -> Iterator[tuple[Candidate, Failure | None]]:
        """Compiles ahead, several at once. Yields what is ready or has failed; what there was no time for is left out.

        Args:
            candidates: in the order of interest.
            until: begin nothing after this `now`.
        """
        ...

    def turn(self, candidate: Candidate) -> float | Failure:
        """Seconds of one call of a prepared plan, measured alone; or why there is no such number."""
        ...

    def renew(self) -> None:
        """Measures in another process from now on, where memory lies elsewhere."""
        ...

    def close(self) -> None:
        """Ends its processes."""
        ...


class Compiler:
    """Compiles plans ahead on a pool of workers, and remembers them: shapes share their kernels."""

    def __init__(self, spec: AttentionSpec, target: Target, tools: Tools, jobs: int) -> None:
        """Args: jobs: how many plans to compile at once."""
        self._spec = spec
        self._target = target
        self._tools = tools
        self._pool = Pool(jobs, child_environment())
        self.built: dict[str, Built] = {}
        self.failures: dict[str, Failure] = {}

    def compile(self, candidates: Sequence[Candidate], until: float) -> Iterator[tuple[Candidate, Failure | None]]:
        """See `Runner.prepare`."""
        todo = []
        for candidate in candidates:
            if candidate.key in self.built or candidate.key in self.failures:
                yield candidate, self.failures.get(candidate.key)
            else:
                todo.append((candidate, CompileJob(self._spec, candidate.plan, self._target, self._tools)))
        for candidate, answer in self._pool.run(todo, until=until, limit=COMPILE_LIMIT):
            if isinstance(answer, Failure):
                self.failures[candidate.key] = answer
                yield candidate, answer
            else:
                self.built[candidate.key] = answer
                yield candidate, None

    def close(self) -> None:
        """Ends the workers."""
        self._pool.close()


class WorkerRunner:
    """Times kernels in one worker, which is replaced as soon as anything went wrong in it."""

    how: ClassVar[str] = "measured"

    def __init__(self, spec: AttentionSpec, shape: Shape, target: Target, tools: Tools, compiler: Compiler) -> None:
        """Args: compiler: what prepares the plans; the caller closes it."""
        self._open = OpenJob(spec, shape, target, tools)
        self._compiler = compiler
        self._worker = Worker(child_environment())
        self._limit = _FIRST_LIMIT
        self._timed = False

    def now(self) -> float:
        """The monotonic clock."""
        return time.monotonic()

    def prepare(self, candidates: Sequence[Candidate], until: float) -> Iterator[tuple[Candidate, Failure | None]]:
        """See `Runner`."""
        return self._compiler.compile(candidates, until)

    def turn(self, candidate: Candidate) -> float | Failure:
        """See `Runner`. A plan that takes several times as long as the first one did is taken for hanging."""
        start = time.monotonic()
        try:
            if not self._worker.running:
                self._worker.ask(self._open, _OPEN_LIMIT)
                start = time.monotonic()
            answer: float | Failure = self._worker.ask(TurnJob(self._compiler.built[candidate.key]), self._limit)
        except WorkerLostError as lost:
            return Failure(lost.kind, lost.reason)
        if isinstance(answer, Failure):
            self._worker.end()  # it may have left memory or a device in any state
        elif not self._timed:
            self._timed = True
            self._limit = _LEAST_LIMIT + _PATIENCE * (time.monotonic() - start)
        return answer

    def renew(self) -> None:
        """See `Runner`: the worker starts again with the next turn."""
        self._worker.end()

    def close(self) -> None:
        """Ends the worker."""
        self._worker.end()


def child_environment() -> Mapping[str, str]:
    """As many kernel threads as here, and no threads of NumPy's beside them."""
    single = dict.fromkeys(("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    return single | {"OMP_NUM_THREADS": str(thread_pool().max_threads())}


def default_jobs() -> int:
    """One for each CPU that this process may use."""
    return len(os.sched_getaffinity(0))
