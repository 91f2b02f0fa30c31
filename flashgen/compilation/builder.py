"""build(): from source to artifact, through the store."""

from __future__ import annotations

from flashgen.compilation.artifact import Artifact, Toolchain
from flashgen.compilation.cache import no_directory, open_store, private_store
from flashgen.compilation.key import artifact_key
from flashgen.compilation.store import Store
from flashgen.log import warn_once
from flashgen.source import Source


def build(source: Source, toolchain: Toolchain, store: Store | None = None) -> Artifact:
    """Compiles a source, or finds it compiled.

    However many processes and threads ask for the same key at once, one of them compiles.

    Raises:
        ToolchainError: no compiler, or no directory to build in.
        CompileError: the compiler refused the source.
    """
    store = store or open_store()
    identity = toolchain.identity()
    key = artifact_key(source, toolchain.flags(source.target), identity)
    found = store.get(key)
    if found is not None:
        return found
    try:
        return _build_locked(source, toolchain, identity, key, store)
    except OSError as error:  # the directory gave out midway: full, removed, read-only
        why = error.strerror or error  # without the file name, so that it is said once and not for each kernel
        warn_once(f"The cache directory {store.directory} failed: {why}. Kernels are built in a temporary one.")
    try:
        return _build_locked(source, toolchain, identity, key, private_store())
    except OSError as error:
        raise no_directory(error) from error


def _build_locked(
    source: Source, toolchain: Toolchain, identity: tuple[tuple[str, str], ...], key: str, store: Store
) -> Artifact:
    with store.locked(key) as alone:
        found = store.get(key)  # another may have built it while we waited
        if found is not None:
            return found
        with store.workdir(key, alone) as workdir:
            return store.put(key, toolchain.compile(source, workdir), identity)
