"""A process of its own for everything that may hang, crash or poison a device; it can be thrown away.

It is started afresh, not forked: thread pools and CUDA do not survive a fork. And it is not
multiprocessing's: that would run the user's main script again.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import IO, Any, Protocol

from flashgen.errors import FlashgenError
from flashgen.tuning.sweep.trial import CRASH, HANG

_BOOT = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[2]); "
    "from flashgen.tuning.sweep.child import main; main(int(sys.argv[1]))"
)
_START_SECONDS = 60.0
_LAST_WORDS = 300


class Job(Protocol):
    """Work for a worker: picklable, and so is what it returns."""

    def run(self, kept: dict[str, Any]) -> Any:
        """Does the work. ``kept`` is the worker's memory, empty at first."""
        ...


class WorkerLostError(Exception):
    """The worker died or hung, and was ended.

    Attributes:
        kind: `CRASH` or `HANG`.
        reason: what is known about it, a sentence.
    """

    def __init__(self, kind: str, reason: str) -> None:
        super().__init__(reason)
        self.kind = kind
        self.reason = reason


class JobError(Exception):
    """A job raised what it should not have: a fault of flashgen, not of a plan. The text is the traceback."""


class Worker:
    """One child process, started on first use and again whenever it was lost."""

    def __init__(self, env: Mapping[str, str] | None = None) -> None:
        """Args: env: variables to set in the child, beside this process's own."""
        self._env = dict(env or {})
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: Connection[Any, Any] | None = None
        self._errors: IO[bytes] | None = None

    @property
    def running(self) -> bool:
        """Whether there is a process; its memory is lost with it."""
        return self._process is not None

    @property
    def connection(self) -> Connection[Any, Any]:
        """Readable once an answer (or the child's end) is there."""
        assert self._connection is not None
        return self._connection

    def send(self, job: Job) -> None:
        """Hands a job over; `receive` brings the answer.

        Raises:
            WorkerLostError: it died meanwhile.
        """
        if not self.running:
            self._start()
        try:
            self.connection.send(job)
        except OSError:
            raise self._lost() from None

    def receive(self, seconds: float) -> Any:
        """The answer to the job.

        Raises:
            WorkerLostError: none came in time, or the child died.
            FlashgenError: what the job raised.
            JobError: the job failed in a way that no plan can be blamed for.
        """
        try:
            if not self.connection.poll(max(seconds, 0.0)):
                self.end()
                raise WorkerLostError(HANG, f"it did not finish within {seconds:.0f} s, and was ended")
            answer, error = self.connection.recv()
        except (EOFError, ConnectionError):
            raise self._lost() from None
        if isinstance(error, FlashgenError):
            raise error
        if error is not None:
            raise JobError(error)
        return answer

    def ask(self, job: Job, seconds: float) -> Any:
        """`send` and `receive`."""
        self.send(job)
        return self.receive(seconds)

    def end(self) -> None:
        """Ends the process and whatever it started."""
        process, self._process = self._process, None
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        if process is not None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        if self._errors is not None:
            self._errors.close()
            self._errors = None

    def _start(self) -> None:
        ours, theirs = Pipe()
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 (it lives as long as the process)
        descriptor = theirs.fileno()
        command = [sys.executable, "-c", _BOOT, str(descriptor), json.dumps([str(entry) for entry in sys.path])]
        try:
            self._process = subprocess.Popen(
                command, env=os.environ | self._env, pass_fds=(descriptor,), stdin=subprocess.DEVNULL,
                stdout=self._errors, stderr=self._errors, start_new_session=True,
            )  # fmt: skip
        finally:
            theirs.close()
        self._connection = ours
        self.receive(_START_SECONDS)  # the child says that it is there

    def _lost(self) -> WorkerLostError:
        """The error for a child that died, with its last words."""
        process = self._process
        status = None if process is None else _status_of(process)
        words = self._last_words()
        self.end()
        how = "ended" if status is None else f"was killed by {_signal_name(-status)}" if status < 0 else (
            f"ended with status {status}"
        )  # fmt: skip
        return WorkerLostError(CRASH, f"its process {how}" + (f": {words}" if words else ""))

    def _last_words(self) -> str:
        if self._errors is None:
            return ""
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        return "".join(char for char in lines[-1] if char.isprintable())[:_LAST_WORDS] if lines else ""


def _status_of(process: subprocess.Popen[bytes]) -> int | None:
    """Its status; the pipe closes a moment before the process is gone."""
    deadline = time.monotonic() + 5.0
    while process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.005)
    return process.returncode


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
