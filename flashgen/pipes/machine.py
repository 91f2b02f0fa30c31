"""What one multiprocessor does in a clock, by architecture: the constants of the model, in one table.

Sources: the CUDA C++ Programming Guide, table "Throughput of Native Arithmetic Instructions" (fp32, fp64, special
functions, integers), NVIDIA's architecture whitepapers (tensor cores, shared memory), and the peaks of the preset
devices in io_roofline.py, from which clocks follow. What none of these says plainly is named in `unverified`.
"""

from __future__ import annotations

from dataclasses import dataclass

from flashgen.inspect.io_roofline import PEAKS
from flashgen.target import PRESETS, Target, capability

LANES = 32
SCHEDULERS = 4


@dataclass(frozen=True, slots=True)
class PipeRates:
    """One multiprocessor, per clock.

    Attributes:
        tensor: multiply-adds of 16-bit products that mma.sync sums in fp32.
        tensor_peak: the same by the fastest instruction that there is, which data sheets count.
        fp32, fp64: lanes of the FMA units.
        shared: bytes to or from shared memory.
        alu: lanes of the units for integers, logic, maxima, comparisons and packed conversions.
        special: lanes of the units for 2^x and single conversions.
        l2: bytes between L1 and L2.
        unverified: names of the numbers that no primary source states.
    """

    tensor: int
    tensor_peak: int
    fp32: int
    fp64: int
    shared: int = 128
    alu: int = 64
    special: int = 16
    l2: int = 64
    unverified: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Machine:
    """The preset device of a target.

    Attributes:
        sms: multiprocessors.
        clock: Hz at which it reaches its published peaks; None where those are not known.
        bandwidth: bytes of device memory in a second; None where it is not known.
        l2_bytes: of its L2 cache.
        rates: of one multiprocessor.
    """

    sms: int
    clock: float | None
    bandwidth: float | None
    l2_bytes: int
    rates: PipeRates


# mma.sync on Hopper: 62 % of wgmma, as microbenchmarks report (arXiv 2402.13499; not checked here). Of later chips of
# its size nothing is known; they have the same.
_MMA_OF_HOPPER = 1270
_BLACKWELL = {"tensor": _MMA_OF_HOPPER, "tensor_peak": 4096, "fp32": 128}

RATES: dict[int, PipeRates] = {
    70: PipeRates(512, 512, fp32=64, fp64=32),
    75: PipeRates(512, 512, fp32=64, fp64=2, shared=64, unverified=("shared",)),
    80: PipeRates(1024, 1024, fp32=64, fp64=32),
    86: PipeRates(256, 256, fp32=128, fp64=2),  # GeForce; cards for workstations have twice the tensor rate
    87: PipeRates(1024, 1024, fp32=128, fp64=2, unverified=("tensor",)),
    89: PipeRates(256, 256, fp32=128, fp64=2),
    90: PipeRates(_MMA_OF_HOPPER, 2048, fp32=128, fp64=64, unverified=("tensor",)),
    100: PipeRates(**_BLACKWELL, fp64=64, unverified=("tensor", "alu")),
    103: PipeRates(**_BLACKWELL, fp64=2, unverified=("tensor", "alu", "fp64")),
    110: PipeRates(**_BLACKWELL, fp64=2, unverified=("tensor", "alu", "fp64")),
    120: PipeRates(256, 256, fp32=128, fp64=2, unverified=("alu",)),
    121: PipeRates(256, 256, fp32=128, fp64=2, unverified=("tensor", "alu")),
}


def machine_of(target: Target) -> Machine:
    """The preset device of a CUDA target."""
    limits, peaks, rates = PRESETS[target], PEAKS.get(target), RATES[capability(target)]
    return Machine(
        sms=limits.cores,
        clock=_clock(target, rates),
        bandwidth=None if peaks is None else peaks.bandwidth * 1e9,
        l2_bytes=limits.l2_bytes,
        rates=rates,
    )


def _clock(target: Target, rates: PipeRates) -> float | None:
    """From the published peaks of tensor cores and of FMA units: the lower one, if they differ."""
    peaks, sms = PEAKS.get(target), PRESETS[target].cores
    if peaks is None:
        return None
    pairs = ((peaks.tensor, rates.tensor_peak), (peaks.fp32, rates.fp32))
    return min(tera * 1e12 / (2 * per_clock * sms) for tera, per_clock in pairs)
