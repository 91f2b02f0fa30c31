"""Which CUDA compiler to use for a target, of those at hand."""

from __future__ import annotations

from flashgen.compilation.artifact import Toolchain
from flashgen.compilation.toolchains.nvcc import NvccToolchain, find_nvcc
from flashgen.compilation.toolchains.nvrtc import NvrtcToolchain
from flashgen.compilation.toolchains.nvrtc_library import find_nvrtc
from flashgen.errors import ToolchainError
from flashgen.target import Target, capability


def cuda_toolchain(target: Target) -> Toolchain:
    """An NVRTC that knows the target, else an nvcc that does, else the newest NVRTC, which says why not.

    Raises:
        ToolchainError: this machine has no CUDA compiler; the message says how to get one.
    """
    libraries = find_nvrtc()
    for library in libraries:
        if capability(target) in library.archs:
            return NvrtcToolchain(library)
    compiler = find_nvcc()
    if compiler is not None and (not libraries or capability(target) in compiler.archs):
        return NvccToolchain(compiler)
    if libraries:
        return NvrtcToolchain(max(libraries, key=lambda library: library.version))
    raise ToolchainError(
        "No CUDA compiler was found. pip install 'flashgen[cuda]' brings NVRTC (nvidia-cuda-nvrtc); "
        "it needs no GPU, no driver and no CUDA toolkit."
    )
