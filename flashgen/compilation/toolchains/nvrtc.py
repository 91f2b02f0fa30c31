"""The NVRTC toolchain: CUDA source to CUBIN and PTX, in this process."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from flashgen.compilation.artifact import Compiled
from flashgen.compilation.diagnostics import compile_error
from flashgen.compilation.toolchains.cuda_arch import ArchChoice, choose_arch
from flashgen.compilation.toolchains.nvrtc_library import Nvrtc
from flashgen.compilation.toolchains.ptxas_log import parse_ptxas_log
from flashgen.errors import ToolchainError
from flashgen.log import warn_once
from flashgen.source import Source
from flashgen.target import Target

# No fast-math: -inf of masks, NaN and subnormals must stay what they are.
_FLAGS = ("--std=c++17", "--fmad=true", "--generate-line-info", "--ptxas-options=-v")


class NvrtcToolchain:
    """Compiles CUDA kernels with one NVRTC library."""

    name: ClassVar[str] = "nvrtc"

    def __init__(self, library: Nvrtc) -> None:
        """Uses a library that `find_nvrtc` found."""
        self.library = library

    def identity(self) -> tuple[tuple[str, str], ...]:
        """The library's full release; equal releases give equal bytes on any machine."""
        return (("compiler", f"nvrtc {self.library.release}"),)

    def flags(self, target: Target) -> tuple[str, ...]:
        """Flags for a target, with the architecture that this NVRTC really compiles for."""
        return (f"-arch={self.choose(target).option}", *_FLAGS)

    def compile(self, source: Source, workdir: Path) -> Compiled:
        """Compiles to ``{"cubin": ..., "ptx": ...}``, or to PTX alone for a target that is too new."""
        choice = self.choose(source.target)
        flags = self.flags(source.target)
        program = self.library.compile(source.text, source.filename, flags)
        if not program.succeeded:
            command = " ".join(["nvrtc", self.library.release, *flags, source.filename])
            raise compile_error(source, program.log, command, status=1)
        if choice.ptx_only:
            note = ptx_only_note(source.target, choice, f"NVRTC {self.library.release}")
            warn_once(note)
            return Compiled({"ptx": program.ptx}, log=f"{note}\n{program.log}", report=parse_ptxas_log(note))
        return Compiled(
            {"cubin": program.cubin, "ptx": program.ptx}, log=program.log, report=parse_ptxas_log(program.log)
        )

    def choose(self, target: Target) -> ArchChoice:
        """What to compile for.

        Raises:
            ToolchainError: the target is older than anything that this NVRTC knows.
        """
        choice = choose_arch(target, self.library.archs)
        if choice is None:
            raise too_old(target, f"NVRTC {self.library.release}", self.library.archs[0])
        return choice


def too_old(target: Target, compiler: str, oldest: int) -> ToolchainError:
    """The error for a target that a compiler has dropped."""
    return ToolchainError(
        f"{compiler} compiles for sm_{oldest} and later, not for {target}. NVRTC 12.9 still does: "
        "pip install 'flashgen[cuda12]' (nvidia-cuda-nvrtc-cu12); it may stand beside the newer one."
    )


def ptx_only_note(target: Target, choice: ArchChoice, compiler: str) -> str:
    """What to say when a compiler does not know a target yet."""
    return (
        f"warning: {compiler} does not know {target} yet, so the kernel is built as PTX for {choice.option}; "
        "the driver translates it when it is loaded. A newer NVRTC compiles it ahead of time and reports its resources."
    )
