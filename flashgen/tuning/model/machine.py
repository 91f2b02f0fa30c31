"""What one multiprocessor does in a clock, by target.

Sources: the CUDA C++ Programming Guide, table "Throughput of Native Arithmetic Instructions", NVIDIA's architecture
whitepapers (tensor cores, shared memory), and the peaks of the preset devices, from which clocks follow.
"""

from __future__ import annotations

from dataclasses import dataclass

from flashgen.inspect.io_roofline import PEAKS
from flashgen.target import PRESETS, Target

LANES = 32
SCHEDULERS = 4
_NOMINAL_CLOCK = 1.5e9
_SPECIAL_LANES = 16
_WAVEFRONT_BYTES = 128


@dataclass(frozen=True, slots=True)
class Machine:
    """A device of a target.

    Attributes:
        sms: multiprocessors.
        clock: Hz.
        fp32, fp64, integer, special: warp-instructions of a kind in a clock of one multiprocessor.
        tensor: multiply-adds of 16-bit products, summed in fp32, in a clock of one multiprocessor; 0 without any.
        wavefronts: of shared memory in a clock.
        bandwidth: bytes of device memory in a second; None where it is not known.
        l2_bytes: of the device.
    """

    sms: int
    clock: float
    fp32: float
    fp64: float
    integer: float
    special: float
    tensor: float
    wavefronts: float
    bandwidth: float | None
    l2_bytes: int


# arch number -> fp32 lanes, integer lanes, tensor multiply-adds (16-bit), bytes of shared memory in a clock
_RATES = {
    70: (64, 64, 512, 128),
    75: (64, 64, 512, 64),
    80: (64, 64, 1024, 128),
    86: (128, 64, 256, 128),
    87: (128, 64, 512, 128),
    89: (128, 64, 256, 128),
    90: (128, 64, 1270, 128),  # mma.sync reaches 62% of what wgmma does
    100: (128, 64, 1270, 128),
    103: (128, 64, 1270, 128),
    110: (128, 64, 1270, 128),
    120: (128, 128, 256, 128),
    121: (128, 128, 256, 128),
}


def machine_of(target: Target) -> Machine:
    """The preset device of a CUDA target."""
    lanes, integer, tensor, shared = _RATES[int("".join(filter(str.isdigit, target.arch)))]
    limits, peaks = PRESETS[target], PEAKS.get(target)
    clock = _NOMINAL_CLOCK if peaks is None else peaks.fp32 * 1e12 / (2 * lanes * limits.cores)
    share_of_fp64 = 1 / 64 if peaks is None else peaks.fp64 / peaks.fp32
    return Machine(
        sms=limits.cores,
        clock=clock,
        fp32=lanes / LANES,
        fp64=lanes / LANES * share_of_fp64,
        integer=integer / LANES,
        special=_SPECIAL_LANES / LANES,
        tensor=tensor,
        wavefronts=shared / _WAVEFRONT_BYTES,
        bandwidth=None if peaks is None else peaks.bandwidth * 1e9,
        l2_bytes=limits.l2_bytes,
    )
