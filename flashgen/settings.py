"""The only reader of flashgen's environment variables."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Settings:
    """What the environment asks for; a variable that is blank counts as not set.

    Attributes:
        cache_dir: FLASHGEN_CACHE_DIR, where artifacts are kept; None for the user's cache directory.
        log_level: FLASHGEN_LOG, ``debug`` shows everything; None for warnings only.
        cxx: CXX, the C++ compiler command; None to search.
        cuda_path: CUDA_PATH or CUDA_HOME, a CUDA toolkit; None to search.
        tuned: FLASHGEN_TUNED, whether builds use the plans that autotune has found; ``0`` or ``off`` for not.
        search_path: PATH, where programs are; the system's default if not set.
    """

    cache_dir: str | None = None
    log_level: str | None = None
    cxx: str | None = None
    cuda_path: str | None = None
    tuned: bool = True
    search_path: str = os.defpath


def read_settings(environ: Mapping[str, str] | None = None) -> Settings:
    """Reads the settings afresh, so that a change of the environment takes effect at the next build."""
    env = os.environ if environ is None else environ

    def value(name: str) -> str | None:
        return env.get(name) if env.get(name, "").strip() else None

    return Settings(
        cache_dir=value("FLASHGEN_CACHE_DIR"),
        log_level=value("FLASHGEN_LOG"),
        cxx=value("CXX"),
        cuda_path=value("CUDA_PATH") or value("CUDA_HOME"),
        tuned=uses_tuned(env),
        search_path=env.get("PATH", os.defpath),
    )


def uses_tuned(environ: Mapping[str, str] | None = None) -> bool:
    """The setting ``tuned`` alone: `flashgen.attention` asks at every call."""
    env = os.environ if environ is None else environ
    return env.get("FLASHGEN_TUNED", "").strip().lower() not in ("0", "off", "no", "false")
