"""How many CTAs of a kernel fit on one multiprocessor, and what stops more.

Source: the CUDA C++ Programming Guide, table "Technical Specifications per Compute Capability", and the
granularities of the CUDA occupancy calculator.
"""

from __future__ import annotations

from dataclasses import dataclass

from flashgen.target import DeviceLimits, Target

_WARP = 32
_REGISTER_UNIT = 256  # registers are dealt to warps in such units
_WARP_UNIT = 4  # and warps to an SM's four schedulers alike
_SHARED_UNIT = {7: 256, 8: 128, 9: 128, 10: 128, 11: 128, 12: 128}  # by major capability
_SYSTEM_SHARED = 1024  # what every CTA takes on sm_80 and later
_CTAS_PER_SM = {70: 32, 75: 16, 80: 32, 86: 16, 87: 16, 89: 24, 90: 32, 100: 32, 103: 32, 110: 24, 120: 24, 121: 24}


@dataclass(frozen=True, slots=True)
class Occupancy:
    """CTAs and warps on one multiprocessor.

    Attributes:
        ctas: that fit at once.
        warps: in them.
        share: of the warps that the multiprocessor could hold, 0 to 1.
        limiter: ``registers``, ``shared memory``, ``threads`` or ``CTAs``; it allows the fewest.
    """

    ctas: int
    warps: int
    share: float
    limiter: str


def occupancy(target: Target, limits: DeviceLimits, threads: int, registers: int, shared_bytes: int) -> Occupancy:
    """Computes the occupancy of a kernel on a CUDA target."""
    number = int("".join(filter(str.isdigit, target.arch)))
    warps = _round_up(threads, _WARP) // _WARP
    per_warp = _round_up(max(registers, 1) * _WARP, _REGISTER_UNIT)
    warps_by_registers = limits.registers_per_sm // per_warp // _WARP_UNIT * _WARP_UNIT
    system = _SYSTEM_SHARED if number >= 80 else 0
    per_cta = _round_up(shared_bytes + system, _SHARED_UNIT[number // 10])
    allowed = {
        "registers": warps_by_registers // warps,
        "shared memory": limits.smem_per_sm // per_cta if per_cta else _CTAS_PER_SM[number],
        "threads": limits.threads_per_sm // (warps * _WARP),
        "CTAs": _CTAS_PER_SM[number],
    }
    limiter = min(allowed, key=lambda name: allowed[name])
    ctas = allowed[limiter]
    return Occupancy(ctas, ctas * warps, ctas * warps * _WARP / limits.threads_per_sm, limiter)


def _round_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit
