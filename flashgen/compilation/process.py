"""Running a compiler as a child process, so that its output depends on the command alone."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Sequence
from pathlib import Path

from flashgen.log import logger

# They add include and library paths, flags or files; what they changed would not be in an artifact's key.
_DROPPED = {
    "CPATH", "CPLUS_INCLUDE_PATH", "C_INCLUDE_PATH", "LIBRARY_PATH", "LD_RUN_PATH", "CCC_OVERRIDE_OPTIONS",
    "DEPENDENCIES_OUTPUT", "SUNPRO_DEPENDENCIES", "GCC_COMPARE_DEBUG", "GNUTARGET", "LDEMULATION",
}  # fmt: skip


def run_compiler(
    command: Sequence[str], workdir: Path | None = None, timeout: float | None = None
) -> subprocess.CompletedProcess[str]:
    """Runs a compiler in ``workdir``, with its temporary files there, in English, both streams in ``stdout``.

    Raises:
        OSError: it cannot be started, or the directory is gone.
        subprocess.TimeoutExpired: it took more than ``timeout`` seconds, and was killed.
    """
    logger.debug("run: %s", shlex.join(command))
    env = {name: value for name, value in os.environ.items() if name not in _DROPPED} | {"LC_ALL": "C"}
    if workdir is not None:
        env["TMPDIR"] = str(workdir)
    return subprocess.run(
        command, cwd=workdir, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, encoding="utf-8", errors="replace", timeout=timeout, check=False,
    )  # fmt: skip
