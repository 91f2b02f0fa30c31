"""What recorded results say of the machine, and where they are kept."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import flashgen
from flashgen.compilation.toolchains.host import HostToolchain
from flashgen.runtime.device import host_name, host_target
from flashgen.runtime.openmp import thread_pool

RESULTS = Path(__file__).parent / "results"


def header() -> dict[str, Any]:
    """The machine, and what kernels are made with."""
    return {
        "machine": host_name(),
        "target": str(host_target()),
        "threads": thread_pool().max_threads(),
        "compiler": dict(HostToolchain().identity())["compiler"],
        "flashgen": flashgen.__version__,
    }


def default_name() -> str:
    """The machine's, for files."""
    return re.sub(r"\W+", "-", host_name().lower()).strip("-")
