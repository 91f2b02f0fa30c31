"""The artifact store: a directory of compiled kernels that many processes share.

Layout, for a key ``ab12...``::

    <cache>/artifacts/ab12....so     the files, one for each suffix
    <cache>/artifacts/ab12....json   written last: their checksums, the log, the report
    <cache>/artifacts/ab12....lock   an OS lock, which dies with its holder

An entry counts only if its JSON is whole and every checksum matches, so a killed writer leaves nothing
that could be loaded. Files appear by rename, so a reader never sees half of one.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import filelock

from flashgen.compilation.artifact import Artifact, Compiled
from flashgen.errors import ToolchainError
from flashgen.log import logger

_LOCK_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class Store:
    """Artifacts in one directory that only this user can write."""

    directory: Path

    def get(self, key: str) -> Artifact | None:
        """The entry, or None if it is missing, damaged or not this user's."""
        try:
            meta = json.loads(self._path(key, "json").read_bytes())
            paths = {suffix: self._path(key, suffix) for suffix in meta["files"]}
            if not paths or not all(_intact(paths[s], digest) for s, digest in meta["files"].items()):
                return None
            toolchain = tuple((str(label), str(value)) for label, value in meta["toolchain"])
            return Artifact(key, paths, toolchain, dict(meta["report"]), str(meta["log"]), cache_hit=True)
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            logger.debug("store: no usable entry %s (%s)", key[:12], error)
            return None

    def put(self, key: str, compiled: Compiled, toolchain: tuple[tuple[str, str], ...]) -> Artifact:
        """Writes an entry, replacing any damaged one. Raises OSError if the directory gives out."""
        for suffix, contents in compiled.files.items():
            self._replace(self._path(key, suffix), contents)
        meta: Mapping[str, Any] = {
            "files": {s: hashlib.sha256(c).hexdigest() for s, c in compiled.files.items()},
            "toolchain": toolchain,
            "report": compiled.report,
            "log": compiled.log,
        }
        self._replace(self._path(key, "json"), json.dumps(meta, indent=1).encode())
        paths = {suffix: self._path(key, suffix) for suffix in compiled.files}
        return Artifact(key, paths, toolchain, dict(compiled.report), compiled.log, cache_hit=False)

    @contextmanager
    def locked(self, key: str) -> Iterator[None]:
        """Holds the key's lock.

        Where the file system has no locks, goes on without one: entries stay whole all the same, and the
        only loss is that two processes may compile the same kernel.
        """
        lock = filelock.FileLock(self._path(key, "lock"), timeout=_LOCK_SECONDS)
        try:
            lock.acquire()
        except (filelock.Timeout, NotImplementedError) as error:
            logger.debug("store: building %s without a lock (%s)", key[:12], error)
        try:
            yield
        finally:
            lock.release()

    @contextmanager
    def workdir(self, key: str) -> Iterator[Path]:
        """An empty directory to compile in; call with the lock held.

        Sweeps what killed builds of this key left behind.
        """
        for stale in self.directory.glob(f".{key}.*"):
            shutil.rmtree(stale, ignore_errors=True) if stale.is_dir() else stale.unlink(missing_ok=True)
        path = Path(tempfile.mkdtemp(prefix=f".{key}.", dir=self.directory))
        try:
            yield path
        finally:
            shutil.rmtree(path, ignore_errors=True)

    def entries(self) -> tuple[int, int]:
        """Number of artifacts, and bytes of all files."""
        files = [path for path in self.directory.iterdir() if path.is_file()]
        return sum(path.suffix == ".json" for path in files), sum(path.stat().st_size for path in files)

    def clear(self) -> tuple[int, int]:
        """Removes every artifact; returns what `entries` said before.

        A build that runs meanwhile keeps its working directory.
        """
        before = self.entries()
        for path in self.directory.iterdir():
            if not path.is_dir():
                path.unlink(missing_ok=True)
            elif time.time() - path.stat().st_mtime > _LOCK_SECONDS:
                shutil.rmtree(path, ignore_errors=True)
        return before

    def _path(self, key: str, suffix: str) -> Path:
        return self.directory / f"{key}.{suffix}"

    def _replace(self, path: Path, contents: bytes) -> None:
        handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=self.directory)
        try:
            with os.fdopen(handle, "wb") as stream:
                stream.write(contents)
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(temporary, path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise


def open_directory(directory: Path) -> Store:
    """Opens (and makes, for this user alone) a store directory.

    Raises:
        ToolchainError: it cannot be made or written, others could write it, or it forbids execution.
    """
    refusal = _refusal(directory)
    if refusal:
        raise ToolchainError(f"The cache directory {directory} cannot be used: {refusal}.")
    return Store(directory)


def _refusal(directory: Path) -> str | None:
    """Why artifacts must not be kept in, or loaded from, a directory; None if they may."""
    if not directory.is_absolute():
        return "there is no home directory to put it in"
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = directory.lstat()
        if not stat.S_ISDIR(status.st_mode):
            return "it is not a directory"
        if status.st_uid != os.geteuid():
            return "it belongs to another user"
        if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            return f"others can write to it (chmod go-w {directory})"
        if os.statvfs(directory).f_flag & os.ST_NOEXEC:
            return "its file system is mounted noexec"
        with tempfile.TemporaryFile(dir=directory):
            return None
    except OSError as error:
        return error.strerror or str(error)


def _intact(path: Path, digest: str) -> bool:
    with path.open("rb") as stream:
        if os.fstat(stream.fileno()).st_uid != os.geteuid():
            return False
        return hashlib.sha256(stream.read()).hexdigest() == digest
