"""The machine at hand: which instruction-set level this CPU has, and its caches.

Linux tells both in files, so nothing is run and nothing is imported.
"""

from __future__ import annotations

import os
import platform
from dataclasses import replace
from functools import cache
from pathlib import Path

from flashgen.errors import SpecError
from flashgen.target import PRESETS, X86_LEVELS, DeviceLimits, Target, parse_target, required_features


@cache
def host_features() -> frozenset[str]:
    """Instruction-set flags of this CPU, as /proc/cpuinfo names them."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return frozenset()
    for line in text.splitlines():
        label, _, value = line.partition(":")
        if label.strip().lower() in ("flags", "features"):
            return frozenset(value.split())
    return frozenset()


@cache
def host_name() -> str:
    """The CPU's model name, or its architecture."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = ""
    names = [line.partition(":")[2].strip() for line in text.splitlines() if line.startswith("model name")]
    return names[0] if names else platform.machine()


@cache
def host_target() -> Target:
    """The best CPU target that this machine can run.

    Raises:
        SpecError: the CPU is older than x86-64-v2, or of an architecture without kernels.
    """
    machine = platform.machine()
    levels = [Target("cpu", level) for level in X86_LEVELS] if machine == "x86_64" else [Target("cpu", machine)]
    able = [level for level in levels if level in PRESETS and required_features(level) <= host_features()]
    if not able:
        raise SpecError(
            f"This CPU ({host_name()}, {machine}) has no flashgen target: x86-64-v2 (SSE4.2) or aarch64 is the least. "
            "Name another target, such as --target cpu:x86-64-v3, to generate for another machine."
        )
    return able[-1]


def resolve_target(text: str) -> Target:
    """Resolves ``auto`` and bare ``cpu`` to this CPU, ``cuda`` to this GPU; reads any other target as written.

    Raises:
        SpecError: no such target.
        LaunchError: ``cuda``, and there is no GPU.
    """
    if text == "cuda":
        from flashgen.runtime.cuda_device import gpu_target

        return gpu_target()
    return host_target() if text in ("auto", "cpu") else parse_target(text)


def target_of_device(device: str) -> Target:
    """The target of a tensor's device, ``cpu`` or ``cuda:1``.

    Raises:
        LaunchError, SpecError: it cannot be told, or has no target.
    """
    kind, _, ordinal = device.partition(":")
    if kind != "cuda":
        return host_target()
    from flashgen.runtime.cuda_device import gpu_target

    return gpu_target(int(ordinal or 0))


def runs_here(target: Target) -> bool:
    """Whether this machine's CPU or GPU can execute code for a target."""
    if target.kind == "cuda":
        from flashgen.runtime.cuda_device import gpu_runs

        return gpu_runs(target)
    return required_features(target) <= host_features()


@cache
def limits_of(target: Target) -> DeviceLimits:
    """Limits of the target: this CPU's own caches if it can run it, else the preset."""
    preset = PRESETS[target]
    if target.kind != "cpu" or not runs_here(target):
        return preset
    l2 = _l2_bytes() or preset.l2_bytes
    cores = len(os.sched_getaffinity(0))
    return replace(preset, device=host_name(), onchip_bytes=l2, l2_bytes=l2, cores=cores)


def _l2_bytes() -> int:
    """L2 bytes of core 0 from sysfs, or 0 where it does not say."""
    for index in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*"):
        try:
            if (index / "level").read_text().strip() == "2":
                size = (index / "size").read_text().strip()
                return int(size.rstrip("KM")) * {"K": 1024, "M": 1024**2}.get(size[-1], 1)
        except (OSError, ValueError):
            continue
    return 0
