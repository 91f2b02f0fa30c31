"""The host's C++ compiler: g++ or clang++, a plain C ABI, no framework headers."""

from __future__ import annotations

import errno
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import ClassVar

from flashgen.compilation.artifact import Compiled
from flashgen.compilation.diagnostics import compile_error
from flashgen.compilation.process import run_compiler
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
_ELF = b"\x7fELF"
_OLDEST = {"gcc": 12, "clang": 12}  # the first with x86-64-v4, __builtin_bit_cast and __builtin_shufflevector
_INSTALL = (
    "Install one (Debian, Ubuntu: apt-get install g++; Fedora: dnf install gcc-c++; "
    "conda: conda install cxx-compiler) or set CXX."
)
_PROBE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Compiler:
    """A compiler that answered.

    Attributes:
        command: how to call it; the program is an absolute path.
        family: ``gcc`` or ``clang``.
        version: its own version line.
        machine: the triple that it compiles for.
    """

    command: tuple[str, ...]
    family: str
    version: str
    machine: str

    @property
    def identity(self) -> tuple[tuple[str, str], ...]:
        """What of it changes its output, and therefore an artifact's key. Where it stands does not."""
        arguments = tuple(("argument", argument) for argument in self.command[1:])
        return (("compiler", self.version), ("machine", self.machine), *arguments)


class HostToolchain:
    """Compiles C++ kernels to shared libraries with the compiler that this machine has."""

    name: ClassVar[str] = "host"

    def identity(self) -> tuple[tuple[str, str], ...]:
        """Version line and machine triple, as the compiler itself tells them, and the arguments within CXX."""
        return find_compiler().identity

    def flags(self, target: Target) -> tuple[str, ...]:
        """The same flags on every machine: a level such as x86-64-v3 stands for a fixed feature list."""
        # Unique symbols would be shared between two kernels in one process; clang never makes them.
        extra = ("-fno-gnu-unique",) if find_compiler().family == "gcc" else ()
        return (*_FLAGS, *_ARCH_FLAGS[target.arch], *extra)

    def compile(self, source: Source, workdir: Path) -> Compiled:
        """Compiles one source to ``{"so": bytes}``.

        Raises:
            ToolchainError: there is no compiler for the target, or it does not start.
            CompileError: it refused the source.
            OSError: the directory gave out.
        """
        compiler = find_compiler()
        _check_machine(compiler, source.target)
        text, library = workdir / source.filename, workdir / "kernel.so"
        text.write_text(source.text, encoding="utf-8")
        command = [*compiler.command, *self.flags(source.target), "-o", library.name, text.name]
        try:
            done = run_compiler(command, workdir)
        except OSError as error:
            raise error if not workdir.is_dir() else _does_not_run(compiler.command, error) from error
        if done.returncode == 0 and library.is_file():
            contents = library.read_bytes()
            if contents.startswith(_ELF):
                return Compiled({"so": contents}, log=done.stdout)
        if not text.is_file():
            raise FileNotFoundError(errno.ENOENT, "it was removed during a build")
        raise compile_error(source, done.stdout, shlex.join(command), done.returncode)


def find_compiler() -> Compiler:
    """The C++ compiler: CXX, else the first that serves of g++ and clang++ on PATH and in the interpreter's prefix.

    Raises:
        ToolchainError: there is none, or it is too old; the message says how to install one.
    """
    cxx, search_path = read_settings().cxx, read_settings().search_path
    reasons = []
    for command in [_command(cxx, search_path)] if cxx else _candidates(search_path):
        answer = _probe(command, _stamp(command[0]))
        if isinstance(answer, Compiler):
            return answer
        reasons.append(answer)
    raise ToolchainError(f"{reasons[0] if reasons else 'No C++ compiler was found on PATH.'} {_INSTALL}")


def _candidates(search_path: str) -> Iterator[tuple[str, ...]]:
    own = str(Path(sys.prefix) / "bin")
    places = [(name, search_path) for name in ("g++", "clang++", "c++")]
    places += [(f"{os.uname().machine}-conda-linux-gnu-c++", own), ("g++", own)]
    for name, path in places:
        found = shutil.which(name, path=path)
        if found:
            yield (os.path.abspath(found),)  # PATH may have relative entries, and the compiler runs elsewhere


def _command(cxx: str, search_path: str) -> tuple[str, ...]:
    """CXX as a program, whose path may have spaces, or as a shell would read it: a program and arguments."""
    found = shutil.which(cxx, path=search_path)
    if found:
        return (os.path.abspath(found),)
    try:
        program, *arguments = shlex.split(cxx)
    except ValueError as error:
        raise ToolchainError(f"CXX={cxx} cannot be read as a command: {error}. {_INSTALL}") from error
    found = shutil.which(program, path=search_path)
    if not found:
        raise ToolchainError(f"CXX={cxx} names no program that can be run: {program} was not found. {_INSTALL}")
    return (os.path.abspath(found), *arguments)


def _stamp(program: str) -> tuple[int, ...]:
    """Differs once the program was replaced: a long-lived process then asks it again."""
    try:
        status = os.stat(program)
    except OSError:
        return ()
    return (status.st_ino, status.st_size, status.st_mtime_ns)


@cache
def _probe(command: tuple[str, ...], stamp: tuple[int, ...]) -> Compiler | str:
    """Asks a compiler what it is; returns a sentence if it does not serve."""
    shown = shlex.join(command)
    try:
        done = run_compiler([*command, "-v"], timeout=_PROBE_SECONDS)
    except OSError as error:
        return f"The C++ compiler {shown} does not run: {error.strerror or error}."
    except subprocess.TimeoutExpired:
        return f"The C++ compiler {shown} did not answer '-v' for {_PROBE_SECONDS:.0f} s."
    version = re.search(r"^.*?\b(gcc|clang) version (\d+).*$", done.stdout, re.MULTILINE)
    machine = re.search(r"^Target: (\S+)", done.stdout, re.MULTILINE)
    if not version or not machine:
        return f"{shown} is neither g++ nor clang++: '-v' told no version."
    line = version[0].strip()
    if int(version[2]) < _OLDEST[version[1]]:
        return f"{shown} ({line}) is too old: flashgen needs g++ {_OLDEST['gcc']} or clang++ {_OLDEST['clang']}."
    return Compiler(command, version[1], line, machine[1])


def _does_not_run(command: tuple[str, ...], error: OSError) -> ToolchainError:
    return ToolchainError(f"The C++ compiler {shlex.join(command)} does not run: {error.strerror or error}. {_INSTALL}")


def _check_machine(compiler: Compiler, target: Target) -> None:
    machine = "aarch64" if target.arch == "aarch64" else "x86_64"
    if not compiler.machine.startswith(machine):
        raise ToolchainError(
            f"{shlex.join(compiler.command)} compiles for {compiler.machine}, not for {target}. "
            f"Set CXX to a cross compiler, for instance CXX={machine}-linux-gnu-g++."
        )
