"""Kernel families, and the choice among them."""

from __future__ import annotations

from flashgen.errors import SpecError
from flashgen.families.base import Family
from flashgen.families.cpu_decode import CpuDecode
from flashgen.families.cpu_fa1 import CpuFa1
from flashgen.families.cpu_fa2 import CpuFa2
from flashgen.families.cpu_standard import CpuStandard
from flashgen.families.cuda_decode import CudaDecode
from flashgen.families.cuda_fa1 import CudaFa1
from flashgen.families.cuda_fa2_mma import CudaFa2Mma
from flashgen.families.cuda_fa2_simt import CudaFa2Simt
from flashgen.families.cuda_standard import CudaStandard
from flashgen.spec import AttentionSpec
from flashgen.target import Target

FAMILIES: tuple[Family, ...] = (
    CpuStandard(),
    CpuFa1(),
    CpuFa2(),
    CpuDecode(),
    CudaStandard(),
    CudaFa1(),
    CudaFa2Simt(),
    CudaFa2Mma(),
    CudaDecode(),
)
ALGORITHMS = ("standard", "fa1", "fa2", "decode")


def family_named(name: str) -> Family:
    """The family of that name (KeyError if there is none)."""
    return {family.name: family for family in FAMILIES}[name]


def decoding(spec: AttentionSpec, target: Target) -> Family | None:
    """The family for few query rows against many keys, if there is one for the request."""
    able = (family for family in FAMILIES if family.packs_heads and family.refusal(spec, target) is None)
    return next(able, None)


def serving(spec: AttentionSpec, target: Target, algorithm: str = "auto") -> tuple[Family, ...]:
    """Families that compute ``spec`` on ``target``, best first.

    Raises:
        SpecError: the algorithm is unknown, or nothing serves the request; the message says why.
    """
    if algorithm != "auto" and algorithm not in ALGORITHMS:
        raise SpecError(f"Algorithm {algorithm!r} is not known. Choose auto, {', '.join(ALGORITHMS)}.")
    asked = [family for family in FAMILIES if algorithm in ("auto", family.algorithm)]
    able = [family for family in asked if family.refusal(spec, target) is None]
    if able:
        return tuple(sorted(able, key=lambda family: -family.priority))
    here = [family for family in asked if family.kind == target.kind]
    if not here:
        offered = sorted({family.algorithm for family in FAMILIES if family.kind == target.kind})
        instead = f"Algorithms for it: {', '.join(offered)}." if offered else "No kernel family serves it yet."
        what = "no kernel" if algorithm == "auto" else f"no {algorithm} kernel"
        raise SpecError(f"There is {what} for target {target}. {instead}")
    reasons = "; ".join(f"{family.name} {family.refusal(spec, target)}" for family in here)
    raise SpecError(f"No kernel family computes {spec.summary} on {target}: {reasons}.")
