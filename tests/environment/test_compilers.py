"""Compilers that are missing, odd, old or broken, as the command line meets them."""

from __future__ import annotations

import os
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

BUILD = ("build", "--d", "8", "--dtype", "fp32", "--algorithm", "standard", "--br", "8", "--bc", "16")


@pytest.fixture
def script(tmp_path: Path) -> Callable[..., Path]:
    """Makes an executable shell script."""

    def make(body: str, name: str = "cxx") -> Path:
        path = tmp_path / name
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)
        return path

    return make


def assert_refused(done: Any, *parts: str) -> None:
    """Exit code 4 and one paragraph on stderr, which holds all the parts."""
    assert done.returncode == 4
    assert done.stdout == ""
    assert done.stderr.startswith("Error: ")
    assert "Traceback" not in done.stderr
    for part in parts:
        assert part in done.stderr, done.stderr


def build(children: Any, tmp_path: Path, **env: Any) -> Any:
    return children.flashgen(*BUILD, "--out", str(tmp_path / "out"), env=env)


@pytest.mark.parametrize("path", ["", "/nonexistent"])
def test_a_missing_compiler_is_named_with_the_command_that_installs_it(
    children: Any, tmp_path: Path, path: str
) -> None:
    done = build(children, tmp_path, PATH=path)
    assert_refused(done, "No C++ compiler was found", "apt-get install g++", "CXX")
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("cxx", ["/nonexistent/g++", "g++ '-DX"])
def test_a_cxx_that_is_no_program_is_named(children: Any, tmp_path: Path, cxx: str) -> None:
    done = build(children, tmp_path, CXX=cxx)
    assert_refused(done, cxx, "CXX", "apt-get install g++")
    assert len(done.stderr.splitlines()) == 1


def test_a_program_that_prints_garbage_is_told_apart(children: Any, script: Any, tmp_path: Path) -> None:
    path = script("head -c 4096 /dev/urandom")
    done = build(children, tmp_path, CXX=path)
    assert_refused(done, str(path), "neither g++ nor clang++")
    assert len(done.stderr.splitlines()) == 1


def test_a_compiler_that_is_too_old_is_named_with_the_version_that_is_needed(
    children: Any, script: Any, tmp_path: Path
) -> None:
    path = script("echo 'Target: x86_64-redhat-linux'; echo 'gcc version 8.5.0 20210514 (Red Hat 8.5.0-4) (GCC)'")
    done = build(children, tmp_path, CXX=path)
    assert_refused(done, "8.5.0-4", "too old", "g++ 12", "clang++ 12")


def test_a_relative_cxx_counts_from_the_working_directory(
    children: Any, script: Any, tmp_path: Path, host_compiler: str
) -> None:
    script(f'exec {host_compiler} "$@"', name="my-g++")
    for cxx in ("./my-g++", "../" + tmp_path.name + "/my-g++"):
        done = children.flashgen(*BUILD, cwd=tmp_path, env={"CXX": cxx, "FLASHGEN_CACHE_DIR": tmp_path / cxx[:3]})
        assert (done.returncode, done.stderr) == (0, "")


def test_a_relative_entry_of_path_counts_from_the_working_directory(
    children: Any, script: Any, tmp_path: Path, host_compiler: str
) -> None:
    script(f'exec {host_compiler} "$@"', name="g++")
    done = children.flashgen(*BUILD, cwd=tmp_path, env={"PATH": f".:{os.environ['PATH']}"})
    assert (done.returncode, done.stderr) == (0, "")


def test_a_compiler_whose_path_has_spaces_and_an_umlaut_works(
    children: Any, script: Any, tmp_path: Path, host_compiler: str
) -> None:
    (tmp_path / "meine Übersetzer").mkdir()
    path = script(f'exec {host_compiler} "$@"', name="meine Übersetzer/g++")
    for cxx in (str(path), f"'{path}' -DUNUSED"):
        done = build(children, tmp_path, CXX=cxx)
        assert (done.returncode, done.stderr) == (0, "")


def test_arguments_within_cxx_reach_the_compiler_and_the_key(
    children: Any, tmp_path: Path, gated_compiler: Any
) -> None:
    """The second build must not find the first one's artifact, nor the third miss the second's."""
    for cxx, compilations in (
        (gated_compiler.command, 1),
        (f"{gated_compiler.command} -O1", 2),
        (f"{gated_compiler.command} -O1", 2),
    ):
        done = build(children, tmp_path, CXX=cxx)
        assert (done.returncode, done.stderr) == (0, "")
        assert gated_compiler.compilations == compilations
    assert gated_compiler.log.read_text().splitlines()[1].startswith("-O1 ")


