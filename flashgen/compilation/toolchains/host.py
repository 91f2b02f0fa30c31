"""The host's C++ compiler: g++ or clang++, a plain C ABI, no framework headers."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import ClassVar

from flashgen.compilation.artifact import Compiled
from flashgen.compilation.diagnostics import compile_error
from flashgen.errors import ToolchainError
from flashgen.settings import read_settings
from flashgen.source import Source
from flashgen.target import Target

# -ffast-math is never used: it would break the -inf of masks and turn on flush-to-zero in the process.
_FLAGS = (
    "-std=c++17", "-O3", "-fPIC", "-shared", "-fvisibility=hidden",
    "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=fast",
)  # fmt: skip
_ARCH_FLAGS = {
    "x86-64-v2": ("-march=x86-64-v2",),
    "x86-64-v3": ("-march=x86-64-v3",),
    "x86-64-v4": ("-march=x86-64-v4", "-mprefer-vector-width=512"),
    "x86-64-v4-bf16": ("-march=x86-64-v4", "-mavx512bf16", "-mprefer-vector-width=512"),
    "aarch64": ("-march=armv8-a",),
}
_OLDEST = {"gcc": 11, "clang": 12}  # the first that know x86-64-v4 and __builtin_bit_cast
_INSTALL = (
    "Install one (Debian, Ubuntu: apt-get install g++; Fedora: dnf install gcc-c++; "
    "conda: conda install cxx-compiler) or set CXX."
)


@dataclass(frozen=True, slots=True)
class Compiler:
    """A compiler that answered.

    Attributes:
        command: how to call it.
        family: ``gcc`` or ``clang``.
        version: its own version line.
        machine: the triple that it compiles for.
    """

    command: tuple[str, ...]
    family: str
    version: str
    machine: str


class HostToolchain:
    """Compiles C++ kernels to shared libraries with the compiler that this machine has."""

    name: ClassVar[str] = "host"

    def identity(self) -> tuple[tuple[str, str], ...]:
        """Version line and machine triple, as the compiler itself tells them."""
        compiler = find_compiler()
        return (("compiler", compiler.version), ("machine", compiler.machine))

    def flags(self, target: Target) -> tuple[str, ...]:
        """The same flags on every machine: a level such as x86-64-v3 stands for a fixed feature list."""
        # Unique symbols would be shared between two kernels in one process; clang never makes them.
        extra = ("-fno-gnu-unique",) if find_compiler().family == "gcc" else ()
        return (*_FLAGS, *_ARCH_FLAGS[target.arch], *extra)

    def compile(self, source: Source, workdir: Path) -> Compiled:
        """Compiles one source to ``{"so": bytes}``."""
        compiler = find_compiler()
        _check_machine(compiler, source.target)
        (workdir / source.filename).write_text(source.text, encoding="utf-8")
        command = [*compiler.command, *self.flags(source.target), "-o", "kernel.so", source.filename]
        done = _run(command, workdir)
        library = workdir / "kernel.so"
        if done.returncode != 0 or not library.is_file():
            raise compile_error(source, done.stdout, shlex.join(command), done.returncode)
        return Compiled({"so": library.read_bytes()}, log=done.stdout)


def find_compiler() -> Compiler:
    """The C++ compiler: CXX, else g++ or clang++ on PATH, else one in the interpreter's prefix.

    Raises:
        ToolchainError: there is none, or it is too old; the message says how to install one.
    """
    return _find_compiler(read_settings().cxx, os.environ.get("PATH", os.defpath))


@cache
def _find_compiler(cxx: str | None, search_path: str) -> Compiler:
    if cxx:
        program, *arguments = shlex.split(cxx)
        return _probe((shutil.which(program, path=search_path) or program, *arguments))
    own = str(Path(sys.prefix) / "bin")
    conda = f"{os.uname().machine}-conda-linux-gnu-c++"
    for name, path in (
        ("g++", search_path),
        ("clang++", search_path),
        ("c++", search_path),
        (conda, own),
        ("g++", own),
    ):
        found = shutil.which(name, path=path)
        if found:
            return _probe((found,))
    raise ToolchainError(f"No C++ compiler was found on PATH. {_INSTALL}")


def _probe(command: tuple[str, ...]) -> Compiler:
    try:
        done = _run([*command, "-v"], None)
    except OSError as error:
        reason = error.strerror or error
        raise ToolchainError(f"The C++ compiler {shlex.join(command)} does not run: {reason}. {_INSTALL}") from error
    version = re.search(r"^.*?\b(gcc|clang) version (\d+).*$", done.stdout, re.MULTILINE)
    machine = re.search(r"^Target: (\S+)", done.stdout, re.MULTILINE)
    if not version or not machine:
        raise ToolchainError(f"{shlex.join(command)} is neither g++ nor clang++: '-v' told no version. {_INSTALL}")
    if int(version[2]) < _OLDEST[version[1]]:
        raise ToolchainError(
            f"{version[0].strip()} is too old: flashgen needs g++ {_OLDEST['gcc']} or clang++ {_OLDEST['clang']}. {_INSTALL}"
        )
    return Compiler(command, version[1], version[0].strip(), machine[1])


def _check_machine(compiler: Compiler, target: Target) -> None:
    machine = "aarch64" if target.arch == "aarch64" else "x86_64"
    if not compiler.machine.startswith(machine):
        raise ToolchainError(
            f"{shlex.join(compiler.command)} compiles for {compiler.machine}, not for {target}. "
            f"Set CXX to a cross compiler, for instance CXX={machine}-linux-gnu-g++."
        )


def _run(command: list[str], workdir: Path | None) -> subprocess.CompletedProcess[str]:
    """Runs the compiler with English messages, its temporary files in ``workdir``, both streams in stdout.

    Variables that add include or library paths are taken away: the output must depend on the key only.
    """
    dropped = {"CPATH", "CPLUS_INCLUDE_PATH", "C_INCLUDE_PATH", "LIBRARY_PATH", "GCC_COMPARE_DEBUG"}
    env = {name: value for name, value in os.environ.items() if name not in dropped} | {"LC_ALL": "C"}
    if workdir is not None:
        env["TMPDIR"] = str(workdir)
    return subprocess.run(
        command, cwd=workdir, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, errors="replace", check=False,
    )  # fmt: skip
