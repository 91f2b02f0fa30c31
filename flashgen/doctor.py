"""What flashgen finds on this machine, what is missing, and the command that installs it."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import platform
import sys
from dataclasses import dataclass

from flashgen import __version__
from flashgen.compilation.cache import cache_directory
from flashgen.compilation.store import open_directory
from flashgen.compilation.toolchains.host import find_compiler
from flashgen.compilation.toolchains.nvcc import find_nvcc
from flashgen.compilation.toolchains.nvrtc_library import find_nvrtc
from flashgen.errors import FlashgenError
from flashgen.inspect.sass import find_nvdisasm
from flashgen.runtime.cuda_driver import open_driver
from flashgen.runtime.device import host_target, limits_of
from flashgen.runtime.openmp import thread_pool
from flashgen.target import multiplies_bf16
from flashgen.units import format_bytes


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked for.

    Attributes:
        what: its name.
        found: it is there and usable.
        detail: version, path, size; or why it is not usable.
        needed: building and running for this CPU needs it.
        fix: the command that installs or mends it; empty if it is there.
    """

    what: str
    found: bool
    detail: str
    needed: bool = False
    fix: str = ""


def examine() -> tuple[Finding, ...]:
    """Looks at everything that flashgen can use."""
    return (
        Finding("flashgen", True, f"{__version__}, Python {platform.python_version()} ({sys.executable})"),
        _cpu(),
        _compiler(),
        _threads(),
        _cache(),
        _package("torch", "torch tensors as arguments", "pip install 'flashgen[torch]'"),
        _package("safetensors", "flashgen run on .safetensors files", "pip install 'flashgen[safetensors]'"),
        _nvrtc(),
        _nvdisasm(),
        _gpu(),
    )


def _cpu() -> Finding:
    try:
        target = host_target()
    except FlashgenError as error:
        return Finding("CPU", False, str(error), needed=True)
    limits = limits_of(target)
    level = f"{target} ({limits.simd_bytes * 8}-bit vectors{', bf16 products' if multiplies_bf16(target) else ''})"
    l2 = format_bytes(limits.l2_bytes)
    return Finding("CPU", True, f"{limits.device}, {level}, {limits.cores} cores, L2 {l2} each", needed=True)


def _compiler() -> Finding:
    try:
        compiler = find_compiler()
    except FlashgenError as error:
        return Finding("C++ compiler", False, str(error), needed=True, fix="apt-get install g++")
    return Finding("C++ compiler", True, f"{compiler.version}, {compiler.machine} ({compiler.command[0]})", needed=True)


def _threads() -> Finding:
    pool = thread_pool()
    if not pool.parallel:
        return Finding("libgomp", False, "kernels run on one thread", fix="apt-get install libgomp1")
    count = pool.max_threads()
    return Finding("libgomp", True, f"{count} thread{'s' if count > 1 else ''} (OMP_NUM_THREADS), {pool.library}")


def _cache() -> Finding:
    directory = cache_directory() / "artifacts"
    try:
        count, size = open_directory(directory).entries()
    except FlashgenError as error:
        return Finding("cache", False, str(error), fix="export FLASHGEN_CACHE_DIR=<a directory of yours>")
    return Finding("cache", True, f"{directory}: {count} kernels, {format_bytes(size)}")


def _nvrtc() -> Finding:
    libraries = find_nvrtc()
    if not libraries:
        nvcc = " (nvcc is here and compiles them instead)" if find_nvcc() else ""
        return Finding("NVRTC", False, f"not found; compiles CUDA kernels{nvcc}", fix="pip install 'flashgen[cuda]'")
    each = "; ".join(f"{nvrtc.release} (sm_{nvrtc.archs[0]} to sm_{nvrtc.archs[-1]})" for nvrtc in libraries)
    return Finding("NVRTC", True, f"{each}; compiles CUDA kernels, with or without a GPU")


def _nvdisasm() -> Finding:
    command = find_nvdisasm()
    fix = "" if command else "pip install 'flashgen[inspect]'"
    return Finding("nvdisasm", bool(command), command or "not found; shows the hot loop of CUDA kernels", fix=fix)


def _gpu() -> Finding:
    try:
        facts = open_driver().facts(0)
    except FlashgenError as error:
        return Finding(
            "NVIDIA GPU", False, str(error), fix="not needed to build and verify: flashgen verify --d 64 --target sm_80"
        )
    return Finding("NVIDIA GPU", True, f"{facts.name}, sm_{facts.capability}, {facts.sm_count} multiprocessors")


def _package(name: str, purpose: str, fix: str) -> Finding:
    if importlib.util.find_spec(name) is None:
        return Finding(name, False, f"not installed; for {purpose}", fix=fix)
    return Finding(name, True, f"{importlib.metadata.version(name)}; for {purpose}")
