"""CuPy's way in, against a stand-in for cupy: RawModule on the CUBIN, struct by value, stream, device, bf16."""

import contextlib
import gc
import importlib
import struct
import sys
import types
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flashgen.compilation.artifact import Artifact
from flashgen.dtypes import BF16, FP16
from flashgen.errors import ArgumentError, LaunchError
from flashgen.families import family_named
from flashgen.launch_plan import ARGUMENT_BYTES
from flashgen.render.renderer import render
from flashgen.runtime.cupy_loader import CupyLoader
from flashgen.runtime.kernel import Problem
from flashgen.runtime.tensors import framework_of
from flashgen.source import KernelSource
from flashgen.spec import make_spec
from flashgen.target import PRESETS, parse_target
from flashgen.tiling import plan_tiles

POINTERS = (0x1000, 0x2000, 0x3000, 0x4000, 0, 0)


class FakeArray:
    """A CuPy array over a NumPy one."""

    def __init__(self, array: np.ndarray, device: int = 0) -> None:
        self._array = array
        self.shape, self.strides, self.dtype, self.ndim = array.shape, array.strides, array.dtype, array.ndim
        self.device = FakeDevice(device)
        self.data = types.SimpleNamespace(ptr=array.__array_interface__["data"][0])


class FakeDevice:
    current: list[int]

    def __init__(self, ordinal: int) -> None:
        self.id = ordinal
        self.attributes = {
            "ComputeCapabilityMajor": 8, "ComputeCapabilityMinor": 0, "MultiProcessorCount": 4,
            "MaxSharedMemoryPerBlockOptin": 166_912,
        }  # fmt: skip

    def __enter__(self) -> None:
        FakeDevice.current.append(self.id)

    def __exit__(self, *_: object) -> None:
        FakeDevice.current.pop()


class FakeMemory:
    ptr = 0xABC000


class FakeKernel:
    """A RawKernel, which takes a struct by value as a NumPy array of size one."""

    kernel = object()
    max_threads_per_block = 1024

    def __init__(self, cupy: Any, name: str) -> None:
        self._cupy, self._name = cupy, name
        self.max_dynamic_shared_size_bytes = 0

    def __call__(self, grid: Any, block: Any, args: Any, *, shared_mem: int) -> None:
        (argument,) = args
        assert isinstance(argument, np.ndarray)
        assert argument.size == 1
        assert argument.itemsize == ARGUMENT_BYTES
        assert shared_mem <= self.max_dynamic_shared_size_bytes
        self._cupy.launches.append((self._name, grid, block, argument.tobytes(), FakeDevice.current[-1]))


