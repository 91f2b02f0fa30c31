"""The only reader of flashgen's environment variables."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Settings:
    """What the environment asks for.

    Attributes:
        cache_dir: FLASHGEN_CACHE_DIR, where artifacts are kept; None for the user's cache directory.
        log_level: FLASHGEN_LOG, ``debug`` shows everything; None for warnings only.
        cxx: CXX, the C++ compiler command; None to search.
        cuda_path: CUDA_PATH or CUDA_HOME, a CUDA toolkit; None to search.
    """

    cache_dir: str | None = None
    log_level: str | None = None
    cxx: str | None = None
    cuda_path: str | None = None


def read_settings(environ: Mapping[str, str] | None = None) -> Settings:
    """Reads the settings afresh, so that a change of the environment takes effect at the next build."""
    env = os.environ if environ is None else environ
    return Settings(
        cache_dir=env.get("FLASHGEN_CACHE_DIR") or None,
        log_level=env.get("FLASHGEN_LOG") or None,
        cxx=env.get("CXX") or None,
        cuda_path=env.get("CUDA_PATH") or env.get("CUDA_HOME") or None,
    )
