"""What is loaded into this process, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import flashgen
from flashgen.compilation.artifact import Artifact
from flashgen.errors import LaunchError, ToolchainError
from flashgen.runtime import ctypes_loader
from flashgen.runtime.ctypes_loader import ABI_VERSION, CtypesLoader
from flashgen.runtime.device import host_features
from flashgen.target import required_features


@pytest.fixture(scope="module")
def kernel() -> flashgen.Attention:
    try:
        return flashgen.build(d=8, dtype="fp32", algorithm="standard", br=8, bc=16)
    except ToolchainError as error:
        pytest.skip(str(error))


def at(artifact: Artifact, path: Path) -> Artifact:
    return replace(artifact, paths={"so": path})


def test_a_kernel_for_a_cpu_with_more_instructions_is_refused_before_it_is_loaded(
    kernel: flashgen.Attention, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    lacking = sorted(required_features(kernel.target))[-2:]
    monkeypatch.setattr(ctypes_loader, "host_features", lambda: host_features() - set(lacking))
    with pytest.raises(
        LaunchError, match=rf"{kernel.target} cannot run .* lacks {', '.join(lacking)}\. .*--target cpu"
    ):
        CtypesLoader().load(at(kernel.artifact, tmp_path / "would fail otherwise"), kernel.source)


def test_a_library_that_was_removed_is_told_apart(kernel: flashgen.Attention, tmp_path: Path) -> None:
    with pytest.raises(LaunchError, match=r"gone\.so was removed since it was built\. Build it again\."):
        CtypesLoader().load(at(kernel.artifact, tmp_path / "gone.so"), kernel.source)


def test_a_file_that_is_no_library_is_refused_with_the_reason(kernel: flashgen.Attention, tmp_path: Path) -> None:
    path = tmp_path / "text.so"
    path.write_text("not a library")
    with pytest.raises(
        LaunchError, match=rf"^The compiled kernel {path} could not be loaded: (?!{path}).*flashgen cache clear"
    ):
        CtypesLoader().load(at(kernel.artifact, path), kernel.source)


def test_a_library_without_the_entry_is_refused_by_its_name(kernel: flashgen.Attention) -> None:
    with pytest.raises(LaunchError, match="nobody_knows_this"):
        CtypesLoader().load(kernel.artifact, replace(kernel.source, entry="nobody_knows_this"))


def test_a_library_with_another_calling_convention_refuses_the_call(
    kernel: flashgen.Attention, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ctypes_loader, "ABI_VERSION", ABI_VERSION + 1)
    x = np.ones((1, 1, 3, 8), np.float32)
    with pytest.raises(LaunchError, match=r"another calling convention .*flashgen cache clear"):
        kernel(x, x, x)
