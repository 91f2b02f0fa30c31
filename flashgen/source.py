"""Sources: a rendered kernel, and host code that serves kernels."""

from __future__ import annotations

import hashlib
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from flashgen.spec import AttentionSpec, Causal
from flashgen.target import Target
from flashgen.tile_plan import TilePlan

SUFFIXES = {"c++": ".cpp", "cuda": ".cu"}


class Source(Protocol):
    """What a toolchain compiles: the text of one file, and what it is."""

    @property
    def text(self) -> str:
        """The whole file."""
        ...

    @property
    def language(self) -> str:
        """``c++`` or ``cuda``."""
        ...

    @property
    def entry(self) -> str:
        """The symbol to call or launch."""
        ...

    @property
    def target(self) -> Target:
        """The machine to compile for."""
        ...

    @property
    def filename(self) -> str:
        """A readable name for it."""
        ...


@dataclass(frozen=True, slots=True)
class HostSource:
    """Host code that is no kernel but is built and cached like one: a probe, an interpreter."""

    text: str
    entry: str
    target: Target
    filename: str
    language: str = "c++"


@dataclass(frozen=True, slots=True)
class KernelSource:
    """The text of a kernel and everything that led to it.

    Attributes:
        text: the whole source file.
        language: ``c++`` or ``cuda``.
        entry: the symbol to call or launch.
        spec, plan, target: what, how and where.
    """

    text: str
    language: str
    entry: str
    spec: AttentionSpec
    plan: TilePlan
    target: Target

    @property
    def digest(self) -> str:
        """SHA-256 of the text, in hex: equal requests give equal digests."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    @property
    def filename(self) -> str:
        """A readable, unique-enough name: family, head dims, dtype, mask, tile and architecture."""
        spec, plan = self.spec, self.plan
        parts = [plan.family, f"d{spec.head_dim}"]
        if spec.head_dim_v != spec.head_dim:
            parts.append(f"dv{spec.head_dim_v}")
        parts.append(spec.dtype.name)
        if spec.causal is not Causal.NONE:
            parts.append(f"causal_{spec.causal.value}")
        parts += [f"br{plan.br}", f"bc{plan.bc}", self.target.arch]
        return "_".join(parts) + SUFFIXES[self.language]

    def write_to(self, directory: Path) -> Path:
        """Writes the file into ``directory`` (made if missing), atomically; returns its path.

        Raises:
            OSError: the directory cannot be made or written.
        """
        directory.mkdir(parents=True, exist_ok=True)
        path = directory / self.filename
        handle, temporary = tempfile.mkstemp(prefix=f".{self.filename}.", dir=directory)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as stream:
                stream.write(self.text)
            os.chmod(temporary, 0o644)
            os.replace(temporary, path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
        return path
