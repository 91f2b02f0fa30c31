"""The nvcc toolchain: a CUDA toolkit's own compiler, where one is installed."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import ClassVar

from flashgen.compilation.artifact import Compiled
from flashgen.compilation.diagnostics import compile_error
from flashgen.compilation.toolchains.cuda_arch import ArchChoice, choose_arch
from flashgen.compilation.toolchains.nvrtc import ptx_only_note, too_old
from flashgen.compilation.toolchains.ptxas_log import parse_ptxas_log
from flashgen.errors import ToolchainError
from flashgen.log import warn_once
from flashgen.settings import read_settings
from flashgen.source import Source
from flashgen.target import Target

_FLAGS = ("-std=c++17", "-fmad=true", "-lineinfo", "-Xptxas=-v")


@dataclass(frozen=True, slots=True)
class NvccCompiler:
    """An nvcc that answered: its command, full release, and the compute capabilities that it lists."""

    command: str
    release: str
    archs: tuple[int, ...]


class NvccToolchain:
    """Compiles CUDA kernels with nvcc."""

    name: ClassVar[str] = "nvcc"

    def __init__(self, compiler: NvccCompiler) -> None:
        """Uses a compiler that `find_nvcc` found."""
        self.compiler = compiler

    def identity(self) -> tuple[tuple[str, str], ...]:
        """The compiler's full release."""
        return (("compiler", f"nvcc {self.compiler.release}"),)

    def flags(self, target: Target) -> tuple[str, ...]:
        """Flags for a target, with the architecture that this nvcc really compiles for."""
        return (f"-arch={self.choose(target).option}", *_FLAGS)

    def compile(self, source: Source, workdir: Path) -> Compiled:
        """Compiles to ``{"cubin": ..., "ptx": ...}``, or to PTX alone for a target that is too new."""
        choice = self.choose(source.target)
        (workdir / source.filename).write_text(source.text, encoding="utf-8")
        stem = workdir / Path(source.filename).stem
        output = ["-ptx", "-o", f"{stem}.ptx"] if choice.ptx_only else ["-cubin", "--keep", "-o", f"{stem}.cubin"]
        command = [self.compiler.command, *self.flags(source.target), *output, source.filename]
        done = _run(command, workdir)
        if done.returncode != 0:
            raise compile_error(source, done.stdout, shlex.join(command), done.returncode)
        ptx = Path(f"{stem}.ptx").read_bytes()
        if choice.ptx_only:
            note = ptx_only_note(source.target, choice, f"nvcc {self.compiler.release}")
            warn_once(note)
            return Compiled({"ptx": ptx}, log=f"{note}\n{done.stdout}", report=parse_ptxas_log(note))
        cubin = Path(f"{stem}.cubin").read_bytes()
        return Compiled({"cubin": cubin, "ptx": ptx}, log=done.stdout, report=parse_ptxas_log(done.stdout))

    def choose(self, target: Target) -> ArchChoice:
        """What to compile for.

        Raises:
            ToolchainError: the target is older than anything that this nvcc knows.
        """
        choice = choose_arch(target, self.compiler.archs)
        if choice is None:
            raise too_old(target, f"nvcc {self.compiler.release}", self.compiler.archs[0])
        return choice


def find_nvcc() -> NvccCompiler | None:
    """The nvcc of CUDA_PATH or CUDA_HOME, else of PATH, else None."""
    cuda_path = read_settings().cuda_path
    own = shutil.which("nvcc", path=str(Path(cuda_path) / "bin")) if cuda_path else None
    command = own or shutil.which("nvcc")
    return _probe(command) if command else None


@cache
def _probe(command: str) -> NvccCompiler | None:
    try:
        version = _run([command, "--version"], None).stdout
        archs = _run([command, "--list-gpu-arch"], None).stdout
    except OSError:
        return None
    release = re.search(r"V(\d+\.\d+\.\d+)", version)
    known = tuple(sorted(int(number) for number in re.findall(r"compute_(\d+)", archs)))
    return NvccCompiler(command, release[1], known) if release and known else None


def _run(command: list[str], workdir: Path | None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=workdir, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, errors="replace", check=False,
    )  # fmt: skip


def require_nvcc() -> NvccCompiler:
    """The nvcc at hand.

    Raises:
        ToolchainError: there is none.
    """
    compiler = find_nvcc()
    if compiler is None:
        raise ToolchainError(
            "No nvcc was found on PATH. Install a CUDA toolkit, or use NVRTC: pip install 'flashgen[cuda]'."
        )
    return compiler
