"""The thread pool of CPU kernels: libgomp's, the one that torch on Linux uses as well.

Kernels contain no OpenMP pragmas. They are handed the address of GOMP_parallel, taken from the libgomp
that is in the process already, so that there is one pool, torch.set_num_threads is obeyed, and a kernel
is the same whether g++ or clang++ compiled it.
"""

from __future__ import annotations

import ctypes
import os
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_forked = False


def _note_fork() -> None:
    global _forked  # noqa: PLW0603 (a process-wide fact, set once in a forked child)
    _forked = True


# libgomp's threads do not survive a fork, and its next parallel region would wait for them for ever.
os.register_at_fork(after_in_child=_note_fork)


@dataclass(frozen=True, slots=True)
class ThreadPool:
    """Entry points of the libgomp in this process; ``parallel`` is 0 when there is none."""

    parallel: int
    library: str
    _omp_get_max_threads: ctypes._NamedFuncPointer | None

    def max_threads(self) -> int:
        """Threads to use now: OMP_NUM_THREADS and torch.set_num_threads count; 1 in a forked child."""
        if _forked or self._omp_get_max_threads is None:
            return 1
        return int(self._omp_get_max_threads())


def thread_pool() -> ThreadPool:
    """The pool to use; torch may bring its own libgomp, so it is looked up anew once torch is there."""
    return _thread_pool("torch" in sys.modules)


@cache
def _thread_pool(with_torch: bool) -> ThreadPool:
    for name in [*_loaded_libgomp(), "libgomp.so.1"]:
        try:
            library = ctypes.CDLL(name)
            address = ctypes.cast(library.GOMP_parallel, ctypes.c_void_p).value or 0
            return ThreadPool(address, name, library.omp_get_max_threads)
        except (OSError, AttributeError):
            continue
    return ThreadPool(0, "", None)


def _loaded_libgomp() -> list[str]:
    """Paths of the libgomp copies in this process."""
    try:
        maps = Path("/proc/self/maps").read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return []
    return libgomp_paths(maps)


def libgomp_paths(maps: str) -> list[str]:
    """Paths of libgomp in a /proc/PID/maps, torch's own first.

    Wheels bundle copies under hashed names, so there may be several, each with threads of its own.
    """
    paths = (line.split(maxsplit=5)[-1] for line in maps.splitlines() if "libgomp" in line)
    found = dict.fromkeys(path for path in paths if Path(path).name.startswith("libgomp"))
    return sorted(found, key=lambda path: "/torch/" not in path and "/torch.libs/" not in path)
