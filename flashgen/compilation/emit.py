"""Files that a user keeps: the source, and beside it what the compiler made of it."""

from __future__ import annotations

import shutil
from collections.abc import Collection
from pathlib import Path

from flashgen.compilation.artifact import Artifact
from flashgen.source import KernelSource


def emit(
    source: KernelSource, artifact: Artifact, directory: Path, suffixes: Collection[str] | None = None
) -> tuple[Path, dict[str, Path]]:
    """Writes the source and copies of the artifact's files into ``directory``, all of one stem.

    Args:
        source: the source.
        artifact: what was made of it.
        directory: made if missing.
        suffixes: which of the artifact's files to copy; all if None.

    Returns:
        The source file, and suffix -> copied file.

    Raises:
        OSError: the directory cannot be written.
    """
    source_path = source.write_to(directory)
    copies = {
        suffix: source_path.with_suffix(f".{suffix}")
        for suffix in artifact.paths
        if suffixes is None or suffix in suffixes
    }
    for suffix, copy in copies.items():
        shutil.copyfile(artifact.paths[suffix], copy)
    return source_path, copies
