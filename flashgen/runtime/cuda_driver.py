"""The CUDA driver through ctypes: what it takes to load a module and launch it, and nothing else.

It needs libcuda.so.1, which comes with NVIDIA's driver; no CUDA toolkit and no Python package.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

from flashgen.errors import LaunchError

_SUCCESS = 0
# CUdevice_attribute
_MULTIPROCESSORS, _CAPABILITY_MAJOR, _CAPABILITY_MINOR, _SHARED_OPTIN = 16, 75, 76, 97
# CUfunction_attribute
_MAX_THREADS, _MAX_DYNAMIC_SHARED = 0, 8


@dataclass(frozen=True, slots=True)
class DeviceFacts:
    """One GPU: name, compute capability (90 for 9.0), multiprocessors, largest shared memory of a CTA."""

    name: str
    capability: int
    sm_count: int
    shared_bytes: int


class Driver:
    """The driver API over a loaded library (in tests: a recording stand-in for it)."""

    def __init__(self, library: Any) -> None:
        """Initialises the driver.

        Raises:
            LaunchError: there is no GPU, or the driver does not work.
        """
        self._library = library
        self._contexts: dict[int, ctypes.c_void_p] = {}
        self._call("cuInit", 0)

    def facts(self, ordinal: int) -> DeviceFacts:
        """Describes a device."""
        device = self._device(ordinal)
        name = ctypes.create_string_buffer(100)
        self._call("cuDeviceGetName", name, 100, device)
        major, minor = self._attribute(_CAPABILITY_MAJOR, device), self._attribute(_CAPABILITY_MINOR, device)
        return DeviceFacts(
            name.value.decode(errors="replace"),
            10 * major + minor,
            self._attribute(_MULTIPROCESSORS, device),
            self._attribute(_SHARED_OPTIN, device),
        )

    @contextmanager
    def context(self, ordinal: int) -> Iterator[None]:
        """Makes the device's primary context, which torch and CuPy use too, current in this thread."""
        context = self._contexts.get(ordinal)
        if context is None:
            context = ctypes.c_void_p()
            self._call("cuDevicePrimaryCtxRetain", ctypes.byref(context), self._device(ordinal))
            self._contexts[ordinal] = context
        self._call("cuCtxPushCurrent_v2", context)
        try:
            yield
        finally:
            self._call("cuCtxPopCurrent_v2", ctypes.byref(ctypes.c_void_p()))

    def load(self, image: bytes) -> ctypes.c_void_p:
        """Loads a CUBIN or PTX into the current context."""
        module = ctypes.c_void_p()
        text = image if image[:4] == b"\x7fELF" else image + b"\0"
        self._call("cuModuleLoadData", ctypes.byref(module), ctypes.c_char_p(text))
        return module

    def function(self, module: ctypes.c_void_p, entry: str) -> ctypes.c_void_p:
        """Looks an entry up."""
        function = ctypes.c_void_p()
        self._call("cuModuleGetFunction", ctypes.byref(function), module, entry.encode())
        return function

    def max_threads(self, function: ctypes.c_void_p) -> int:
        """The largest CTA that the function's registers allow on this device."""
        value = ctypes.c_int()
        self._call("cuFuncGetAttribute", ctypes.byref(value), _MAX_THREADS, function)
        return value.value

    def allow_shared(self, function: ctypes.c_void_p, shared_bytes: int) -> None:
        """Opts in to that much dynamic shared memory."""
        self._call("cuFuncSetAttribute", function, _MAX_DYNAMIC_SHARED, shared_bytes)

    def launch(
        self, function: ctypes.c_void_p, grid: tuple[int, int, int], block: int, shared: int, stream: int, args: bytes
    ) -> None:
        """Launches a function that takes one struct by value."""
        # A char pointer, not a buffer: the driver copies the struct before it returns.
        parameters = (ctypes.c_char_p * 1)(args)
        self._call("cuLaunchKernel", function, *grid, block, 1, 1, shared, ctypes.c_void_p(stream), parameters, None)

    def _device(self, ordinal: int) -> int:
        device = ctypes.c_int()
        self._call("cuDeviceGet", ctypes.byref(device), ordinal)
        return device.value

    def _attribute(self, attribute: int, device: int) -> int:
        value = ctypes.c_int()
        self._call("cuDeviceGetAttribute", ctypes.byref(value), attribute, device)
        return value.value

    def _call(self, name: str, *args: Any) -> None:
        status = getattr(self._library, name)(*args)
        if status != _SUCCESS:
            raise LaunchError(f"The CUDA driver refused {name}: {self._words(status)}.")

    def _words(self, status: int) -> str:
        name, text = ctypes.c_char_p(), ctypes.c_char_p()
        self._library.cuGetErrorName(status, ctypes.byref(name))
        self._library.cuGetErrorString(status, ctypes.byref(text))
        return f"{(name.value or b'unknown error').decode()} ({status}), {(text.value or b'no description').decode()}"


@cache
def open_driver() -> Driver:
    """The driver of this machine.

    Raises:
        LaunchError: there is none; the message says what can be done without it.
    """
    try:
        return Driver(ctypes.CDLL("libcuda.so.1"))
    except OSError as error:
        raise LaunchError(
            "This machine has no NVIDIA driver (libcuda.so.1), so CUDA kernels cannot run here. "
            "Without one, flashgen build compiles for any architecture (--target sm_80), and the emulator runs what it "
            "has compiled (loader='emulator', flashgen verify)."
        ) from error
