"""What `flashgen build` leaves beside a source: compiled files, manifest, launcher."""

from __future__ import annotations

import json
from pathlib import Path

from flashgen.compilation.emit import emit
from flashgen.compilation.manifest import manifest
from flashgen.errors import SpecError
from flashgen.pipeline import Built
from flashgen.render.launcher import render_launcher

CHOICES = ("source", "ptx", "cubin", "all")


def emit_kernel(built: Built, directory: Path, what: str | None = None) -> dict[str, Path]:
    """Writes the files of a kernel into ``directory``, all of one stem.

    Args:
        built: the kernel.
        directory: made if missing.
        what: ``source``: only that; ``ptx`` or ``cubin``: the source and that; ``all``: everything that
            there is, with a C launcher for CUDA kernels; None: everything but the launcher.

    Returns:
        Suffix -> file: ``cu``, ``cubin``, ``ptx``, ``json``, ``launcher.c`` (CUDA), or ``cpp``, ``so``.

    Raises:
        SpecError: there is no such file for this kernel.
        OSError: the directory cannot be written.
    """
    if what in ("ptx", "cubin") and what not in built.artifact.paths:
        if built.source.target.kind != "cuda":
            raise SpecError(
                f"A CPU kernel has no {what}: it is compiled to a shared library. Use --emit source or all."
            )
        has = ", ".join(built.artifact.paths)
        raise SpecError(f"There is no {what} of {built.source.filename}; the compiler gave: {has}.")
    suffixes = {"source": (), "ptx": ("ptx",), "cubin": ("cubin",)}.get(what or "all")
    source_path, copies = emit(built.source, built.artifact, directory, suffixes)
    files = {source_path.suffix.removeprefix("."): source_path, **copies}
    if built.source.target.kind != "cuda" or what == "source":
        return files
    files["json"] = source_path.with_suffix(".json")
    files["json"].write_text(json.dumps(manifest(built.source, built.artifact), indent=2) + "\n", encoding="utf-8")
    if what == "all":
        files["launcher.c"] = source_path.with_suffix(".launcher.c")
        files["launcher.c"].write_text(render_launcher(built.source, source_path.stem), encoding="utf-8")
    return files
