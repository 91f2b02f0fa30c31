"""Artifact and Toolchain: what a compiler gives, and what flashgen asks of a compiler."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Protocol

from flashgen.source import Source
from flashgen.target import Target


@dataclass(frozen=True, slots=True)
class Compiled:
    """Fresh output of a compiler, not stored yet.

    Attributes:
        files: suffix -> contents, for instance ``{"so": ...}`` or ``{"cubin": ..., "ptx": ...}``.
        log: what the compiler printed.
        report: the resources that it told of (registers, spills, ...), JSON-like.
    """

    files: Mapping[str, bytes]
    log: str = ""
    report: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Artifact:
    """A compiled kernel on disk.

    Attributes:
        key: names it in the store: a digest of source, flags and toolchain.
        paths: suffix -> file.
        toolchain: labelled identity of what compiled it.
        report: resources, as the compiler told them.
        log: what the compiler printed.
        cache_hit: it was there already.
    """

    key: str
    paths: Mapping[str, Path]
    toolchain: tuple[tuple[str, str], ...]
    report: Mapping[str, Any]
    log: str
    cache_hit: bool

    @property
    def path(self) -> Path:
        """The file that a loader loads."""
        return next(iter(self.paths.values()))


class Toolchain(Protocol):
    """A compiler for one language. Implementations raise ToolchainError and CompileError only."""

    name: ClassVar[str]

    def identity(self) -> tuple[tuple[str, str], ...]:
        """Labelled facts that change the output: real version, machine. Part of the artifact's key."""
        ...

    def flags(self, target: Target) -> tuple[str, ...]:
        """Every flag that compiling for the target passes. Part of the artifact's key."""
        ...

    def compile(self, source: Source, workdir: Path) -> Compiled:
        """Compiles in ``workdir``, an empty directory that the caller removes."""
        ...
