"""The inside of a worker process: takes a job, does it, answers, until its parent is gone."""

from __future__ import annotations

import ctypes
import resource
import signal
import traceback
from multiprocessing.connection import Connection
from typing import Any

from flashgen.errors import FlashgenError

_PR_SET_PDEATHSIG = 1


def main(descriptor: int) -> None:
    """Serves jobs from a connection's file descriptor."""
    _be_expendable()
    connection: Connection[Any, Any] = Connection(descriptor)
    kept: dict[str, Any] = {}
    answer: tuple[Any, FlashgenError | str | None] = (None, None)  # the first one says that the child is there
    while True:
        try:
            connection.send(answer)
            job = connection.recv()
        except (EOFError, OSError):
            return
        try:
            answer = (job.run(kept), None)
        except FlashgenError as error:
            answer = (None, error)
        except Exception:  # told to the parent, which raises it
            answer = (None, traceback.format_exc())


def _be_expendable() -> None:
    """Dies with its parent, leaves no core dump, and lets the parent decide what Ctrl-C means."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
