"""How many instructions a tensor-core kernel's hot loop needs at least, by class, for one warp and one block of keys.

Everything else that ptxas adds is overhead: addresses, loop counters, moves, waits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from flashgen.families.cuda_common import LANES, ceil_div
from flashgen.inspect.sass_paths import Path
from flashgen.spec import AttentionSpec
from flashgen.target import Target, capability
from flashgen.tile_plan import TilePlan

_CHUNK = 8  # 16-bit elements that a lane copies at a time
_THREE_INPUT_MAX = (100, 103, 110)  # where ptxas takes the maximum of three at a time
OTHER = "other"


def ideal_mix(spec: AttentionSpec, plan: TilePlan, target: Target) -> dict[str, int]:
    """Class -> instructions, for a plan of `cuda_fa2_mma`.

    A class is an opcode, or several joined by ``+``: before sm_80, two conversions and a permutation take the place
    of each packed conversion, and a load and a store that of each asynchronous copy.

    Args:
        spec: what the kernel computes. Head dims count in whole 16-byte chunks.
        plan: its tile and knobs.
        target: what it is compiled for.
    """
    knobs, bc, turing = plan.knobs, plan.bc, capability(target) < 80
    m_tiles, chunks, chunks_v = knobs.rows // 16, ceil_div(spec.head_dim, _CHUNK), ceil_div(spec.head_dim_v, _CHUNK)
    steps = ceil_div(chunks, 2)  # of 16 dims; an odd chunk is half a step
    products_qk = bc // 8 * (chunks if turing else steps)
    products_pv = bc // 16 * chunks_v * (2 if turing else 1)
    fragments = bc // 16 * (steps + ceil_div(chunks_v, 2)) + (0 if knobs.q_in_registers else m_tiles * steps)
    scores, outputs, rows = m_tiles * bc // 2, m_tiles * chunks_v * 4, 2 * m_tiles  # of a lane
    maxima = scores // 2 if capability(target) in _THREE_INPUT_MAX else scores
    copies = sum(ceil_div(bc * row, LANES * knobs.warps) for row in (chunks, chunks_v))
    return {
        "HMMA": m_tiles * (products_qk + products_pv),
        "LDSM": fragments,
        "FFMA": scores,  # the exponents
        "MUFU": scores + rows,  # the weights, and what O and l are scaled by
        "FMNMX": maxima + 2 * rows,  # two of a row's are with other lanes
        "FADD": scores,  # the row sums
        ("F2F+PRMT" if turing else "F2FP"): scores + scores // 2 if turing else scores // 2,
        "FMUL": outputs + 2 * rows,  # O is scaled; so is l, and the maximum
        "SHFL": 2 * rows,
        ("LDG+STS" if turing else "LDGSTS"): 2 * copies if turing else copies,
        "BAR": 3 - knobs.stages,
    }


def classified(path: Path, classes: Mapping[str, int]) -> dict[str, int]:
    """A path's instructions by the classes of an ideal mix, what is in none of them last, as ``other``."""
    mix = _plain(path.mix)
    counts = {name: sum(mix[kind] for kind in name.split("+")) for name in classes}
    return {**counts, OTHER: mix.total() - sum(counts.values())}


def others(path: Path, classes: Mapping[str, int]) -> dict[str, int]:
    """The opcodes that are in no class, most frequent first."""
    known = {kind for name in classes for kind in name.split("+")}
    return {kind: count for kind, count in _plain(path.mix).most_common() if kind not in known}


def _plain(mix: Counter[str]) -> Counter[str]:
    """The maximum of three is a maximum."""
    renamed: Counter[str] = Counter()
    for kind, count in mix.items():
        renamed["FMNMX" if kind == "FMNMX3" else kind] += count
    return renamed
