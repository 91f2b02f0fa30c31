"""The GPU at hand as a target, against a stand-in for the driver."""

from collections.abc import Iterator

import pytest

from flashgen.errors import LaunchError, SpecError
from flashgen.runtime import cuda_device
from flashgen.runtime.cuda_driver import Driver
from flashgen.runtime.device import limits_of, resolve_target, runs_here, target_of_device
from flashgen.target import PRESETS, parse_target

from .cuda_stand_in import StandInCuda


@pytest.fixture(autouse=True)
def forget() -> Iterator[None]:
    cuda_device.gpu_capability.cache_clear()
    yield
    cuda_device.gpu_capability.cache_clear()


def with_gpu(monkeypatch: pytest.MonkeyPatch, capability: int) -> None:
    driver = Driver(StandInCuda(capability))
    monkeypatch.setattr(cuda_device, "open_driver", lambda: driver)


def without_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> Driver:
        raise LaunchError("This machine has no NVIDIA driver.")

    monkeypatch.setattr(cuda_device, "open_driver", refuse)


@pytest.mark.parametrize(("capability", "target"), [(80, "sm_80"), (88, "sm_87"), (90, "sm_90"), (130, "sm_121")])
def test_a_gpu_is_its_own_target_or_the_newest_older_one(
    monkeypatch: pytest.MonkeyPatch, capability: int, target: str
) -> None:
    with_gpu(monkeypatch, capability)
    assert str(resolve_target("cuda")) == target
    assert str(target_of_device("cuda:1")) == target


def test_a_gpu_older_than_all_targets_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with_gpu(monkeypatch, 61)
    with pytest.raises(SpecError, match="sm_61"):
        resolve_target("cuda")


@pytest.mark.parametrize(
    ("capability", "target", "runs"),
    [(90, "sm_80", True), (90, "sm_90a", True), (80, "sm_90", False), (100, "sm_90a", False), (86, "sm_86", True)],
)
def test_what_a_gpu_runs(monkeypatch: pytest.MonkeyPatch, capability: int, target: str, runs: bool) -> None:
    with_gpu(monkeypatch, capability)
    assert runs_here(parse_target(target)) is runs


def test_without_a_gpu_nothing_runs_and_planning_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    without_gpu(monkeypatch)
    target = parse_target("sm_80")
    assert not runs_here(target)
    assert limits_of(target) == PRESETS[target]
    with pytest.raises(LaunchError, match="no NVIDIA driver"):
        resolve_target("cuda")


def test_limits_of_a_gpu_are_the_presets_also_where_it_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    with_gpu(monkeypatch, 80)
    limits_of.cache_clear()
    assert limits_of(parse_target("sm_80")) == PRESETS[parse_target("sm_80")]
    assert str(target_of_device("cpu")).startswith("cpu:")