@pytest.fixture
def cupy(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    FakeDevice.current = [0]
    fake = types.ModuleType("cupy")
    stream = types.SimpleNamespace(ptr=0x55, capturing=False)
    stream.is_capturing = lambda: stream.capturing
    fake.__version__ = "14"
    fake.launches, fake.paths, fake.allocated, fake.stream, fake.broken = [], [], [], stream, False

    def raw_module(path: str) -> Any:
        if fake.broken:
            raise RuntimeError("CUDA_ERROR_INVALID_IMAGE: device kernel image is invalid")
        fake.paths.append(path)
        return types.SimpleNamespace(get_function=lambda name: FakeKernel(fake, name))

    def alloc(size: int) -> Any:
        memory = FakeMemory()
        fake.allocated.append(weakref.ref(memory))
        return memory

    runtime = types.SimpleNamespace(getDeviceCount=lambda: 2, getDeviceProperties=lambda ordinal: {"name": b"Stand-in"})
    fake.cuda = types.SimpleNamespace(
        runtime=runtime, Device=FakeDevice, get_current_stream=lambda: stream, alloc=alloc,
    )  # fmt: skip
    fake.RawModule, fake.ndarray = raw_module, FakeArray
    monkeypatch.setitem(sys.modules, "cupy", fake)
    yield fake
    sys.modules.pop("flashgen.runtime.cupy_tensors", None)


@pytest.fixture
def artifact(tmp_path: Path) -> Artifact:
    path = tmp_path / "k.cubin"
    path.write_bytes(b"\x7fELF")
    return Artifact("key", {"cubin": path}, (), {}, "", cache_hit=False)


def source_of(family: str) -> KernelSource:
    where, chosen, spec = parse_target("sm_80"), family_named(family), make_spec(64)
    return render(chosen, spec, plan_tiles(chosen, spec, where, PRESETS[where], sram_bytes=98304), where)


def problem(device: str = "cuda:1") -> Problem:
    strides = ((0, 0, 64),) * 4
    return Problem(1, 2, 2, 100, 100, *strides, device=device, library="cupy")


def test_the_cubin_is_a_raw_module_and_arguments_are_one_struct(cupy: Any, artifact: Artifact) -> None:
    kernel = CupyLoader().load(artifact, source_of("cuda_standard"))
    kernel.prepare(problem())(*POINTERS, 0.25)
    assert cupy.paths == [str(artifact.path)]
    assert [launch[0].rpartition("_")[2] for launch in cupy.launches] == ["scores", "softmax", "output"]
    for _, _, block, args, device in cupy.launches:
        assert (block, device) == ((256, 1, 1), 1)
        assert struct.unpack_from("=6Q", args) == POINTERS
        assert struct.unpack_from("=dQ", args, 184) == (0.25, 0xABC000)
    assert FakeDevice.current == [0]


def test_a_module_that_does_not_load_is_a_launch_error(cupy: Any, artifact: Artifact) -> None:
    kernel = CupyLoader().load(artifact, source_of("cuda_fa1"))
    cupy.broken = True
    with pytest.raises(LaunchError, match=r"CuPy could not load k\.cubin: CUDA_ERROR_INVALID_IMAGE"):
        kernel.prepare(problem())


def test_a_captured_workspace_outlives_the_call(cupy: Any, artifact: Artifact) -> None:
    kernel = CupyLoader().load(artifact, source_of("cuda_fa1"))
    cupy.stream.capturing = True
    with pytest.raises(LaunchError, match="before the capture"):
        kernel.prepare(problem())
    cupy.stream.capturing = False
    launch = kernel.prepare(problem())
    cupy.stream.capturing = True
    launch(*POINTERS, 1.0)
    launch(*POINTERS, 1.0)
    cupy.stream.capturing = False
    launch(*POINTERS, 1.0)
    gc.collect()
    assert sum(memory() is not None for memory in cupy.allocated) == 2  # CuPy has no pools of a graph's own


def test_no_gpu_is_said_with_cupys_words(cupy: Any, artifact: Artifact) -> None:
    def refuse() -> int:
        raise RuntimeError("cudaErrorInsufficientDriver")

    cupy.cuda.runtime.getDeviceCount = refuse
    with pytest.raises(LaunchError, match="cannot use a GPU here: cudaErrorInsufficientDriver"):
        CupyLoader().load(artifact, source_of("cuda_fa1"))


def test_cupy_arrays_are_described_by_meaning(cupy: Any) -> None:
    plain = FakeArray(np.zeros((2, 3, 8, 4), np.float16), device=1)
    view = framework_of(plain, "q").view(plain)
    assert (view.dtype, view.device, view.direct) == (FP16, "cuda:1", True)
    assert view.strides == (96, 32, 4, 1)
    turned = FakeArray(np.zeros((2, 3, 4, 8), np.float16).swapaxes(2, 3))
    assert not framework_of(turned, "q").view(turned).direct
    assert framework_of(plain, "q").signature(plain) != framework_of(turned, "q").signature(turned)


def test_bf16_never_goes_through_cupy(cupy: Any) -> None:
    array = FakeArray(np.zeros((1, 1, 4, 8), BF16.numpy()))
    framework = framework_of(array, "q")
    assert framework.view(array).dtype is None
    with pytest.raises(ArgumentError, match="CuPy has no bf16"):
        framework.empty((1,), BF16, array)


def test_the_device_guard_is_left_after_an_error(cupy: Any, artifact: Artifact) -> None:
    kernel = CupyLoader().load(artifact, source_of("cuda_fa1"))
    launch = kernel.prepare(problem())
    cupy.cuda.alloc = None  # calling it raises
    with contextlib.suppress(TypeError):
        launch(*POINTERS, 1.0)
    assert FakeDevice.current == [0]


def test_the_module_of_cupy_tensors_needs_cupy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)
    monkeypatch.delitem(sys.modules, "flashgen.runtime.cupy_tensors", raising=False)
    with pytest.raises(ImportError):
        importlib.import_module("flashgen.runtime.cupy_tensors")
