"""The artifact store: a directory of compiled kernels that many processes share.

Layout, for a key ``ab12...``::

    <cache>/artifacts/ab12....so     the files, one for each suffix
    <cache>/artifacts/ab12....json   written last: their checksums, the log, the report
    <cache>/artifacts/ab12....lock   an OS lock, which dies with its holder
    <cache>/artifacts/.ab12....      files being written, and the directory being compiled in

An entry counts only if every checksum matches, that of the JSON too, so a killed writer leaves nothing
that could be loaded. Files appear by rename, so a reader never sees half of one.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flashgen.compilation.artifact import Artifact, Compiled
from flashgen.compilation.lock import hold
from flashgen.errors import ToolchainError
from flashgen.log import logger

_LOCK_SECONDS = 120.0  # no build takes so long; whoever waits longer builds elsewhere
_STALE_SECONDS = 3600.0
_OURS = re.compile(r"(?P<dot>\.?)(?P<key>[0-9a-f]{64})\.")


@dataclass(frozen=True, slots=True)
class Store:
    """Artifacts in one directory that only this user can write."""

    directory: Path

    def get(self, key: str) -> Artifact | None:
        """The entry, or None if it is missing, damaged or not this user's."""
        try:
            entry = _unseal(_read_own(self._path(key, "json")))
            paths = {suffix: self._path(key, suffix) for suffix in entry["files"]}
            if entry["key"] != key or any(_sha256(_read_own(paths[s])) != entry["files"][s] for s in paths):
                raise ValueError("checksums differ")
            toolchain = tuple((label, value) for label, value in entry["toolchain"])
            return Artifact(key, paths, toolchain, entry["report"], entry["log"], cache_hit=True)
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            logger.debug("store: no usable entry %s (%s)", key[:12], error)
            return None

    def put(self, key: str, compiled: Compiled, toolchain: tuple[tuple[str, str], ...]) -> Artifact:
        """Writes an entry, replacing any damaged one. Raises OSError if the directory gives out."""
        for suffix, contents in compiled.files.items():
            self._replace(self._path(key, suffix), contents)
        entry = {
            "key": key,
            "files": {suffix: _sha256(contents) for suffix, contents in compiled.files.items()},
            "toolchain": toolchain,
            "report": dict(compiled.report),
            "log": compiled.log,
        }
        self._replace(self._path(key, "json"), _seal(entry))
        paths = {suffix: self._path(key, suffix) for suffix in compiled.files}
        return Artifact(key, paths, toolchain, dict(compiled.report), compiled.log, cache_hit=False)

    @contextlib.contextmanager
    def locked(self, key: str, seconds: float = _LOCK_SECONDS) -> Iterator[bool]:
        """Holds the key's lock; yields False where the file system has no locks.

        Entries stay whole without one, and the only loss is that two processes may compile the same kernel.

        Raises:
            TimeoutError: another process held it for so many seconds.
            OSError: the directory cannot be written.
        """
        with hold(self._path(key, "lock"), seconds) as held:
            yield held

    @contextlib.contextmanager
    def workdir(self, key: str, alone: bool) -> Iterator[Path]:
        """An empty directory to compile in. First sweeps what killed builds left behind.

        Args:
            key: of the kernel.
            alone: the key's lock is held, so nobody else is working on it.
        """
        import tempfile  # a build that finds everything in the store does not need it

        for path, owner, temporary in self._ours():
            if temporary and ((alone and owner == key) or _age(path) > _STALE_SECONDS):
                _remove(path)
        path = Path(tempfile.mkdtemp(prefix=f".{key}.", dir=self.directory))
        try:
            yield path
        finally:
            shutil.rmtree(path, ignore_errors=True)

    def entries(self) -> tuple[int, int]:
        """Number of artifacts, and bytes of all files."""
        sizes = [(path.suffix, _size(path)) for path, _, temporary in self._ours() if not temporary]
        return sum(suffix == ".json" for suffix, _ in sizes), sum(size for _, size in sizes)

    def clear(self) -> tuple[int, int]:
        """Removes every artifact, and nothing else; returns what `entries` said before.

        Kernels that are being built meanwhile are left alone.
        """
        before = self.entries()
        files: dict[str, list[tuple[Path, bool]]] = {}
        for path, key, temporary in self._ours():
            files.setdefault(key, []).append((path, temporary))
        for key, found in files.items():
            with contextlib.suppress(TimeoutError), self.locked(key, seconds=0) as alone:
                for path, temporary in found:
                    if path.suffix != ".lock" and (alone or not temporary or _age(path) > _STALE_SECONDS):
                        _remove(path)
                _remove(self._path(key, "lock"))  # last: once it is gone, others may begin to build
        return before

    def _path(self, key: str, suffix: str) -> Path:
        return self.directory / f"{key}.{suffix}"

    def _ours(self) -> Iterator[tuple[Path, str, bool]]:
        """Everything that a store has put here: path, key, and whether it is a temporary one."""
        for path in self.directory.iterdir():
            match = _OURS.match(path.name)
            if match:
                yield path, match["key"], bool(match["dot"])

    def _replace(self, path: Path, contents: bytes) -> None:
        import tempfile

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
    """Opens (and makes, for this user alone) a store directory. It may turn out to be read-only.

    Raises:
        ToolchainError: it cannot be made, others could write it, or it forbids execution.
    """
    refusal = _refusal(directory)
    if refusal:
        raise ToolchainError(f"The cache directory {directory} cannot be used: {refusal}.")
    return Store(directory)


def _refusal(directory: Path) -> str | None:
    """Why artifacts must not be kept in, or loaded from, a directory; None if they may."""
    if not directory.is_absolute():
        return "there is no home or working directory to put it in"
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
        return None
    except OSError as error:
        return error.strerror or str(error)


def _seal(entry: dict[str, Any]) -> bytes:
    return json.dumps({"checksum": _checksum(entry), "entry": entry}, indent=1).encode()


def _unseal(contents: bytes) -> dict[str, Any]:
    sealed = json.loads(contents)
    entry: dict[str, Any] = sealed["entry"]
    if sealed["checksum"] != _checksum(entry):
        raise ValueError("its own checksum differs")
    return entry


def _checksum(entry: dict[str, Any]) -> str:
    return _sha256(json.dumps(entry, sort_keys=True).encode())


def _sha256(contents: bytes) -> str:
    return hashlib.sha256(contents).hexdigest()


def _read_own(path: Path) -> bytes:
    with path.open("rb") as stream:
        if os.fstat(stream.fileno()).st_uid != os.geteuid():
            raise PermissionError(f"{path.name} belongs to another user")
        return stream.read()


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _age(path: Path) -> float:
    """Seconds since the last change; 0 if it is gone."""
    try:
        return time.time() - path.lstat().st_mtime
    except FileNotFoundError:
        return 0.0


def _size(path: Path) -> int:
    try:
        return path.lstat().st_size
    except FileNotFoundError:
        return 0
