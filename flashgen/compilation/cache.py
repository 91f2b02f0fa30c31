"""Which store to use: the user's cache, or a private temporary one when that cannot be had."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from pathlib import Path

import platformdirs

from flashgen.compilation.store import Store, open_directory
from flashgen.errors import ToolchainError
from flashgen.log import warn_once
from flashgen.settings import read_settings

_private: dict[int, Path] = {}  # by process: a forked child must not share, nor remove, its parent's


def cache_directory() -> Path:
    """The user's cache directory, or FLASHGEN_CACHE_DIR."""
    chosen = read_settings().cache_dir
    return Path(chosen).absolute() if chosen else Path(platformdirs.user_cache_dir("flashgen"))


def open_store() -> Store:
    """The store in the user's cache; if that is unusable, a private temporary one, said once.

    Raises:
        ToolchainError: no directory at all can be used.
    """
    try:
        return open_directory(cache_directory() / "artifacts")
    except ToolchainError as error:
        warn_once(f"{error} Kernels of this process are built in a temporary directory instead.")
        return private_store()


def private_store() -> Store:
    """A store of this process alone, removed when it ends.

    Raises:
        ToolchainError: there is no temporary directory either, or it forbids execution.
    """
    pid = os.getpid()
    try:
        if pid not in _private:
            _private[pid] = Path(tempfile.mkdtemp(prefix="flashgen-"))
            atexit.register(_remove, pid)
        return open_directory(_private[pid])
    except (OSError, ToolchainError) as error:
        raise ToolchainError(
            f"There is no directory to build kernels in: {error} "
            "Set FLASHGEN_CACHE_DIR to a directory of yours that allows execution."
        ) from error


def _remove(pid: int) -> None:
    if pid == os.getpid():
        shutil.rmtree(_private[pid], ignore_errors=True)
