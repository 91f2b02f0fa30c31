"""Launching CUDA kernels, against a stand-in for the driver: packing, attributes, streams, devices, errors."""

import contextlib
import ctypes
import os
import struct
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flashgen.compilation.artifact import Artifact
from flashgen.errors import ArgumentError, LaunchError, SpecError
from flashgen.families import family_named
from flashgen.launch_plan import ARGUMENTS
from flashgen.pipeline import loader_for
from flashgen.render.renderer import render
from flashgen.runtime import cuda_driver, cuda_loader
from flashgen.runtime.cuda_driver import Driver
from flashgen.runtime.cuda_launch import CudaExecutable
from flashgen.runtime.kernel import Problem
from flashgen.runtime.torch_loader import TorchHost
from flashgen.source import KernelSource
from flashgen.spec import make_spec
from flashgen.target import PRESETS, parse_target
from flashgen.tiling import plan_tiles

from .cuda_stand_in import INVALID_VALUE, OUT_OF_MEMORY, StandInCuda

torch = pytest.importorskip("torch")

POINTERS = (0x1000, 0x2000, 0x3000, 0x4000, 0x5000, 0)
WORKSPACE = 0xABC000


def problem(device: str = "cuda:0", library: str = "torch", **sizes: int) -> Problem:
    values = {"batch": 2, "num_heads": 4, "num_heads_kv": 2, "seqlen_q": 200, "seqlen_k": 300} | sizes
    strides = ((51200, 12800, 64), (38400, 19200, 64), (38400, 19200, -64), (51200, 12800, 64))
    return Problem(*values.values(), *strides, device=device, library=library)


def source_of(family: str, target: str = "sm_80") -> KernelSource:
    where, chosen, spec = parse_target(target), family_named(family), make_spec(64)
    return render(chosen, spec, plan_tiles(chosen, spec, where, PRESETS[where], sram_bytes=60_000), where)


@pytest.fixture
def artifact(tmp_path: Path) -> Artifact:
    paths = {"cubin": tmp_path / "k.cubin", "ptx": tmp_path / "k.ptx"}
    paths["cubin"].write_bytes(b"\x7fELF cubin")
    paths["ptx"].write_bytes(b".version 9.0")
    return Artifact("key", paths, (), {}, "", cache_hit=False)


class Memory:
    def data_ptr(self) -> int:
        return WORKSPACE


