"""What the tensor-core families share: where they run, how rows lie in shared memory, which parts they take."""

from __future__ import annotations

from collections.abc import Mapping

from flashgen.families.base import Family
from flashgen.families.cuda_common import ceil_div, head_dim_refusal
from flashgen.spec import AttentionSpec
from flashgen.target import Target, capability

_CHUNK = 16  # bytes that a lane copies, and that it names for ldmatrix
_FIRST = {"fp16": 75, "bf16": 80}  # capability with tensor cores for the dtype


class MmaFamily(Family):
    """A family that multiplies with mma.sync."""

    kind = "cuda"
    language = "cuda"

    def refusal(self, spec: AttentionSpec, target: Target) -> str | None:
        """fp16 since sm_75, bf16 since sm_80, head dims up to 256."""
        refused = super().refusal(spec, target) or head_dim_refusal(spec)
        first = _FIRST.get(spec.dtype.name)
        if refused is None and first is None:
            return "takes fp16 and bf16"
        if refused is None and first is not None and capability(target) < first:
            return f"takes {spec.dtype} from sm_{first} on"
        return refused


def has_cp_async(target: Target) -> bool:
    """Whether the architecture copies to shared memory past the registers, and multiplies 16 deep."""
    return capability(target) >= 80


def mma_constants(target: Target) -> Mapping[str, str]:
    """Which wrappers of mma.sync a template takes."""
    return {"mma": "sm80" if has_cp_async(target) else "sm75"}


def row_bytes(spec: AttentionSpec, dim: int) -> int:
    """Bytes of a row of ``dim`` elements in shared memory: whole chunks of 16 bytes."""
    return ceil_div(dim * spec.dtype.size, _CHUNK) * _CHUNK
