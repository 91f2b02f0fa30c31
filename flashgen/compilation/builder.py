"""build(): from source to artifact, through the store."""

from __future__ import annotations

from flashgen.compilation.artifact import Artifact, Toolchain
from flashgen.compilation.cache import open_store, private_store
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
    except OSError as error:  # the directory gave out midway: full, removed, turned read-only
        warn_once(f"The cache directory {store.directory} failed ({error}); building in a temporary one.")
        return _build_locked(source, toolchain, identity, key, private_store())


def _build_locked(
    source: Source, toolchain: Toolchain, identity: tuple[tuple[str, str], ...], key: str, store: Store
) -> Artifact:
    with store.locked(key):
        found = store.get(key)  # another may have built it while we waited
        if found is not None:
            return found
        with store.workdir(key) as workdir:
            return store.put(key, toolchain.compile(source, workdir), identity)
