"""The `auto` loader of CUDA targets: torch tensors go through torch, CuPy arrays through CuPy."""

from __future__ import annotations

import threading
from typing import ClassVar

from flashgen.compilation.artifact import Artifact
from flashgen.errors import LaunchError, SpecError
from flashgen.runtime.cuda_driver import open_driver
from flashgen.runtime.kernel import Executable, Launch, Loader, Problem
from flashgen.source import KernelSource

NAMES = ("auto", "torch", "cupy", "emulator")


class AutoLoader:
    """Decides at the first call of each library."""

    name: ClassVar[str] = "auto"
    device_kind: ClassVar[str] = "cuda"

    def load(self, artifact: Artifact, source: KernelSource) -> Executable:
        """Takes the artifact, if this machine has an NVIDIA driver at all."""
        open_driver()
        return _ByLibrary(artifact, source)


class _ByLibrary:
    """One executable for each library that has called."""

    def __init__(self, artifact: Artifact, source: KernelSource) -> None:
        self._artifact = artifact
        self._source = source
        self._executables: dict[str, Executable] = {}
        self._lock = threading.Lock()

    def prepare(self, problem: Problem) -> Launch:
        with self._lock:
            executable = self._executables.get(problem.library)
            if executable is None:
                executable = cuda_loader(problem.library).load(self._artifact, self._source)
                self._executables[problem.library] = executable
        return executable.prepare(problem)


def cuda_loader(name: str) -> Loader:
    """The CUDA loader of that name.

    Raises:
        SpecError: there is none.
        LaunchError: it is ``numpy``: such arrays are in host memory.
    """
    if name == "auto":
        return AutoLoader()
    if name == "torch":
        from flashgen.runtime.torch_loader import TorchLoader

        return TorchLoader()
    if name == "cupy":
        from flashgen.runtime.cupy_loader import CupyLoader

        return CupyLoader()
    if name == "emulator":
        from flashgen.runtime.emulator_loader import EmulatorLoader

        return EmulatorLoader()
    if name == "numpy":
        raise LaunchError(
            "A CUDA kernel cannot work on NumPy arrays: they are in host memory. Use torch, CuPy or the emulator."
        )
    what = "is for CPU targets" if name == "ctypes" else "is not known"
    raise SpecError(f"Loader {name!r} {what}. Loaders of CUDA targets: {', '.join(NAMES)}.")
