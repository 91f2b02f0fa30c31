"""CUDA kernels for CuPy arrays: cupy.RawModule on our CUBIN, CuPy's current stream and memory pool."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from flashgen.compilation.artifact import Artifact
from flashgen.errors import LaunchError
from flashgen.runtime.cuda_driver import DeviceFacts
from flashgen.runtime.cuda_launch import CudaExecutable, Function
from flashgen.runtime.kernel import Executable
from flashgen.source import KernelSource


class CupyLoader:
    """Runs CUBINs on CuPy arrays."""

    name: ClassVar[str] = "cupy"
    device_kind: ClassVar[str] = "cuda"

    def load(self, artifact: Artifact, source: KernelSource) -> Executable:
        """Takes the artifact, once CuPy has a GPU to run it on."""
        return CudaExecutable(CupyHost(), artifact, source)


class CupyHost:
    """CuPy, as the host library of a launch."""

    def __init__(self) -> None:
        """Uses CuPy, which must see a GPU.

        Raises:
            LaunchError: CuPy is missing, or sees none.
        """
        try:
            import cupy
        except ImportError as error:
            raise LaunchError(
                "The cupy loader needs CuPy: pip install cupy-cuda13x (or cupy-cuda12x). --loader torch works without."
            ) from error
        try:
            count = cupy.cuda.runtime.getDeviceCount()
        except Exception as error:  # CUDARuntimeError, or what a missing library raises
            raise LaunchError(f"CuPy {cupy.__version__} cannot use a GPU here: {error}.") from error
        if not count:
            raise LaunchError(f"CuPy {cupy.__version__} sees no CUDA device.")
        self._cupy = cupy
        self._captured: list[Any] = []  # memory that graphs go on using: CuPy has no pools of their own

    def facts(self, ordinal: int) -> DeviceFacts:
        """Asks CuPy."""
        attributes = self._cupy.cuda.Device(ordinal).attributes
        properties = self._cupy.cuda.runtime.getDeviceProperties(ordinal)
        return DeviceFacts(
            properties["name"].decode(errors="replace"),
            10 * int(attributes["ComputeCapabilityMajor"]) + int(attributes["ComputeCapabilityMinor"]),
            int(attributes["MultiProcessorCount"]),
            int(attributes["MaxSharedMemoryPerBlockOptin"]),
        )

    def guard(self, ordinal: int) -> AbstractContextManager[Any]:
        """CuPy's own device guard."""
        guard: AbstractContextManager[Any] = self._cupy.cuda.Device(ordinal)
        return guard

    def stream(self, ordinal: int) -> int:
        """CuPy's current stream."""
        return int(self._cupy.cuda.get_current_stream().ptr)

    def capturing(self, ordinal: int) -> bool:
        """Whether CuPy's current stream is being captured (the default stream cannot be)."""
        stream = self._cupy.cuda.get_current_stream()
        return bool(stream.ptr) and bool(stream.is_capturing())

    def allocate(self, size: int, ordinal: int) -> tuple[Any, int]:
        """Memory of CuPy's pool, which hands it to others only in stream order."""
        memory = self._cupy.cuda.alloc(size)
        if self.capturing(ordinal):
            self._captured.append(memory)
        return memory, int(memory.ptr)

    def load(self, image: Path, entries: tuple[str, ...], ordinal: int) -> tuple[Function, ...]:
        """Loads the image as a cupy.RawModule."""
        try:
            module = self._cupy.RawModule(path=str(image))
            kernels = [module.get_function(entry) for entry in entries]
            for kernel in kernels:
                _ = kernel.kernel  # CuPy would load it at the first launch; now is the time to fail
        except Exception as error:  # CUDADriverError
            raise LaunchError(f"CuPy could not load {image.name}: {error}.") from error
        return tuple(CupyFunction(kernel) for kernel in kernels)


class CupyFunction:
    """A cupy.RawKernel."""

    def __init__(self, kernel: Any) -> None:
        """Wraps a kernel of a RawModule."""
        self._kernel = kernel

    @property
    def max_threads(self) -> int:
        """The largest CTA that its registers allow."""
        return int(self._kernel.max_threads_per_block)

    def allow_shared(self, shared_bytes: int) -> None:
        """Opts in to that much dynamic shared memory."""
        try:
            self._kernel.max_dynamic_shared_size_bytes = shared_bytes
        except Exception as error:  # CUDADriverError
            raise LaunchError(f"CuPy could not set {shared_bytes:,} bytes of shared memory: {error}.") from error

    def launch(self, grid: tuple[int, int, int], block: int, shared: int, stream: int, args: bytes) -> None:
        """Launches it on CuPy's current stream, which ``stream`` is; a NumPy array of one void is a struct by value."""
        struct = np.frombuffer(args, dtype=np.dtype((np.void, len(args))))
        try:
            self._kernel(grid, (block, 1, 1), (struct,), shared_mem=shared)
        except Exception as error:  # CUDADriverError
            raise LaunchError(f"CuPy could not launch the kernel: {error}.") from error
