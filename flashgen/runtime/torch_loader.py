"""CUDA kernels for torch tensors: torch's device, stream and allocator, launched through the driver."""

from __future__ import annotations

import ctypes
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, ClassVar

from flashgen.compilation.artifact import Artifact
from flashgen.errors import LaunchError
from flashgen.runtime.cuda_driver import DeviceFacts, Driver, open_driver
from flashgen.runtime.cuda_launch import CudaExecutable, Function
from flashgen.runtime.kernel import Executable
from flashgen.source import KernelSource


class TorchLoader:
    """Runs CUBINs on torch tensors."""

    name: ClassVar[str] = "torch"
    device_kind: ClassVar[str] = "cuda"

    def load(self, artifact: Artifact, source: KernelSource) -> Executable:
        """Takes the artifact, once torch has a GPU to run it on."""
        return CudaExecutable(TorchHost(open_driver()), artifact, source)


class TorchHost:
    """Torch, as the host library of a launch."""

    def __init__(self, driver: Driver) -> None:
        """Uses torch, which must see a GPU.

        Raises:
            LaunchError: torch is missing, or was built without CUDA.
        """
        try:
            import torch
        except ImportError as error:
            raise LaunchError(
                "The torch loader needs torch: pip install torch. --loader cupy works without."
            ) from error
        if not torch.cuda.is_available():
            raise LaunchError(
                f"torch {torch.__version__} sees no CUDA device. Install a CUDA build of torch, or use --loader cupy."
            )
        self._torch = torch
        self._driver = driver

    def facts(self, ordinal: int) -> DeviceFacts:
        """Asks the driver."""
        return self._driver.facts(ordinal)

    def guard(self, ordinal: int) -> AbstractContextManager[Any]:
        """The device guard of torch itself."""
        guard: AbstractContextManager[Any] = self._torch.cuda.device(ordinal)
        return guard

    def stream(self, ordinal: int) -> int:
        """The current stream of torch."""
        return int(self._torch.cuda.current_stream(ordinal).cuda_stream)

    def capturing(self, ordinal: int) -> bool:
        """Whether torch's current stream is being captured."""
        return bool(self._torch.cuda.is_current_stream_capturing())

    def allocate(self, size: int, ordinal: int) -> tuple[Any, int]:
        """Memory of torch's caching allocator, which knows streams and gives graphs pools of their own."""
        memory = self._torch.empty(size, dtype=self._torch.uint8, device=f"cuda:{ordinal}")
        return memory, memory.data_ptr()

    def load(self, image: Path, entries: tuple[str, ...], ordinal: int) -> tuple[Function, ...]:
        """Loads the image into the device's primary context."""
        with self._driver.context(ordinal):
            module = self._driver.load(image.read_bytes())
            return tuple(
                DriverFunction(self._driver, self._driver.function(module, entry), ordinal) for entry in entries
            )


class DriverFunction:
    """A function handle of the driver."""

    def __init__(self, driver: Driver, handle: ctypes.c_void_p, ordinal: int) -> None:
        """Wraps a handle of the device's primary context."""
        self._driver = driver
        self._handle = handle
        self._ordinal = ordinal

    @property
    def max_threads(self) -> int:
        """The largest CTA that its registers allow."""
        with self._driver.context(self._ordinal):
            return self._driver.max_threads(self._handle)

    def allow_shared(self, shared_bytes: int) -> None:
        """Opts in to that much dynamic shared memory."""
        with self._driver.context(self._ordinal):
            self._driver.allow_shared(self._handle, shared_bytes)

    def launch(self, grid: tuple[int, int, int], block: int, shared: int, stream: int, args: bytes) -> None:
        """Launches it in the device's primary context."""
        with self._driver.context(self._ordinal):
            self._driver.launch(self._handle, grid, block, shared, stream, args)