def test_when_the_first_compiler_on_the_path_does_not_serve_the_next_one_is_taken(
    children: Any, script: Any, tmp_path: Path, host_compiler: str
) -> None:
    (tmp_path / "bin").mkdir()
    script("echo 'Target: x86_64-linux-gnu'; echo 'gcc version 4.8.5'", name="bin/g++")
    script(f'exec {host_compiler} "$@"', name="bin/clang++")
    done = build(children, tmp_path, PATH=f"{tmp_path / 'bin'}:/usr/bin:/bin")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("compiler", ["g++", "clang++"])
def test_each_compiler_builds_kernels_that_compute_attention(children: Any, compiler: str) -> None:
    if not shutil.which(compiler):
        pytest.skip(f"{compiler} is not installed")
    code = """
import kernel_child
kernel_child.check(kernel_child.build())
kernel_child.build(dtype="fp16", algorithm="fa1")
"""
    done = children.python(code, env={"CXX": compiler})
    assert (done.returncode, done.stderr) == (0, "")


def test_a_compiler_that_fails_without_a_word_about_the_source_is_quoted(
    children: Any, script: Any, tmp_path: Path, host_compiler: str
) -> None:
    path = script(
        f'[ "$*" = -v ] && exec {host_compiler} -v\n'
        "echo 'g++: fatal error: Killed signal terminated program cc1plus' >&2; exit 1"
    )
    done = build(children, tmp_path, CXX=path)
    assert_refused(done, "failed on", "Killed signal terminated program cc1plus", str(path))


@pytest.mark.parametrize("body", ["exit 0", "echo garbage > kernel.so"])
def test_a_compiler_that_writes_no_library_is_an_error_and_leaves_no_entry(
    children: Any, script: Any, tmp_path: Path, host_compiler: str, body: str, cache: Path
) -> None:
    path = script(f'[ "$*" = -v ] && exec {host_compiler} -v\n{body}')
    done = build(children, tmp_path, CXX=path)
    assert_refused(done, "no shared library", str(path))
    assert not list((cache / "artifacts").glob("*.json"))
    done = build(children, tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


def test_include_paths_of_the_environment_do_not_reach_the_compiler(children: Any, tmp_path: Path) -> None:
    poisoned = tmp_path / "include"
    poisoned.mkdir()
    for header in ("cstdint", "cmath", "cstdlib", "cstring", "stdint.h", "limits"):
        (poisoned / header).write_text("#error poisoned\n")
    poison = dict.fromkeys(("CPATH", "CPLUS_INCLUDE_PATH", "C_INCLUDE_PATH"), poisoned)
    done = build(children, tmp_path, **poison, DEPENDENCIES_OUTPUT=tmp_path / "dependencies")
    assert (done.returncode, done.stderr) == (0, "")
    assert not (tmp_path / "dependencies").exists()


BROKEN_SOURCE = """
import pickle, sys
import flashgen.render.renderer as renderer
import flashgen.pipeline as pipeline
from dataclasses import replace
import kernel_child

def render(*arguments):
    source = renderer.render(*arguments)
    head, entry, rest = source.text.partition('extern "C"')
    return replace(source, text=head + "int wrong = nobody_knows_this;\\n" + entry + rest)

pipeline.render = render
try:
    kernel_child.build()
except Exception as error:
    sys.stdout.buffer.write(pickle.dumps(error))
"""


def test_a_compile_error_shows_the_first_lines_the_command_and_the_numbered_source(children: Any, cache: Path) -> None:
    from flashgen.errors import CompileError

    done = children.python(BROKEN_SOURCE, encoding=None)
    assert (done.returncode, done.stderr) == (0, b"")
    error = pickle.loads(done.stdout)  # it crossed a process border unchanged
    assert type(error) is CompileError
    assert error.exit_code == 4
    message = str(error)
    number = next(line for line in error.excerpt.splitlines() if line.startswith(">")).split()[1]
    assert f"> {number:>4} | int wrong = nobody_knows_this;" in error.excerpt
    assert len(error.excerpt.splitlines()) == 5
    assert error.excerpt in message
    assert "nobody_knows_this" in error.log
    assert message.splitlines()[1].strip() in error.log
    assert f"Command: {error.command}" in message
    assert error.command.endswith(".cpp")
    assert len(message.splitlines()) < 20
    assert not [path for path in (cache / "artifacts").iterdir() if path.suffix != ".lock"]


def test_the_compiler_is_not_needed_to_import_plan_and_ask_for_help(children: Any) -> None:
    env = {"PATH": "", "CXX": "/nonexistent"}
    for arguments in (["--help"], ["build", "--help"], ["plan", "--d", "64", "--sram", "96KB"], ["cache", "info"]):
        done = children.flashgen(*arguments, env=env)
        assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("env", [{"PATH": ""}, {"CXX": "'"}])
def test_doctor_says_what_is_missing_and_ends_with_4(children: Any, env: dict[str, str]) -> None:
    done = children.flashgen("doctor", env=env)
    assert done.returncode == 4
    assert "apt-get install g++" in done.stdout
    assert done.stderr == ""
