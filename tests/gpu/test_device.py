"""Every check of benchmarks/gpu, one by one, on this machine's GPU."""

from collections.abc import Callable
from pathlib import Path

import pytest

from . import kit  # noqa: F401 (puts benchmarks/gpu on the path)

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.gpu
if not torch.cuda.is_available():
    pytest.skip("no NVIDIA GPU here", allow_module_level=True)

import checks  # noqa: E402 (needs torch)
from kernels import Pack  # noqa: E402
from run import CUDA_FAMILIES  # noqa: E402

from flashgen.runtime.cuda_device import gpu_target  # noqa: E402


@pytest.fixture(scope="module")
def pack(tmp_path_factory: pytest.TempPathFactory) -> Pack:
    return Pack(Path(tmp_path_factory.mktemp("pack")), gpu_target())


def names(make: Callable[..., object]) -> list[str]:
    return [name for name, _ in make(None, CUDA_FAMILIES)]  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", names(checks.behaviour))
def test_behaviour(name: str, pack: Pack) -> None:
    dict(checks.behaviour(pack, CUDA_FAMILIES))[name]()


@pytest.mark.parametrize("name", names(checks.conformance))
def test_conformance(name: str, pack: Pack) -> None:
    dict(checks.conformance(pack, CUDA_FAMILIES))[name]()
