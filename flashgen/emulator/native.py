"""The machine: C++ under machine/, compiled once by the host's compiler, cached, loaded through ctypes."""

from __future__ import annotations

import ctypes
import os
import platform
import shlex
import subprocess
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from importlib import resources
from pathlib import Path
from typing import ClassVar

from flashgen.compilation.artifact import Compiled
from flashgen.compilation.builder import build
from flashgen.compilation.diagnostics import compile_error
from flashgen.compilation.toolchains.host import find_compiler
from flashgen.emulator.abi import ABI_VERSION, STRUCTURES, LaunchDesc, ProgramDesc
from flashgen.errors import LaunchError
from flashgen.source import HostSource, Source
from flashgen.target import Target, required_features

# No contraction: PTX says where it fuses. Wrapping and aliasing are what PTX means by them.
_FLAGS = (
    "-std=c++17", "-O2", "-ftree-vectorize", "-fPIC", "-fvisibility=hidden", "-ffp-contract=off",
    "-fno-math-errno", "-fno-trapping-math", "-fwrapv", "-fno-strict-aliasing", "-pthread",
)  # fmt: skip
_LEVELS = ("x86-64-v4", "x86-64-v3", "x86-64-v2")  # the best first
_ARCHS = {"x86_64": _LEVELS, "aarch64": ("aarch64",)}
_ARCH_FLAGS = {**{level: (f"-march={level}",) for level in _LEVELS}, "aarch64": ("-march=armv8-a",)}
_FILE_MARK = "// ---- file "


class MachineToolchain:
    """Compiles the machine's files side by side and links them."""

    name: ClassVar[str] = "emulator"

    def identity(self) -> tuple[tuple[str, str], ...]:
        """Version line and machine triple, as the compiler itself tells them."""
        compiler = find_compiler()
        return (("compiler", compiler.version), ("machine", compiler.machine))

    def flags(self, target: Target) -> tuple[str, ...]:
        """Every flag."""
        return (*_FLAGS, *_ARCH_FLAGS[target.arch])

    def compile(self, source: Source, workdir: Path) -> Compiled:
        """Compiles the files that the source's text holds to ``{"so": bytes}``."""
        files = split_files(source.text)
        for name, text in files.items():
            (workdir / name).write_text(text, encoding="utf-8")
        units = sorted((name for name in files if name.endswith(".cpp")), key=lambda name: -len(files[name]))
        command = [*find_compiler().command, *self.flags(source.target)]
        with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
            logs = list(pool.map(lambda unit: _run([*command, "-c", unit], source, workdir), units))
        objects = [unit.replace(".cpp", ".o") for unit in units]
        logs.append(_run([*command, "-shared", "-o", "machine.so", *objects], source, workdir))
        return Compiled({"so": (workdir / "machine.so").read_bytes()}, log="".join(logs))


def machine_source() -> HostSource:
    """All files of the machine as one text, so that a change of any makes another artifact."""
    folder = resources.files("flashgen.emulator") / "machine"
    files = sorted((item for item in folder.iterdir() if item.name.endswith((".cpp", ".hpp"))), key=lambda f: f.name)
    text = "".join(f"{_FILE_MARK}{item.name}\n{item.read_text(encoding='utf-8')}" for item in files)
    return HostSource(text, "emu_launch", Target("cpu", _host_arch()), "emulator.cpp")


def split_files(text: str) -> dict[str, str]:
    """The files of `machine_source`, by name."""
    pieces = text.split(_FILE_MARK)[1:]
    return {name: body for name, _, body in (piece.partition("\n") for piece in pieces)}


def _host_arch() -> str:
    """The instruction set to compile for: the best that the host has, which changes no result."""
    archs = _ARCHS.get(platform.machine(), ("x86-64-v2",))
    try:
        words = set(Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").split())
    except OSError:
        words = set()
    able = [arch for arch in archs if required_features(Target("cpu", arch)) <= words]
    return able[0] if able else archs[-1]


def _run(command: list[str], source: Source, workdir: Path) -> str:
    env = {**os.environ, "LC_ALL": "C", "TMPDIR": str(workdir)}
    done = subprocess.run(
        command, cwd=workdir, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, errors="replace", check=False,
    )  # fmt: skip
    if done.returncode != 0:
        raise compile_error(source, done.stdout, shlex.join(command), done.returncode)
    return done.stdout


class Machine:
    """The loaded library.

    Attributes:
        handlers: number of each handler, by name.
    """

    def __init__(self, path: Path) -> None:
        self._library = ctypes.CDLL(str(path))
        self._library.emu_handler_name.restype = ctypes.c_char_p
        self._library.emu_program_create.restype = ctypes.c_void_p
        self._library.emu_program_destroy.argtypes = [ctypes.c_void_p]
        self._library.emu_launch.argtypes = [ctypes.c_void_p, ctypes.POINTER(LaunchDesc)]
        self._check_abi()
        count = int(self._library.emu_handler_count())
        self.handlers = {self._library.emu_handler_name(k).decode(): k for k in range(count)}

    def _check_abi(self) -> None:
        sizes = (ctypes.c_uint32 * len(STRUCTURES))()
        version = self._library.emu_abi(sizes)
        if (version, list(sizes)) != (ABI_VERSION, [size for _, size in STRUCTURES]):
            raise LaunchError(
                f"The emulator's library has another layout than this flashgen: {version}, {list(sizes)}."
            )

    def create(self, desc: ProgramDesc) -> int:
        """Makes a program; returns its handle.

        Raises:
            LaunchError: the host has no memory for it.
        """
        handle = self._library.emu_program_create(ctypes.byref(desc))
        if not handle:
            raise LaunchError("The emulator could not load a program: out of memory.")
        return int(handle)

    def destroy(self, handle: int) -> None:
        """Frees a program."""
        self._library.emu_program_destroy(handle)

    def launch(self, handle: int, desc: LaunchDesc) -> None:
        """Runs a program; the GIL is free meanwhile.

        Raises:
            LaunchError: the host has no memory for it.
        """
        if self._library.emu_launch(handle, ctypes.byref(desc)) != 0:
            raise LaunchError("The emulator ran out of memory.")


@cache
def machine() -> Machine:
    """The machine, built at the first call on this host and user.

    Raises:
        ToolchainError: there is no C++ compiler.
    """
    return Machine(build(machine_source(), MachineToolchain()).path)
