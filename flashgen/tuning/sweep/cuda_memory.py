"""What measuring takes of the CUDA driver beyond launching: memory, copies, events. No torch or CuPy is needed."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from flashgen.runtime.cuda_driver import DeviceFacts, Driver
from flashgen.runtime.cuda_launch import Function
from flashgen.runtime.torch_loader import DriverFunction

Array = NDArray[Any]
ORDINAL = 0
_STREAM = ctypes.c_void_p(0)  # the default stream: one after the other is all that is wanted
_L2_BYTES = 38  # CUdevice_attribute


class MeasuringDriver(Driver):
    """The driver, with memory and events."""

    def allocate(self, size: int) -> int:
        """Device memory; its address."""
        address = ctypes.c_uint64()
        self._call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(max(size, 1)))
        return address.value

    def free(self, address: int) -> None:
        """Gives memory back."""
        self._call("cuMemFree_v2", ctypes.c_uint64(address))

    def upload(self, address: int, array: Array) -> None:
        """Copies a contiguous array to the device."""
        pointer = array.ctypes.data_as(ctypes.c_void_p)
        self._call("cuMemcpyHtoD_v2", ctypes.c_uint64(address), pointer, ctypes.c_size_t(array.nbytes))

    def download(self, array: Array, address: int) -> None:
        """Copies memory of the device into a contiguous array, once all work is done."""
        pointer = array.ctypes.data_as(ctypes.c_void_p)
        self._call("cuMemcpyDtoH_v2", pointer, ctypes.c_uint64(address), ctypes.c_size_t(array.nbytes))

    def overwrite(self, address: int, size: int) -> None:
        """Writes all of some memory, in stream order: what lies in the L2 cache afterwards is this."""
        self._call("cuMemsetD8Async", ctypes.c_uint64(address), ctypes.c_ubyte(0), ctypes.c_size_t(size), _STREAM)

    def synchronize(self) -> None:
        """Waits for the device; raises what went wrong on it."""
        self._call("cuCtxSynchronize")

    def l2_bytes(self) -> int:
        """The L2 cache of the device."""
        return self._attribute(_L2_BYTES, self._device(ORDINAL))

    def event(self) -> ctypes.c_void_p:
        """A new event that takes the time."""
        event = ctypes.c_void_p()
        self._call("cuEventCreate", ctypes.byref(event), 0)
        return event

    def record(self, event: ctypes.c_void_p) -> None:
        """Puts an event into the stream."""
        self._call("cuEventRecord", event, _STREAM)

    def seconds_between(self, begin: ctypes.c_void_p, end: ctypes.c_void_p) -> float:
        """Waits for the second event; seconds since the first."""
        self._call("cuEventSynchronize", end)
        milliseconds = ctypes.c_float()
        self._call("cuEventElapsedTime", ctypes.byref(milliseconds), begin, end)
        return milliseconds.value / 1e3


class DriverHost:
    """The driver alone as the host library of a launch: default stream, and one workspace that all kernels share."""

    def __init__(self, driver: MeasuringDriver) -> None:
        """Uses the driver's first device."""
        self._driver = driver
        self._workspace = (0, 0)  # address, bytes

    def facts(self, ordinal: int) -> DeviceFacts:
        """Asks the driver."""
        return self._driver.facts(ordinal)

    def guard(self, ordinal: int) -> AbstractContextManager[Any]:
        """The primary context of the device."""
        return self._driver.context(ordinal)

    def stream(self, ordinal: int) -> int:
        """The default stream."""
        return 0

    def capturing(self, ordinal: int) -> bool:
        """Nobody captures it."""
        return False

    def allocate(self, size: int, ordinal: int) -> tuple[Any, int]:
        """The workspace, made larger if need be: kernels run one after the other, so they may share it."""
        address, have = self._workspace
        if size > have:
            if have:
                self._driver.synchronize()
                self._driver.free(address)
            self._workspace = (self._driver.allocate(size), size)
        return None, self._workspace[0]

    def load(self, image: Path, entries: tuple[str, ...], ordinal: int) -> tuple[Function, ...]:
        """Loads the image into the device's primary context."""
        module = self._driver.load(image.read_bytes())
        return tuple(DriverFunction(self._driver, self._driver.function(module, entry), ordinal) for entry in entries)


@contextmanager
def on_device(driver: MeasuringDriver, *arrays: Array | None) -> Iterator[list[int]]:
    """Copies of contiguous arrays on the device for a while: their addresses, 0 for None."""
    addresses: list[int] = []
    try:
        for array in arrays:
            addresses.append(0 if array is None else driver.allocate(array.nbytes))
            if array is not None:
                driver.upload(addresses[-1], array)
        yield addresses
    finally:
        for address in filter(None, addresses):
            driver.free(address)


def opened(library: Any = None) -> MeasuringDriver:
    """The driver of this machine, or over a library that stands in for it.

    Raises:
        LaunchError: there is no GPU, or it does not work.
        OSError: there is no driver.
    """
    return MeasuringDriver(ctypes.CDLL("libcuda.so.1") if library is None else library)
