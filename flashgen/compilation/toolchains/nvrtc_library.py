"""NVRTC, NVIDIA's runtime compiler, through ctypes. It needs no GPU, no driver and no CUDA toolkit."""

from __future__ import annotations

import ctypes
import ctypes.util
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from flashgen.log import logger
from flashgen.settings import read_settings

_SUCCESS, _COMPILATION_FAILED = 0, 6
_SONAME = re.compile(r"libnvrtc\.so(\.\d+)*")  # neither libnvrtc-builtins.so nor libnvrtc.alt.so


@dataclass(frozen=True, slots=True)
class Program:
    """What one compilation gave. ``cubin`` is empty when only PTX was asked for, both when it failed."""

    succeeded: bool
    log: str
    ptx: bytes = b""
    cubin: bytes = b""


class Nvrtc:
    """One NVRTC library in this process.

    Attributes:
        path: where it was found.
        version: (major, minor), as the library itself says.
        archs: compute capabilities that it compiles for, ascending: 75, 80, ...
        release: its full release, ``13.5.37``.
    """

    def __init__(self, path: str) -> None:
        """Loads the library. Raises OSError or AttributeError if it is none."""
        self.path = path
        self._library = ctypes.CDLL(path)
        self._library.nvrtcGetErrorString.restype = ctypes.c_char_p
        self.version = self._read_version()
        self.archs = self._read_archs()
        empty = self.compile("", "empty.cu", (f"-arch=compute_{self.archs[-1]}",))
        release = re.search(rb"V(\d+\.\d+\.\d+)", empty.ptx)  # in a comment at the head of the PTX
        self.release = release[1].decode() if release else "{}.{}".format(*self.version)

    def compile(self, text: str, name: str, options: tuple[str, ...]) -> Program:
        """Compiles one source; a refusal is a Program too, with the log that says why."""
        program = ctypes.c_void_p()
        self._check(
            self._library.nvrtcCreateProgram(ctypes.byref(program), text.encode(), name.encode(), 0, None, None)
        )
        try:
            arguments = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
            status = self._library.nvrtcCompileProgram(program, len(options), arguments)
            log = self._read(program, "ProgramLog").rstrip(b"\0").decode(errors="replace")
            if status != _SUCCESS:
                reason = "" if status == _COMPILATION_FAILED and log else self._message(status)
                return Program(False, f"{log}{reason}")
            ptx = self._read(program, "PTX").rstrip(b"\0")
            return Program(True, log, ptx, self._read(program, "CUBIN"))
        finally:
            self._library.nvrtcDestroyProgram(ctypes.byref(program))

    def _read(self, program: ctypes.c_void_p, what: str) -> bytes:
        size = ctypes.c_size_t()
        self._check(getattr(self._library, f"nvrtcGet{what}Size")(program, ctypes.byref(size)))
        buffer = ctypes.create_string_buffer(size.value)
        self._check(getattr(self._library, f"nvrtcGet{what}")(program, buffer))
        return buffer.raw

    def _read_version(self) -> tuple[int, int]:
        major, minor = ctypes.c_int(), ctypes.c_int()
        self._check(self._library.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor)))
        return major.value, minor.value

    def _read_archs(self) -> tuple[int, ...]:
        count = ctypes.c_int()
        self._check(self._library.nvrtcGetNumSupportedArchs(ctypes.byref(count)))
        archs = (ctypes.c_int * count.value)()
        self._check(self._library.nvrtcGetSupportedArchs(archs))
        return tuple(sorted(archs))

    def _check(self, status: int) -> None:
        if status != _SUCCESS:
            raise OSError(f"{self.path}: {self._message(status)}")

    def _message(self, status: int) -> str:
        text: bytes = self._library.nvrtcGetErrorString(status)
        return text.decode()


def find_nvrtc() -> tuple[Nvrtc, ...]:
    """Every NVRTC at hand: those of wheels, newest first, then the toolkit's, then the system's."""
    return _find_nvrtc(tuple(sys.path), read_settings().cuda_path)


@cache
def _find_nvrtc(search_path: tuple[str, ...], cuda_path: str | None) -> tuple[Nvrtc, ...]:
    found: dict[tuple[int, int], Nvrtc] = {}
    for path in _candidates(search_path, cuda_path):
        try:
            library = Nvrtc(path)
        except (OSError, AttributeError) as error:
            logger.debug("nvrtc: %s cannot be used (%s)", path, error)
            continue
        found.setdefault(library.version, library)
    return tuple(found.values())


def _candidates(search_path: tuple[str, ...], cuda_path: str | None) -> Iterator[str]:
    wheels = {path for entry in search_path for path in Path(entry or ".").glob("nvidia/*/lib/libnvrtc.so.*")}
    yield from _newest_first(wheels)
    for root in filter(None, (cuda_path, "/usr/local/cuda")):
        yield from _newest_first(
            {path for part in ("lib64", "lib") for path in (Path(root) / part).glob("libnvrtc.so*")}
        )
    system = ctypes.util.find_library("nvrtc")
    if system:
        yield system


def _newest_first(paths: set[Path]) -> list[str]:
    libraries = {path.resolve() for path in paths if _SONAME.fullmatch(path.name)}
    return [str(path) for path in sorted(libraries, key=_version_in_name, reverse=True)]


def _version_in_name(path: Path) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", path.name)]
