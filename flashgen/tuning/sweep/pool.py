"""Several workers at once, for work whose time nobody measures: compiling, predicting."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Hashable, Iterator, Mapping, Sequence
from multiprocessing.connection import wait
from typing import Any, TypeVar

from flashgen.tuning.sweep.trial import HANG, Failure
from flashgen.tuning.sweep.worker import Job, Worker, WorkerLostError

Key = TypeVar("Key", bound=Hashable)


class Pool:
    """Runs jobs on several workers. A worker that dies takes only its job along."""

    def __init__(self, size: int, env: Mapping[str, str] | None = None) -> None:
        """Args: size: workers; they start when there is work. env: variables to set in them."""
        self._workers = [Worker(env) for _ in range(size)]

    def run(self, jobs: Sequence[tuple[Key, Job]], *, until: float, limit: float) -> Iterator[tuple[Key, Any]]:
        """Yields (key, answer) as jobs finish; a job that hangs or crashes gives a `Failure`.

        Args:
            jobs: what to do, in this order.
            until: a `time.monotonic`; no job is begun after it (the first one always is).
            limit: seconds that a job may take.
        """
        waiting, idle = deque(jobs), deque(self._workers)
        busy: dict[Worker, tuple[Key, float]] = {}
        begun = False
        try:
            while waiting or busy:
                while waiting and idle and (not begun or time.monotonic() < until):
                    key, job = waiting.popleft()
                    worker = idle.popleft()
                    begun = True
                    try:
                        worker.send(job)
                        busy[worker] = (key, time.monotonic() + limit)
                    except WorkerLostError as lost:
                        idle.append(worker)
                        yield key, Failure(lost.kind, lost.reason)
                if not busy:
                    return
                for worker in self._finished(busy):
                    key, _ = busy.pop(worker)
                    idle.append(worker)
                    yield key, _answer(worker, limit)
        finally:
            for worker in busy:  # the caller lost interest: their answers would be taken for other jobs'
                worker.end()

    def close(self) -> None:
        """Ends all workers."""
        for worker in self._workers:
            worker.end()

    @staticmethod
    def _finished(busy: Mapping[Worker, tuple[Any, float]]) -> list[Worker]:
        """Workers that have answered, died, or are past their limit."""
        patience = min(deadline for _, deadline in busy.values()) - time.monotonic()
        ready = set(wait([worker.connection for worker in busy], timeout=max(patience, 0.0)))
        now = time.monotonic()
        return [worker for worker, (_, deadline) in busy.items() if worker.connection in ready or now >= deadline]


def _answer(worker: Worker, limit: float) -> Any:
    try:
        if worker.connection.poll():
            return worker.receive(1.0)
        worker.end()
        return Failure(HANG, f"it did not finish within {limit:.0f} s, and was ended")
    except WorkerLostError as lost:
        return Failure(lost.kind, lost.reason)
