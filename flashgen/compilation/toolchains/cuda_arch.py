"""Which architecture a CUDA compiler is asked for: the target itself, or PTX for an older relative."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from flashgen.target import Target, capability


@dataclass(frozen=True, slots=True)
class ArchChoice:
    """What to compile for.

    Attributes:
        option: the value of ``-arch``: ``sm_80``, or ``compute_90`` when only PTX can be had.
        ptx_only: the compiler does not know the target; the driver will translate the PTX.
    """

    option: str
    ptx_only: bool


def choose_arch(target: Target, supported: Sequence[int]) -> ArchChoice | None:
    """The target if the compiler knows it, else PTX for the newest older architecture that it knows.

    None if the target is older than all of them.
    """
    wanted = capability(target)
    if wanted in supported:
        return ArchChoice(target.arch, ptx_only=False)
    older = [arch for arch in supported if arch < wanted]
    return ArchChoice(f"compute_{max(older)}", ptx_only=True) if older else None
