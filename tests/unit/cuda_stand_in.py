"""A recording stand-in for libcuda: it has devices, answers questions, and writes down what is asked."""
# ruff: noqa: N802 (the driver's own names)

import ctypes
from typing import Any

from flashgen.launch_plan import ARGUMENT_BYTES

OUT_OF_MEMORY, INVALID_VALUE, NOT_FOUND = 2, 1, 500
_WORDS = {
    OUT_OF_MEMORY: (b"CUDA_ERROR_OUT_OF_MEMORY", b"out of memory"),
    INVALID_VALUE: (b"CUDA_ERROR_INVALID_VALUE", b"invalid argument"),
    NOT_FOUND: (b"CUDA_ERROR_NOT_FOUND", b"named symbol not found"),
}


class StandInCuda:
    """Devices of one capability. ``calls`` is what happened; ``launches`` holds each launch's arguments."""

    def __init__(self, capability: int = 80, sm_count: int = 4, shared: int = 166_912, max_threads: int = 1024):
        self.attributes = {16: sm_count, 75: capability // 10, 76: capability % 10, 97: shared}
        self.max_threads = max_threads
        self.calls: list[str] = []
        self.images: list[bytes] = []
        self.launches: list[dict[str, Any]] = []
        self.contexts: list[int] = []
        self.shared_of: dict[int, int] = {}
        self.fail: dict[str, int] = {}
        self.entries: list[str] = []

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("cu"):
            raise AttributeError(name)

        def call(*args: Any) -> int:
            self.calls.append(name)
            if name in self.fail:
                return self.fail[name]
            getattr(self, f"on_{name}", lambda *_: None)(*args)
            return 0

        return call

    def on_cuDeviceGet(self, device: Any, ordinal: int) -> None:
        device._obj.value = ordinal

    def on_cuDeviceGetName(self, buffer: Any, size: int, device: int) -> None:
        buffer.value = f"Stand-in {device}".encode()

    def on_cuDeviceGetAttribute(self, value: Any, attribute: int, device: int) -> None:
        value._obj.value = self.attributes[attribute]

    def on_cuDevicePrimaryCtxRetain(self, context: Any, device: int) -> None:
        context._obj.value = 1000 + device

    def on_cuCtxPushCurrent_v2(self, context: Any) -> None:
        self.contexts.append(context.value - 1000)

    def on_cuCtxPopCurrent_v2(self, context: Any) -> None:
        self.contexts.pop()

    def on_cuModuleLoadData(self, module: Any, image: Any) -> None:
        assert self.contexts, "a module is loaded into a context"
        self.images.append(image.value)
        module._obj.value = len(self.images)

    def on_cuModuleGetFunction(self, function: Any, module: Any, entry: bytes) -> None:
        self.entries.append(entry.decode())
        function._obj.value = len(self.entries)

    def on_cuFuncGetAttribute(self, value: Any, attribute: int, function: Any) -> None:
        assert attribute == 0
        value._obj.value = self.max_threads

    def on_cuFuncSetAttribute(self, function: Any, attribute: int, value: int) -> None:
        assert attribute == 8
        self.shared_of[function.value] = value

    def on_cuLaunchKernel(self, function: Any, *args: Any) -> None:
        grid, block, (shared, stream, parameters, extra) = args[:3], args[3:6], args[6:]
        assert extra is None
        address = ctypes.cast(parameters, ctypes.POINTER(ctypes.c_void_p))[0]
        self.launches.append({
            "entry": self.entries[function.value - 1], "grid": grid, "block": block, "shared": shared,
            "allowed": self.shared_of.get(function.value, 0), "stream": stream.value or 0,
            "device": self.contexts[-1], "args": ctypes.string_at(address, ARGUMENT_BYTES),
        })  # fmt: skip

    def cuGetErrorName(self, status: int, text: Any) -> int:
        text._obj.value = _WORDS[status][0]
        return 0

    def cuGetErrorString(self, status: int, text: Any) -> int:
        text._obj.value = _WORDS[status][1]
        return 0
