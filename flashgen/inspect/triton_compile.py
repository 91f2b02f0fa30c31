"""Compiling Triton kernels without a GPU. The extra `judges` installs Triton; only this file and its kernel need it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from flashgen.inspect.triton_attention import attention


@dataclass(frozen=True, slots=True)
class TritonKernel:
    """What Triton made of a kernel.

    Attributes:
        ptx: for any GPU of the architecture or later.
        cubin: machine code.
        shared: bytes of dynamic shared memory of a CTA.
        threads: of a CTA.
    """

    ptx: str
    cubin: bytes
    shared: int
    threads: int


def compile_for(
    kernel: object,
    types: Mapping[str, str],
    constants: Mapping[str, object],
    *,
    warps: int = 4,
    stages: int = 3,
    arch: int = 80,
) -> TritonKernel:
    """Compiles a kernel whose pointers, and whose strides (``..._row``), are multiples of 16.

    Args:
        kernel: a `triton.jit` function.
        types: of its arguments, in order: ``*fp16``, ``i32``, ...
        constants: its constexpr arguments.
        warps: of a CTA.
        stages: tiles that its pipelines hold, where a loop does not say otherwise.
        arch: compute capability.
    """
    signature = {**types, **dict.fromkeys(constants, "constexpr")}
    multiples = {
        (n,): [["tt.divisibility", 16]]
        for n, (name, kind) in enumerate(types.items())
        if kind.startswith("*") or name.endswith("_row")
    }
    source = ASTSource(kernel, signature=signature, constexprs=constants, attrs=multiples)
    options = {"num_warps": warps, "num_stages": stages}
    built = triton.compile(source, target=GPUTarget("cuda", arch, 32), options=options)
    return TritonKernel(built.asm["ptx"], built.asm["cubin"], built.metadata.shared, 32 * warps)


def compile_attention(
    dtype: str, dims: tuple[int, int], tile: tuple[int, int], *, causal: bool, warps: int, stages: int, arch: int
) -> TritonKernel:
    """Compiles `attention`.

    Args:
        dtype: ``fp16``, ``bf16`` or ``fp32`` (as TF32).
        dims: head dims of q and k, and of v; powers of two from 16 on.
        tile: query rows and keys, likewise.
        causal: whether rows see keys up to their own number only.
        warps: of a CTA.
        stages: tiles of K and of V that are on chip or on their way.
        arch: compute capability.
    """
    types = dict.fromkeys(("q", "k", "v", "out"), f"*{dtype}") | {"lse": "*fp32"}
    types |= dict.fromkeys(("q_row", "k_row", "v_row", "out_row", "seqlen_q", "seqlen_k"), "i32") | {"scale": "fp32"}
    constants = {"BR": tile[0], "BC": tile[1], "D": dims[0], "DV": dims[1], "CAUSAL": causal, "STAGES": stages}
    return compile_for(attention, types, constants, warps=warps, stages=stages, arch=arch)
