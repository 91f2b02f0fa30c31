"""Files that a user keeps: the source, and beside it what the compiler made of it."""

from __future__ import annotations

import shutil
from pathlib import Path

from flashgen.compilation.artifact import Artifact
from flashgen.source import KernelSource


def emit(source: KernelSource, artifact: Artifact, directory: Path) -> tuple[Path, dict[str, Path]]:
    """Writes the source and copies of the artifact's files into ``directory``, all of one stem.

    Returns:
        The source file, and suffix -> copied file.

    Raises:
        OSError: the directory cannot be written.
    """
    source_path = source.write_to(directory)
    copies = {suffix: source_path.with_suffix(f".{suffix}") for suffix in artifact.paths}
    for suffix, copy in copies.items():
        shutil.copyfile(artifact.paths[suffix], copy)
    return source_path, copies
