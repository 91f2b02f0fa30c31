"""The roofline: whether so many flops for so many bytes keep a machine's units or its memory busy.

GPU peaks are of the device that flashgen's presets name, dense, as NVIDIA publishes them; `source` says where.
CPU peaks are nominal, of one core: `flashgen bench` measures the machine at hand.
"""

from __future__ import annotations

from dataclasses import dataclass

from flashgen.dtypes import DType
from flashgen.target import PRESETS, Target


@dataclass(frozen=True, slots=True)
class Peaks:
    """What a device can do at most.

    Attributes:
        tensor: TFLOP/s of 16-bit products summed in fp32 on tensor cores; 0 where there are none.
        fp32, fp64: TFLOP/s of the ordinary units.
        bandwidth: GB/s of HBM (CPU: of memory).
        source: where the numbers come from.
    """

    tensor: float
    fp32: float
    fp64: float
    bandwidth: float
    source: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """What limits an algorithm on one kind of unit.

    Attributes:
        unit: ``tensor cores`` or ``FMA units``.
        peak: FLOP/s.
        bandwidth: byte/s.
        intensity: FLOP for each byte that the algorithm moves.
        ridge: the intensity from which on the unit is the limit.
        bound: ``compute`` or ``memory``.
    """

    unit: str
    peak: float
    bandwidth: float
    intensity: float
    ridge: float
    bound: str


_A100 = "NVIDIA A100 datasheet (SXM4, 40 GB)"
_HOPPER = "NVIDIA H100 datasheet (SXM5)"
_CORE = "nominal: one core at 3 GHz, two SIMD units, half a DDR4-3200 channel"

PEAKS: dict[Target, Peaks] = {
    Target("cuda", "sm_70"): Peaks(125, 15.7, 7.8, 900, "NVIDIA V100 datasheet (SXM2)"),
    Target("cuda", "sm_75"): Peaks(65, 8.1, 0.25, 320, "NVIDIA T4 datasheet; fp64 at 1/32 of fp32"),
    Target("cuda", "sm_80"): Peaks(312, 19.5, 9.7, 1555, _A100),
    Target("cuda", "sm_86"): Peaks(71, 35.6, 0.56, 936, "NVIDIA GA102 whitepaper (RTX 3090)"),
    Target("cuda", "sm_87"): Peaks(42.5, 5.3, 0.083, 204.8, "NVIDIA Jetson AGX Orin data sheet (64 GB); fp64 at 1/64"),
    Target("cuda", "sm_89"): Peaks(165.2, 82.6, 1.29, 1008, "NVIDIA Ada whitepaper (RTX 4090)"),
    Target("cuda", "sm_90"): Peaks(989.4, 66.9, 33.5, 3352, _HOPPER),
    Target("cuda", "sm_90a"): Peaks(989.4, 66.9, 33.5, 3352, _HOPPER),
    Target("cuda", "sm_100"): Peaks(2250, 75, 37, 7700, "NVIDIA HGX B200 datasheet, one of eight"),
    Target("cuda", "sm_103"): Peaks(2250, 75, 1.25, 8000, "NVIDIA HGX B300 datasheet, one of eight"),
    Target("cuda", "sm_120"): Peaks(209.5, 104.8, 1.64, 1792, "NVIDIA RTX Blackwell whitepaper (RTX 5090)"),
    Target("cpu", "x86-64-v2"): Peaks(0, 0.024, 0.012, 12.8, _CORE),
    Target("cpu", "x86-64-v3"): Peaks(0, 0.096, 0.048, 12.8, _CORE),
    Target("cpu", "x86-64-v4"): Peaks(0, 0.192, 0.096, 12.8, _CORE),
    Target("cpu", "x86-64-v4-bf16"): Peaks(0, 0.192, 0.096, 12.8, _CORE),
    Target("cpu", "aarch64"): Peaks(0, 0.048, 0.024, 12.8, _CORE),
}


def verdicts(flops: int, moved: int, target: Target, dtype: DType) -> tuple[Verdict, ...]:
    """One verdict for each kind of unit that can do the work; none where the peaks are not known.

    Args:
        flops: of the algorithm.
        moved: bytes between HBM and the chip.
        target: the machine.
        dtype: of the inputs.
    """
    peaks = PEAKS.get(target)
    if peaks is None or not moved:
        return ()
    units = [("FMA units", peaks.fp64 if dtype.compute_size == 8 else peaks.fp32)]
    if dtype.size == 2 and peaks.tensor:
        units.insert(0, ("tensor cores", peaks.tensor))
    return tuple(_verdict(unit, tera * 1e12, peaks.bandwidth * 1e9, flops / moved) for unit, tera in units)


def gpus() -> tuple[Target, ...]:
    """One target for each device whose peaks are known."""
    devices: dict[str, Target] = {}
    for target in PEAKS:
        if target.kind == "cuda":
            devices.setdefault(PRESETS[target].device, target)
    return tuple(devices.values())


def _verdict(unit: str, peak: float, bandwidth: float, intensity: float) -> Verdict:
    ridge = peak / bandwidth
    return Verdict(unit, peak, bandwidth, intensity, ridge, "compute" if intensity >= ridge else "memory")
