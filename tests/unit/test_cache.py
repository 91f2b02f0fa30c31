"""Which directory kernels are kept in, and what happens when it gives out."""

from __future__ import annotations

import errno
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from flashgen.compilation import cache as cache_module
from flashgen.compilation.artifact import Compiled
from flashgen.compilation.builder import build
from flashgen.compilation.cache import cache_directory, open_store, private_store
from flashgen.compilation.lock import hold
from flashgen.compilation.store import Store, open_directory
from flashgen.errors import CompileError, ToolchainError
from flashgen.source import Source
from flashgen.target import Target

PLACES = {
    "FLASHGEN_CACHE_DIR first of all": ({"FLASHGEN_CACHE_DIR": "/kept", "XDG_CACHE_HOME": "/xdg"}, "/kept"),
    "a relative one from the working directory": ({"FLASHGEN_CACHE_DIR": "kept"}, "{cwd}/kept"),
    "a tilde": ({"FLASHGEN_CACHE_DIR": "~/kept"}, "/people/me/kept"),
    "a blank one counts as none": ({"FLASHGEN_CACHE_DIR": "  ", "XDG_CACHE_HOME": "/xdg"}, "/xdg/flashgen"),
    "XDG_CACHE_HOME": ({"XDG_CACHE_HOME": "/xdg"}, "/xdg/flashgen"),
    "a relative XDG_CACHE_HOME does not count": ({"XDG_CACHE_HOME": "xdg"}, "/people/me/.cache/flashgen"),
    "an empty XDG_CACHE_HOME does not count": ({"XDG_CACHE_HOME": ""}, "/people/me/.cache/flashgen"),
    "HOME": ({}, "/people/me/.cache/flashgen"),
}


@pytest.mark.parametrize("place", PLACES)
def test_the_cache_directory_is(place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    environment, expected = PLACES[place]
    for name, value in ({"FLASHGEN_CACHE_DIR": "", "XDG_CACHE_HOME": "", "HOME": "/people/me"} | environment).items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    assert str(cache_directory()) == expected.format(cwd=tmp_path)


class Typewriter:
    """A toolchain that copies, counts, and fails as it is told to."""

    name = "typewriter"

    def __init__(self, *failures: Exception) -> None:
        self.failures = list(failures)
        self.compilations = 0

    def identity(self) -> tuple[tuple[str, str], ...]:
        return (("compiler", "a typewriter"),)

    def flags(self, target: Target) -> tuple[str, ...]:
        return ()

    def compile(self, source: Source, workdir: Path) -> Compiled:
        self.compilations += 1
        time.sleep(0.02)
        if self.failures:
            raise self.failures.pop(0)
        return Compiled({"so": source.text.encode()})


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_directory(tmp_path / "artifacts")


@pytest.fixture
def source() -> Any:
    target = Target("cpu", "x86-64-v3")
    return SimpleNamespace(text="int f();", language="c++", entry="f", target=target, filename="f.cpp")


@pytest.fixture
def warnings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """What is warned of; the cache and the temporary directory are below tmp_path."""
    said: list[str] = []
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setattr("flashgen.log._said", set())
    monkeypatch.setattr("flashgen.log.logger.warning", lambda form, *arguments: said.append(form % arguments))
    monkeypatch.setattr(cache_module, "_private", [])
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    monkeypatch.setenv("FLASHGEN_CACHE_DIR", str(tmp_path / "cache"))
    return said


def test_many_threads_that_build_one_key_compile_once(source: Any, store: Store) -> None:
    toolchain = Typewriter()
    with ThreadPoolExecutor(8) as pool:
        artifacts = list(pool.map(lambda _: build(source, toolchain, store), range(16)))
    assert toolchain.compilations == 1
    assert sum(not artifact.cache_hit for artifact in artifacts) == 1
    assert len({artifact.path for artifact in artifacts}) == 1


def test_a_failed_build_is_not_kept_and_can_be_tried_again(source: Any, store: Store) -> None:
    toolchain = Typewriter(CompileError("no"))
    with pytest.raises(CompileError):
        build(source, toolchain, store)
    assert not build(source, toolchain, store).cache_hit
    assert build(source, toolchain, store).cache_hit


def test_an_unusable_cache_is_replaced_by_a_temporary_directory_and_said_once(
    source: Any, warnings: list[str], tmp_path: Path
) -> None:
    (tmp_path / "cache").touch()
    toolchain = Typewriter()
    first, second = build(source, toolchain), build(source, toolchain)
    assert (first.cache_hit, second.cache_hit) == (False, True)
    assert first.path.is_relative_to(tmp_path / "tmp")
    assert first.path.parent.stat().st_mode & 0o077 == 0
    assert len(warnings) == 1
    assert str(tmp_path / "cache") in warnings[0]


def test_a_cache_that_gives_out_is_replaced_by_a_temporary_directory_and_said_once(
    source: Any, warnings: list[str], tmp_path: Path
) -> None:
    class Writer(Typewriter):
        def compile(self, source: Source, workdir: Path) -> Compiled:
            if workdir.is_relative_to(tmp_path / "cache"):
                raise OSError(errno.ENOSPC, "No space left", str(workdir))  # another file name each time
            return super().compile(source, workdir)

    for text in ("int f();", "int g();"):
        source.text = text
        assert build(source, Writer()).path.is_relative_to(tmp_path / "tmp")
    assert len(warnings) == 1
    assert "No space left" in warnings[0]


def test_when_the_temporary_directory_gives_out_too_one_sentence_says_what_to_do(
    source: Any, warnings: list[str], tmp_path: Path
) -> None:
    toolchain = Typewriter(*(OSError(errno.ENOSPC, "No space left", "file") for _ in range(2)))
    with pytest.raises(ToolchainError, match=r"No space left\. Set FLASHGEN_CACHE_DIR"):
        build(source, toolchain)


def test_a_build_waits_no_longer_than_it_should_for_one_that_was_stopped(
    source: Any, warnings: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(self: Store, key: str) -> Any:
        if self.directory.is_relative_to(tmp_path / "cache"):
            raise TimeoutError(errno.ETIMEDOUT, "another process holds its lock")
        return hold(self.directory / f"{key}.lock", 0)

    monkeypatch.setattr(Store, "locked", stopped)
    assert build(source, Typewriter()).path.is_relative_to(tmp_path / "tmp")
    assert "another process holds its lock" in warnings[0]


def test_without_any_directory_one_sentence_says_what_to_do(warnings: list[str], tmp_path: Path) -> None:
    (tmp_path / "cache").touch()
    (tmp_path / "tmp").rmdir()
    with pytest.raises(ToolchainError, match=r"No such file or directory\. Set FLASHGEN_CACHE_DIR"):
        open_store()


def test_a_temporary_store_that_was_swept_away_is_made_anew(warnings: list[str]) -> None:
    first = private_store().directory
    assert private_store().directory == first
    first.rmdir()
    second = private_store().directory
    assert second.is_dir()
    assert second != first
