"""A build that was killed leaves nothing that hinders or misleads the next one."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

BUILD = "import kernel_child; kernel_child.check(kernel_child.build())"

# Dies without a word at a chosen rename: the first makes the library appear, the second its checksums.
DIE_AT_RENAME = """
import kernel_child, os, signal, sys
rename, renames = os.replace, []

def replace(*paths):
    renames.append(paths)
    if len(renames) == int(sys.argv[1]):
        os.kill(os.getpid(), signal.SIGKILL)
    rename(*paths)

os.replace = replace
kernel_child.build()
"""


def leftovers(cache: Path) -> list[str]:
    return [path.name for path in (cache / "artifacts").iterdir() if path.name.startswith(".")]


def test_a_process_killed_while_compiling_neither_blocks_nor_misleads_the_next(
    children: Any, gated_compiler: Any, cache: Path
) -> None:
    gated_compiler.close()
    victim = children.start(BUILD, env={"CXX": gated_compiler.command})
    gated_compiler.wait_for_compilation()
    victim.kill()  # not its compiler, which goes on waiting at the gate
    victim.communicate(timeout=60)
    assert leftovers(cache)

    began = time.monotonic()
    done = children.python(BUILD)
    assert (done.returncode, done.stderr) == (0, "")
    assert time.monotonic() - began < 20  # far below the time that a held lock is waited for
    assert not leftovers(cache)

    gated_compiler.open()  # the orphan finds its directory gone, and must not bring anything back
    children.python("import time; time.sleep(0.5)")
    assert not leftovers(cache)
    assert children.python(BUILD).returncode == 0


@pytest.mark.parametrize("rename", [1, 2])
def test_a_process_killed_while_storing_leaves_nothing_that_would_be_loaded(
    children: Any, gated_compiler: Any, cache: Path, rename: int
) -> None:
    victim = children.python(DIE_AT_RENAME, str(rename))
    assert victim.returncode == -signal.SIGKILL
    assert leftovers(cache)
    for _ in range(2):
        done = children.python(BUILD, env={"CXX": gated_compiler.command})
        assert (done.returncode, done.stderr) == (0, "")
    assert gated_compiler.compilations == 1
    assert not leftovers(cache)


def test_a_waiting_process_takes_over_when_the_building_one_is_killed(
    children: Any, gated_compiler: Any, wait_for: Any, tmp_path: Path
) -> None:
    gated_compiler.close()
    victim = children.start(BUILD, env={"CXX": gated_compiler.command})
    gated_compiler.wait_for_compilation()
    mark = tmp_path / "ready"
    heir = children.start(f"import pathlib; pathlib.Path({str(mark)!r}).touch()\n{BUILD}")
    wait_for(mark.exists, "the second process")
    time.sleep(0.2)
    victim.kill()
    _, errors = heir.communicate(timeout=60)
    assert (heir.returncode, errors) == (0, "")
    gated_compiler.open()
    victim.communicate(timeout=60)


def test_an_interrupted_command_ends_at_once_and_leaves_nothing(
    children: Any, gated_compiler: Any, cache: Path, tmp_path: Path
) -> None:
    """Ctrl-C reaches the whole process group, the compiler too."""
    gated_compiler.close()
    command = ["build", "--d", "8", "--out", str(tmp_path)]
    # Tests that run in the background of a shell inherit that Ctrl-C is ignored.
    heed = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    code = f"{heed}; import sys; sys.argv = ['flashgen', *{command}]; from flashgen.cli.main import main; main()"
    process = children.start(code, env={"CXX": gated_compiler.command})
    gated_compiler.wait_for_compilation()
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert errors.strip() == "Interrupted."
    assert not leftovers(cache)
