"""The GPU at hand, if there is one: which target it is, and what it runs."""

from __future__ import annotations

from functools import cache

from flashgen.errors import LaunchError, SpecError
from flashgen.runtime.cuda_driver import open_driver
from flashgen.target import PRESETS, Target, capability


@cache
def gpu_capability(ordinal: int = 0) -> int | None:
    """Compute capability of a GPU of this machine (90 for 9.0); None if there is none."""
    try:
        return open_driver().facts(ordinal).capability
    except LaunchError:
        return None


def gpu_target(ordinal: int = 0) -> Target:
    """The target that fits a GPU of this machine: its own architecture, else the newest older one.

    Raises:
        LaunchError: there is no NVIDIA driver or no such GPU.
        SpecError: the GPU is older than any target.
    """
    found = open_driver().facts(ordinal).capability
    known = [target for target in PRESETS if target.kind == "cuda" and not target.arch.endswith("a")]
    usable = [target for target in known if capability(target) <= found]
    if not usable:
        raise SpecError(f"This GPU (sm_{found}) is older than any target: {', '.join(map(str, known))}.")
    return max(usable, key=capability)


def gpu_runs(target: Target) -> bool:
    """Whether the first GPU of this machine runs kernels for a CUDA target."""
    found = gpu_capability()
    if found is None:
        return False
    return found == capability(target) if target.arch.endswith("a") else found >= capability(target)
