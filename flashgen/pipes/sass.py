"""From a warp's SASS to cycles.

Which pipe executes what: NVIDIA's Nsight Compute documentation, "Pipelines". Rates: machine.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from flashgen.inspect.sass_paths import kind_of
from flashgen.pipes.cycles import WAVEFRONT_BYTES, PipeCycles, byte_cycles, warp_cycles
from flashgen.pipes.machine import LANES, SCHEDULERS, PipeRates

_PRODUCT = re.compile(r"HMMA\.168(\d+)\.")
_FMA = ("FFMA", "FMUL", "FADD", "IMAD", "IDP", "HADD2", "HFMA2", "HMUL2")
_FP64 = ("DFMA", "DMUL", "DADD", "DSETP", "DMNMX")
_SPECIAL = ("MUFU", "F2F", "F2I", "I2F", "POPC", "FLO", "BREV")
_SHARED = ("LDS", "STS", "LDSM", "LDGSTS", "LDL", "STL", "ATOMS")
_GLOBAL = ("LDG", "STG", "LD", "ST", "ATOM", "ATOMG", "RED")
# These take an issue slot only: control, waits, constants, and the scalar unit.
_NOWHERE = re.compile(
    r"NOP|BRA|BAR|BSSY|BSYNC|BREAK|CALL|RET|EXIT|DEPBAR|LDGDEPBAR|WARPSYNC|YIELD|BMOV|B2R|LDC|LDCU|S2R|S2UR|CS2R|R2UR|"
    r"U[A-Z]\w*|VOTEU"
)


def sass_cycles(opcodes: Iterable[str], rates: PipeRates) -> PipeCycles:
    """Cycles of a warp's instructions.

    Args:
        opcodes: with modifiers; operands are not needed.
        rates: of the architecture.
    """
    total = PipeCycles().as_dict()
    for opcode in opcodes:
        pipe, cycles = _of(opcode, rates)
        total["issue"] += 1
        if pipe:
            total[pipe] += cycles
    return PipeCycles(**total)


def products(opcode: str) -> int:
    """Multiply-adds of a matrix product; those of tf32 count twice, as they take twice as long. Of all else none."""
    match = _PRODUCT.match(opcode)
    return 16 * 8 * int(match[1]) * (2 if ".TF32" in opcode else 1) if match else 0


def lane_bytes(opcode: str) -> int:
    """Bytes that a lane loads or stores, 4 if they are fewer; of LDSM, those of its matrices."""
    parts = opcode.split(".")
    if parts[0] == "LDSM":
        return 4 * int(parts[-1]) if parts[-1] in ("2", "4") else 4
    return next((int(part) // 8 for part in parts if part in ("64", "128")), 4)


def _of(opcode: str, rates: PipeRates) -> tuple[str, float]:
    kind = kind_of(opcode)
    if kind == "HMMA":
        return "tensor", products(opcode) * SCHEDULERS / rates.tensor
    if kind in _FMA:
        return "fma", warp_cycles(rates.fp32)
    if kind in _FP64:
        return "fp64", warp_cycles(rates.fp64)
    if kind in _SPECIAL:
        return "special", warp_cycles(rates.special)
    if kind == "SHFL":
        return "shared", byte_cycles(WAVEFRONT_BYTES, WAVEFRONT_BYTES)
    if kind in _SHARED:
        return "shared", byte_cycles(LANES * lane_bytes(opcode), rates.shared)
    if kind in _GLOBAL:
        return "l2", byte_cycles(LANES * lane_bytes(opcode), rates.l2)
    if _NOWHERE.fullmatch(kind):
        return "", 0.0
    return "alu", warp_cycles(rates.alu)
