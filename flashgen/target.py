"""Where a kernel runs: Target names the machine, DeviceLimits says what it allows.

Every limit is data, so planning for a machine needs no machine. Sources: the CUDA C++ Programming
Guide, table "Technical Specifications per Compute Capability"; the x86-64 psABI for the CPU levels.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from flashgen.errors import SpecError

KIB = 1024


@dataclass(frozen=True, slots=True)
class Target:
    """A machine to generate for.

    Attributes:
        kind: ``cpu`` or ``cuda``.
        arch: ``x86-64-v3``, ``aarch64``, ``sm_80``, ...
    """

    kind: str
    arch: str

    def __str__(self) -> str:
        return f"cpu:{self.arch}" if self.kind == "cpu" else self.arch


@dataclass(frozen=True, slots=True)
class DeviceLimits:
    """What one device of a target allows.

    Attributes:
        device: the device that the numbers belong to.
        onchip_bytes: largest footprint of one block (CUDA: shared memory with opt-in) or of one thread
            (CPU: L2 per core).
        cores: SMs, or CPU cores (0: unknown).
        l2_bytes: L2 cache of the whole device (CUDA) or of one core (CPU).
        simd_bytes: width of a CPU vector register.
        simd_registers: number of CPU vector registers.
        registers_per_sm, registers_per_thread, threads_per_block, threads_per_sm, smem_per_sm: CUDA only.
    """

    device: str
    onchip_bytes: int
    cores: int = 0
    l2_bytes: int = 0
    simd_bytes: int = 0
    simd_registers: int = 0
    registers_per_sm: int = 0
    registers_per_thread: int = 0
    threads_per_block: int = 0
    threads_per_sm: int = 0
    smem_per_sm: int = 0


def _cpu(simd_bytes: int, simd_registers: int, l2_kib: int) -> DeviceLimits:
    l2 = l2_kib * KIB
    return DeviceLimits("typical core", l2, l2_bytes=l2, simd_bytes=simd_bytes, simd_registers=simd_registers)


def _gpu(device: str, sms: int, smem_kib: int, smem_sm_kib: int, threads_sm: int, l2_kib: int) -> DeviceLimits:
    return DeviceLimits(
        device,
        onchip_bytes=smem_kib * KIB,
        cores=sms,
        l2_bytes=l2_kib * KIB,
        registers_per_sm=65536,
        registers_per_thread=255,
        threads_per_block=1024,
        threads_per_sm=threads_sm,
        smem_per_sm=smem_sm_kib * KIB,
    )


PRESETS: dict[Target, DeviceLimits] = {
    Target("cpu", "x86-64-v2"): _cpu(16, 16, 256),
    Target("cpu", "x86-64-v3"): _cpu(32, 16, 512),
    Target("cpu", "x86-64-v4"): _cpu(64, 32, 1024),
    Target("cpu", "x86-64-v4-bf16"): _cpu(64, 32, 1024),
    Target("cpu", "aarch64"): _cpu(16, 32, 512),
    Target("cuda", "sm_70"): _gpu("V100", 80, 96, 96, 2048, 6144),
    Target("cuda", "sm_75"): _gpu("T4", 40, 64, 64, 1024, 4096),
    Target("cuda", "sm_80"): _gpu("A100", 108, 163, 164, 2048, 40960),
    Target("cuda", "sm_86"): _gpu("RTX 3090", 82, 99, 100, 1536, 6144),
    Target("cuda", "sm_87"): _gpu("Jetson AGX Orin", 16, 163, 164, 1536, 4096),
    Target("cuda", "sm_89"): _gpu("RTX 4090", 128, 99, 100, 1536, 73728),
    Target("cuda", "sm_90"): _gpu("H100 SXM", 132, 227, 228, 2048, 51200),
    Target("cuda", "sm_90a"): _gpu("H100 SXM", 132, 227, 228, 2048, 51200),
    Target("cuda", "sm_100"): _gpu("B200", 148, 227, 228, 2048, 129024),
    Target("cuda", "sm_103"): _gpu("B300", 148, 227, 228, 2048, 129024),
    Target("cuda", "sm_110"): _gpu("Jetson T5000", 20, 227, 228, 1536, 32768),
    Target("cuda", "sm_120"): _gpu("RTX 5090", 170, 99, 100, 1536, 98304),
    Target("cuda", "sm_121"): _gpu("GB10", 48, 99, 100, 1536, 24576),
}

# Instruction-set levels of this architecture family, lowest first, and the /proc/cpuinfo flags that
# each adds. `-march=native` is never used: a named level compiles to the same bytes everywhere.
X86_LEVELS: dict[str, frozenset[str]] = {
    "x86-64-v2": frozenset({"cx16", "lahf_lm", "popcnt", "pni", "sse4_1", "sse4_2", "ssse3"}),
    "x86-64-v3": frozenset({"avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe", "xsave"}),
    "x86-64-v4": frozenset({"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}),
    "x86-64-v4-bf16": frozenset({"avx512_bf16"}),
}


def required_features(target: Target) -> frozenset[str]:
    """CPU flags (as /proc/cpuinfo names them) without which code for the target cannot run."""
    required: set[str] = set()
    if target.arch in X86_LEVELS:
        for level, added in X86_LEVELS.items():
            required |= added
            if level == target.arch:
                break
    elif target.arch == "aarch64":
        required = {"fp", "asimd"}
    return frozenset(required)


def capability(target: Target) -> int:
    """The number in an architecture's name: 90 for sm_90 and sm_90a."""
    match = re.fullmatch(r"sm_(\d+)[af]?", target.arch)
    if match is None:
        raise ValueError(f"{target} is no CUDA architecture")
    return int(match[1])


def multiplies_bf16(target: Target) -> bool:
    """Whether CPU code for the target multiplies bf16 as it is: two products into an fp32 sum (VDPBF16PS)."""
    return "avx512_bf16" in required_features(target)


def parse_target(text: str) -> Target:
    """Reads a target as written everywhere: ``cpu:x86-64-v3``, ``sm_80``.

    ``auto`` and bare ``cpu`` depend on the machine at hand; the API resolves them first.

    Raises:
        SpecError: no such target; the message lists the good ones.
    """
    kind, _, arch = text.partition(":")
    target = Target("cpu", arch) if kind == "cpu" else Target("cuda", text)
    if target in PRESETS:
        return target
    close = re.fullmatch(r"(?:sm|compute|cuda:)?_?(\d+)\.?(\d)?(a?)", text)
    guess = Target("cuda", f"sm_{close[1]}{close[2] or ''}{close[3]}") if close else None
    hint = f" Did you mean {guess}?" if guess in PRESETS else ""
    known = ", ".join(["auto", "cpu", "cuda", *(str(target) for target in PRESETS)])
    raise SpecError(f"Target {text!r} is not known.{hint} Targets: {known}.")