class FakeTorchCuda:
    """torch.cuda, as far as the loader uses it; ``log`` is the order of events."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.capturing = False
        self.stream = 0x77
        self.fail = False

    @contextlib.contextmanager
    def device(self, ordinal: int) -> Iterator[None]:
        self.log.append(f"enter {ordinal}")
        try:
            yield
        finally:
            self.log.append(f"leave {ordinal}")

    def is_available(self) -> bool:
        return True

    def current_stream(self, ordinal: int) -> Any:
        return types.SimpleNamespace(cuda_stream=self.stream + ordinal)

    def is_current_stream_capturing(self) -> bool:
        return self.capturing

    def empty(self, size: int, dtype: Any, device: str) -> Memory:
        if self.fail:
            raise RuntimeError("CUDA out of memory")
        self.log.append(f"allocate {size} on {device}")
        return Memory()


@pytest.fixture
def fake_torch(monkeypatch: pytest.MonkeyPatch) -> FakeTorchCuda:
    fake = FakeTorchCuda()
    monkeypatch.setattr(torch, "cuda", fake)
    monkeypatch.setattr(torch, "empty", fake.empty)
    return fake


def executable(
    cuda: StandInCuda, artifact: Artifact, family: str = "cuda_fa1", target: str = "sm_80"
) -> CudaExecutable:
    return CudaExecutable(TorchHost(Driver(cuda)), artifact, source_of(family, target))


def unpack(args: bytes) -> dict[str, Any]:
    codes = {"pointer": "=Q", "int64": "=q", "int64[3]": "=3q", "double": "=d"}
    found = {f.name: struct.unpack_from(codes[f.type], args, f.offset) for f in ARGUMENTS}
    return {name: values if len(values) > 1 else values[0] for name, values in found.items()}


def test_a_launch_packs_every_argument_typed_and_in_place(fake_torch: FakeTorchCuda, artifact: Artifact) -> None:
    cuda = StandInCuda()
    asked = problem()
    executable(cuda, artifact).prepare(asked)(*POINTERS, -0.5)
    (launch,) = cuda.launches
    args = unpack(launch["args"])
    assert [args[n] for n in ("q", "k", "v", "out", "lse", "seqlens_k")] == list(POINTERS)
    assert args["v_stride"] == asked.v_strides  # a negative stride too
    assert (args["softmax_scale"], args["workspace"], args["seqlen_k"]) == (-0.5, WORKSPACE, 300)
    assert launch["entry"] == "flashgen_cuda_fa1"
    assert launch["grid"] == (2 * 4 * args["row_ranges"], 1, 1)
    assert launch["block"] == (256, 1, 1)


def test_shared_memory_is_opted_in_for_what_is_launched(fake_torch: FakeTorchCuda, artifact: Artifact) -> None:
    cuda = StandInCuda()
    executable(cuda, artifact, "cuda_standard").prepare(problem())(*POINTERS, 1.0)
    assert [launch["entry"] for launch in cuda.launches] == [
        "flashgen_cuda_standard_scores",
        "flashgen_cuda_standard_softmax",
        "flashgen_cuda_standard_output",
    ]
    assert all(launch["shared"] == launch["allowed"] for launch in cuda.launches)
    assert max(launch["shared"] for launch in cuda.launches) == source_of("cuda_standard").plan.footprint.total
    assert len({launch["args"] for launch in cuda.launches}) == 1


def test_the_workspace_comes_from_torch_on_the_tensors_device_and_stream(
    fake_torch: FakeTorchCuda, artifact: Artifact
) -> None:
    cuda = StandInCuda()
    executable(cuda, artifact).prepare(problem("cuda:3"))(*POINTERS, 1.0)
    size = 2 * 4 * 200 * (64 + 2) * 4
    assert fake_torch.log[-3:] == ["enter 3", f"allocate {size} on cuda:3", "leave 3"]
    (launch,) = cuda.launches
    assert (launch["stream"], launch["device"]) == (0x77 + 3, 3)
    assert cuda.contexts == []  # every context that was pushed was popped


def test_each_device_loads_the_module_once(fake_torch: FakeTorchCuda, artifact: Artifact) -> None:
    cuda = StandInCuda()
    kernel = executable(cuda, artifact)
    for device in ("cuda:0", "cuda:1", "cuda:0"):
        kernel.prepare(problem(device))(*POINTERS, 1.0)
    assert cuda.images == [b"\x7fELF cubin"] * 2
    assert [launch["device"] for launch in cuda.launches] == [0, 1, 0]


@pytest.mark.parametrize(
    ("target", "capability", "image"),
    [
        ("sm_80", 80, b"\x7fELF cubin"),
        ("sm_80", 86, b"\x7fELF cubin"),
        ("sm_80", 90, b".version 9.0"),
        ("sm_90a", 90, b"\x7fELF cubin"),
    ],
)
def test_the_image_fits_the_device(
    fake_torch: FakeTorchCuda, artifact: Artifact, target: str, capability: int, image: bytes
) -> None:
    cuda = StandInCuda(capability)
    executable(cuda, artifact, target=target).prepare(problem())
    assert cuda.images == [image]


@pytest.mark.parametrize(("target", "capability"), [("sm_86", 80), ("sm_90a", 100), ("sm_90", 80)])
def test_a_device_that_cannot_run_the_kernel_is_told_the_target_that_would(
    fake_torch: FakeTorchCuda, artifact: Artifact, target: str, capability: int
) -> None:
    kernel = executable(StandInCuda(capability), artifact, target=target)
    with pytest.raises(LaunchError, match=rf"cannot run on Stand-in 0.*--target sm_{capability}"):
        kernel.prepare(problem())


def test_too_little_shared_memory_is_found_before_the_launch(fake_torch: FakeTorchCuda, artifact: Artifact) -> None:
    cuda = StandInCuda(shared=49_152)
    with pytest.raises(LaunchError, match=r"shared memory, but Stand-in 0 has 49,152 bytes.*--sram 49152"):
        executable(cuda, artifact).prepare(problem())
    assert not cuda.launches


def test_too_many_threads_for_the_registers_are_found_before_the_launch(
    fake_torch: FakeTorchCuda, artifact: Artifact
) -> None:
    with pytest.raises(LaunchError, match="256 threads, but its registers allow 128"):
        executable(StandInCuda(max_threads=128), artifact).prepare(problem())


@pytest.mark.parametrize("function", ["cuModuleLoadData", "cuModuleGetFunction", "cuFuncSetAttribute"])
def test_driver_errors_while_loading_have_the_drivers_words(
    fake_torch: FakeTorchCuda, artifact: Artifact, function: str
) -> None:
    cuda = StandInCuda()
    kernel = executable(cuda, artifact)
    cuda.fail[function] = INVALID_VALUE
    with pytest.raises(LaunchError, match=rf"{function}: CUDA_ERROR_INVALID_VALUE \(1\), invalid argument"):
        kernel.prepare(problem())
    assert cuda.contexts == []
    cuda.fail.clear()
    kernel.prepare(problem())(*POINTERS, 1.0)  # a failed load is not remembered
    assert len(cuda.launches) == 1


def test_driver_errors_at_launch_are_raised(fake_torch: FakeTorchCuda, artifact: Artifact) -> None:
    cuda = StandInCuda()
    launch = executable(cuda, artifact).prepare(problem())
    cuda.fail["cuLaunchKernel"] = OUT_OF_MEMORY
    with pytest.raises(LaunchError, match="CUDA_ERROR_OUT_OF_MEMORY"):
        launch(*POINTERS, 1.0)
    assert cuda.contexts == []
    assert fake_torch.log[-1] == "leave 0"


def test_no_memory_for_the_workspace_says_how_much_was_wanted(fake_torch: FakeTorchCuda, artifact: Artifact) -> None:
    launch = executable(StandInCuda(), artifact).prepare(problem())
    fake_torch.fail = True
    with pytest.raises(LaunchError, match=r"needs 422,400 bytes.*CUDA out of memory"):
        launch(*POINTERS, 1.0)


def test_a_grid_beyond_cudas_limits_is_refused(fake_torch: FakeTorchCuda, artifact: Artifact) -> None:
    with pytest.raises(LaunchError, match="would need a grid"):
        executable(StandInCuda(), artifact).prepare(problem(batch=2**31, num_heads=2))


def test_a_graph_is_refused_before_warm_up_and_works_after(fake_torch: FakeTorchCuda, artifact: Artifact) -> None:
    cuda = StandInCuda()
    kernel = executable(cuda, artifact)
    fake_torch.capturing = True
    with pytest.raises(LaunchError, match="Call it once before the capture"):
        kernel.prepare(problem())
    assert not cuda.images
    fake_torch.capturing = False
    kernel.prepare(problem())
    fake_torch.capturing = True
    kernel.prepare(problem(seqlen_q=100))(*POINTERS, 1.0)  # another shape of a loaded kernel
    assert len(cuda.launches) == 1


def test_a_forked_child_is_told_instead_of_hanging(
    fake_torch: FakeTorchCuda, artifact: Artifact, monkeypatch: pytest.MonkeyPatch
) -> None:
    cuda = StandInCuda()
    launch = executable(cuda, artifact).prepare(problem())
    monkeypatch.setattr(os, "getpid", lambda: -1)
    with pytest.raises(LaunchError, match="does not survive a fork"):
        launch(*POINTERS, 1.0)
    assert not cuda.launches


def test_row_ranges_change_the_grid_only(fake_torch: FakeTorchCuda, artifact: Artifact) -> None:
    cuda = StandInCuda(sm_count=64)
    kernel = executable(cuda, artifact)
    for row_ranges in (None, 1, 3):
        kernel.prepare(problem(), row_ranges)(*POINTERS, 1.0)
    ranges = [unpack(launch["args"])["row_ranges"] for launch in cuda.launches]
    assert ranges[1:] == [1, 3]
    assert ranges[0] > 3
    assert [launch["grid"][0] for launch in cuda.launches] == [8 * count for count in ranges]


def test_without_a_driver_the_loaders_say_so(monkeypatch: pytest.MonkeyPatch, artifact: Artifact) -> None:
    def missing(name: str) -> None:
        raise OSError(f"{name}: cannot open shared object file")

    cuda_driver.open_driver.cache_clear()
    monkeypatch.setattr(ctypes, "CDLL", missing)
    for name in ("auto", "torch"):
        with pytest.raises(LaunchError, match=r"no NVIDIA driver.*flashgen build compiles for any architecture"):
            loader_for(parse_target("sm_80"), name).load(artifact, source_of("cuda_fa1"))
    cuda_driver.open_driver.cache_clear()


def test_a_torch_without_cuda_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(LaunchError, match="sees no CUDA device"):
        TorchHost(Driver(StandInCuda()))


def test_without_cupy_the_loader_names_the_command(monkeypatch: pytest.MonkeyPatch, artifact: Artifact) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(LaunchError, match="pip install cupy-cuda13x"):
        loader_for(parse_target("sm_80"), "cupy").load(artifact, source_of("cuda_fa1"))


def test_auto_follows_the_type_of_the_tensors(monkeypatch: pytest.MonkeyPatch, artifact: Artifact) -> None:
    loaded = []

    class Recorder:
        def __init__(self, name: str) -> None:
            self.name = name

        def load(self, artifact: Artifact, source: KernelSource) -> Any:
            loaded.append(self.name)
            return types.SimpleNamespace(prepare=lambda problem: self.name)

    real = cuda_loader.cuda_loader
    monkeypatch.setattr(cuda_loader, "open_driver", lambda: None)
    kernel = real("auto").load(artifact, source_of("cuda_fa1"))
    monkeypatch.setattr(cuda_loader, "cuda_loader", Recorder)
    prepared = [kernel.prepare(problem(library=name)) for name in ("torch", "cupy", "torch")]
    assert prepared == ["torch", "cupy", "torch"]
    assert loaded == ["torch", "cupy"]


def test_unknown_loaders_and_host_arrays_are_refused() -> None:
    with pytest.raises(SpecError, match="Loaders of CUDA targets: auto, torch, cupy"):
        loader_for(parse_target("sm_80"), "ctypes")
    with pytest.raises(LaunchError, match="host memory"):
        cuda_loader.cuda_loader("numpy")


def test_host_tensors_do_not_reach_a_cuda_kernel() -> None:
    from flashgen.runtime.arguments import check_tensors
    from flashgen.runtime.tensors import framework_of

    q = np.zeros((1, 1, 4, 8), np.float32)
    with pytest.raises(ArgumentError, match="q must be on a cuda device"):
        check_tensors(make_spec(8, "fp32"), "cuda", framework_of(q, "q"), {"q": q, "k": q, "v": q}, "bhsd")
