"""compute-sanitizer over a few small calls, where it is installed."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")


def sanitize(script: Path, arguments: list[str], seconds_each: float) -> dict[str, Any]:
    """Runs ``script --sanitized-calls`` under each tool; returns tool -> outcome."""
    command = shutil.which("compute-sanitizer") or shutil.which("/usr/local/cuda/bin/compute-sanitizer")
    if command is None:
        return {"not run": "compute-sanitizer is not installed"}
    outcome: dict[str, Any] = {}
    for tool in TOOLS:
        # initcheck must also see the kernels that fill our inputs; the others need only look at ours.
        only_ours = [] if tool == "initcheck" else ["--kernel-name", "kernel_substring=flashgen"]
        call = [command, "--tool", tool, *only_ours, "--error-exitcode", "9", sys.executable, str(script)]
        try:
            done = subprocess.run(
                [*call, "--sanitized-calls", *arguments],
                capture_output=True,
                text=True,
                timeout=seconds_each,
                check=False,
            )
        except subprocess.TimeoutExpired:
            outcome[tool] = f"did not finish within {seconds_each:.0f} s"
            continue
        lines = [line for line in done.stdout.splitlines() if " SUMMARY:" in line]
        outcome[tool] = {"exit": done.returncode, "summary": lines[-1].strip("= ") if lines else done.stdout[-500:]}
    return outcome
