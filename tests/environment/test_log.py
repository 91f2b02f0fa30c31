"""What is said, and when: one paragraph for an error, everything for FLASHGEN_LOG=debug."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

BUILD = ("build", "--d", "8", "--br", "8", "--bc", "16", "--algorithm", "standard")


def test_debug_shows_the_phases_the_command_and_the_path(children: Any, tmp_path: Path, cache: Path) -> None:
    done = children.flashgen(*BUILD, "--out", str(tmp_path), env={"FLASHGEN_LOG": "debug"})
    assert done.returncode == 0
    for part in ("render: ", "compile: ", "load: ", " ms", "-std=c++17", "-shared"):
        assert part in done.stderr, done.stderr


def test_debug_works_in_the_python_interface_as_well(children: Any) -> None:
    code = "import kernel_child; kernel_child.build()"
    loud = children.python(code, env={"FLASHGEN_LOG": "debug"})
    assert loud.returncode == 0
    assert "render: " in loud.stderr
    assert "-std=c++17" in loud.stderr
    assert children.python(code).stderr == ""


def test_debug_shows_the_whole_log_of_a_failed_compilation(children: Any, tmp_path: Path, host_compiler: str) -> None:
    compiler = tmp_path / "cxx"
    compiler.write_text(
        f'#!/bin/sh\n[ "$*" = -v ] && exec {host_compiler} -v\n'
        "for n in 1 2 3 4 5 6 7 8 9 10 11 12; do echo line $n of the log; done; exit 1\n"
    )
    compiler.chmod(0o755)
    quiet = children.flashgen(*BUILD, env={"CXX": compiler})
    assert quiet.returncode == 4
    assert "line 1 of the log" in quiet.stderr
    assert "line 12 of the log" not in quiet.stderr
    assert "FLASHGEN_LOG=debug" in quiet.stderr
    loud = children.flashgen(*BUILD, env={"CXX": compiler, "FLASHGEN_LOG": "debug"})
    assert "line 12 of the log" in loud.stderr


FAULTS = [
    (("plan", "--d", "9999"), {}, 2),
    (("plan", "--d", "512", "--sram", "64"), {}, 3),
    (BUILD, {"CXX": "/nonexistent"}, 4),
    ((*BUILD, "--out", "/dev/null/out"), {}, 2),
]


@pytest.mark.parametrize(("arguments", "env", "status"), FAULTS)
def test_a_traceback_is_shown_for_debug_only(
    children: Any, tmp_path: Path, arguments: tuple[str, ...], env: dict[str, str], status: int
) -> None:
    quiet = children.flashgen(*arguments, env=env, cwd=tmp_path)
    assert quiet.returncode == status
    assert quiet.stderr.startswith("Error: ")
    assert "Traceback" not in quiet.stderr
    loud = children.flashgen(*arguments, env=env | {"FLASHGEN_LOG": "debug"}, cwd=tmp_path)
    assert loud.returncode == status
    assert "Traceback (most recent call last)" in loud.stderr
    assert quiet.stderr in loud.stderr


@pytest.mark.parametrize("level", ["nonsense", "error"])
def test_any_other_level_is_harmless(children: Any, tmp_path: Path, level: str) -> None:
    done = children.flashgen(*BUILD, "--out", str(tmp_path), env={"FLASHGEN_LOG": level})
    assert (done.returncode, done.stderr) == (0, "")


def test_the_command_line_logs_to_the_stderr_of_the_moment(children: Any) -> None:
    """A program that runs commands with redirected streams must not be left with a closed one."""
    code = """
import contextlib, io, logging, sys
from flashgen.log import configure, logger

for number in range(2):
    stream = io.StringIO()
    with contextlib.redirect_stderr(stream):
        configure()
        logger.warning("number %d", number)
    assert stream.getvalue() == f"flashgen: number {number}\\n", stream.getvalue()
    stream.close()
logger.warning("to the real one")
"""
    done = children.python(code)
    assert (done.returncode, done.stderr) == (0, "flashgen: to the real one\n")
