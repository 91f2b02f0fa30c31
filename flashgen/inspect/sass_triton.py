"""Triton's attention kernel for a problem and a tile of ours: its code, or why there is none."""

from __future__ import annotations

import tempfile
from importlib.util import find_spec
from pathlib import Path

from flashgen.inspect.sass import Code, disassemble
from flashgen.inspect.sass_paths import product_paths
from flashgen.spec import AttentionSpec, Causal
from flashgen.target import Target, capability
from flashgen.tile_plan import TilePlan

_STAGES = 2  # asynchronous copies, as ours; with more, Triton needs more instructions


def triton_code(spec: AttentionSpec, plan: TilePlan, target: Target) -> tuple[Code | None, str]:
    """The code of Triton's kernel, compiled here, and why there is none.

    Args:
        spec: what to compute.
        plan: tile and warps.
        target: what to compile for.
    """
    sizes = (spec.head_dim, spec.head_dim_v, plan.br, plan.bc)
    if find_spec("triton") is None:
        return None, "Triton is not installed: pip install 'flashgen[judges]'"
    if any(size < 16 or size & (size - 1) for size in sizes):
        return None, "Triton's tiles and head dims are powers of two, from 16 on"
    from flashgen.inspect.triton_compile import compile_attention

    try:
        kernel = compile_attention(
            spec.dtype.name,
            (spec.head_dim, spec.head_dim_v),
            (plan.br, plan.bc),
            causal=spec.causal is not Causal.NONE,
            warps=plan.knobs.warps,
            stages=_STAGES,
            arch=capability(target),
        )
    except (
        Exception
    ) as error:  # what a foreign compiler raises for a target or tile that it cannot do is not ours to know
        return None, f"Triton cannot compile it ({type(error).__name__})"
    with tempfile.TemporaryDirectory() as folder:
        cubin = Path(folder) / "attention.cubin"
        cubin.write_bytes(kernel.cubin)
        code = (disassemble(cubin) or {}).get("attention")
    if code is None or not product_paths(code):
        return None, f"Triton uses neither mma nor wgmma on {target}"
    return code, ""
