"""One OS lock on one file. It dies with its holder, so a killed build never blocks the next one."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator
from pathlib import Path

import filelock


@contextlib.contextmanager
def hold(path: Path, seconds: float) -> Iterator[bool]:
    """Holds the lock; yields False, holding nothing, where the file system has no locks.

    Threads of one process exclude each other too. Whoever holds the lock may remove its file.

    Raises:
        TimeoutError: somebody else holds it and did not let go for so many seconds.
        OSError: the file cannot be made.
    """
    # Not the library's soft locks, which it falls back to otherwise: they outlive a holder that is killed.
    lock = filelock.FileLock(path, timeout=seconds, mode=0o600, poll_interval=0.01, fallback_to_soft=False)
    try:
        lock.acquire()
    except filelock.Timeout:
        raise TimeoutError(errno.ETIMEDOUT, "another process holds its lock", str(path)) from None
    except NotImplementedError:
        yield False
        return
    except OSError as error:
        if error.errno not in (errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK):
            raise
        yield False
        return
    try:
        yield True
    finally:
        lock.release()
