"""Which store to use: the user's cache, or a private temporary one when that cannot be had."""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import threading
from pathlib import Path

import platformdirs

from flashgen.compilation.store import Store, open_directory
from flashgen.errors import ToolchainError
from flashgen.log import warn_once
from flashgen.settings import read_settings

_private: list[Path] = []  # the temporary directory of this process, once there is one
_lock = threading.Lock()


def _start_afresh() -> None:
    """A forked child neither shares nor removes its parent's directory, nor waits for its threads."""
    global _lock  # noqa: PLW0603 (a thread of the parent may hold it, for ever)
    _private.clear()
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_start_afresh)


def cache_directory() -> Path:
    """FLASHGEN_CACHE_DIR, or the user's cache directory; a relative path if that cannot be told."""
    chosen = read_settings().cache_dir
    if not chosen:
        return _user_cache()
    path = Path(os.path.expanduser(chosen))
    try:
        return path if chosen.startswith("~") else path.absolute()
    except FileNotFoundError:  # the working directory was removed
        return path


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
    try:
        with _lock:
            if not (_private and _private[0].is_dir()):
                _private[:] = [_make_temporary()]
            return open_directory(_private[0])
    except (OSError, ToolchainError) as error:
        raise no_directory(error) from error


def no_directory(reason: Exception) -> ToolchainError:
    """The error for when nothing is left to try."""
    why = reason.strerror if isinstance(reason, OSError) and reason.strerror else str(reason)
    return ToolchainError(
        f"There is no directory to build kernels in: {why.rstrip('.')}. "
        "Set FLASHGEN_CACHE_DIR to a directory of yours that has room and allows execution."
    )


def _user_cache() -> Path:
    try:
        return Path(platformdirs.user_cache_dir("flashgen"))
    except RuntimeError:  # neither HOME nor a passwd entry
        return Path("~/.cache/flashgen")


def _make_temporary() -> Path:
    import tempfile  # hardly ever needed

    directory = Path(tempfile.mkdtemp(prefix="flashgen-"))
    atexit.register(_remove)
    if "multiprocessing.util" in sys.modules:  # its workers end without calling atexit's functions
        from multiprocessing.util import Finalize

        Finalize(None, _remove, exitpriority=0)
    return directory


def _remove() -> None:
    for directory in _private:
        shutil.rmtree(directory, ignore_errors=True)
