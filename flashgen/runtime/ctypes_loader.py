"""CPU kernels through ctypes: one pointer to one packed struct for each call."""

from __future__ import annotations

import ctypes
import struct
from pathlib import Path
from typing import ClassVar

from flashgen.compilation.artifact import Artifact
from flashgen.errors import LaunchError
from flashgen.runtime.device import host_features, host_name
from flashgen.runtime.kernel import Executable, Launch, Problem
from flashgen.runtime.openmp import thread_pool
from flashgen.source import KernelSource
from flashgen.target import required_features

# struct AttentionArgs of templates/cpu/parts/abi.hpp: all its fields take 8 bytes.
ABI_VERSION = 1
_POINTERS = struct.Struct("=q6Q")
_SIZES = struct.Struct("=5q12q")
_CALL = struct.Struct("=dqQ")
ARGS_BYTES = _POINTERS.size + _SIZES.size + _CALL.size

_OK, _WRONG_ABI, _OUT_OF_MEMORY = 0, 1, 2


class CtypesLoader:
    """Loads a shared library into this process."""

    name: ClassVar[str] = "ctypes"
    device_kind: ClassVar[str] = "cpu"

    def load(self, artifact: Artifact, source: KernelSource) -> Executable:
        """Loads the library, unless this CPU lacks instructions that it was compiled with."""
        missing = required_features(source.target) - host_features()
        if missing:
            raise LaunchError(
                f"A kernel for {source.target} cannot run on this CPU ({host_name()}): it lacks "
                f"{', '.join(sorted(missing))}. Build for --target cpu instead, or run it elsewhere."
            )
        try:
            library = ctypes.CDLL(str(artifact.path))
            function = getattr(library, source.entry)
        except (OSError, AttributeError) as error:
            raise _cannot_load(artifact.path, error) from error
        function.argtypes = [ctypes.c_char_p]
        function.restype = ctypes.c_int64
        return CtypesExecutable(function, source)


def _cannot_load(path: Path, error: Exception) -> LaunchError:
    if not path.exists():
        return LaunchError(f"The compiled kernel {path} was removed since it was built. Build it again.")
    reason = str(error).removeprefix(f"{path}: ")
    return LaunchError(
        f"The compiled kernel {path} could not be loaded: {reason}. If another system's libraries or compiler "
        "made it, run flashgen cache clear and build it again."
    )


class CtypesExecutable:
    """A kernel function in this process."""

    def __init__(self, function: ctypes._NamedFuncPointer, source: KernelSource) -> None:
        self._function = function
        self._source = source

    def prepare(self, problem: Problem) -> Launch:
        """Packs everything but the addresses and the scale."""
        p = problem
        sizes = _SIZES.pack(
            p.batch, p.num_heads, p.num_heads_kv, p.seqlen_q, p.seqlen_k,
            *p.q_strides, *p.k_strides, *p.v_strides, *p.out_strides,
        )  # fmt: skip
        pool = thread_pool()
        function, pack_pointers, pack_call = self._function, _POINTERS.pack, _CALL.pack
        max_threads, parallel = pool.max_threads, pool.parallel

        def launch(q: int, k: int, v: int, out: int, lse: int, seqlens_k: int, scale: float) -> None:
            args = (
                pack_pointers(ABI_VERSION, q, k, v, out, lse, seqlens_k)
                + sizes
                + pack_call(scale, max_threads(), parallel)
            )
            status = function(args)
            if status != _OK:
                raise self._failure(status, problem)

        return launch

    def _failure(self, status: int, problem: Problem) -> LaunchError:
        if status == _OUT_OF_MEMORY:
            return LaunchError(
                f"{self._source.entry} ran out of memory for its workspace at seqlen_q={problem.seqlen_q}, "
                f"seqlen_k={problem.seqlen_k}. Use shorter sequences, fewer threads or --algorithm fa1."
            )
        return LaunchError(
            f"{self._source.entry} refused the call with status {status}: the library speaks another "
            f"calling convention than this flashgen (version {ABI_VERSION}). Run flashgen cache clear."
        )
