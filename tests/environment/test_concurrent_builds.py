"""Many processes and threads want the same kernel at once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

MANY = 8

BUILD_IN_A_PROCESS = """
import kernel_child, pathlib, sys
pathlib.Path(sys.argv[1]).touch()
kernel_child.check(kernel_child.build())
"""

BUILD_IN_THREADS = """
import json, kernel_child, sys, threading
from concurrent.futures import ThreadPoolExecutor
from flashgen.pipeline import build_kernel
from flashgen.runtime.device import host_target
from flashgen.spec import make_spec
import flashgen

many = int(sys.argv[1])
start = threading.Barrier(many)
spec, plan = make_spec(8, "fp32"), flashgen.plan(8, "fp32", algorithm="standard", br=8, bc=16)

def through_the_store():
    start.wait()
    return build_kernel(spec, plan, host_target()).artifact.cache_hit

def through_the_api():
    start.wait()
    return kernel_child.build()

with ThreadPoolExecutor(many) as pool:
    hits = [job.result() for job in [pool.submit(through_the_store) for _ in range(many)]]
    kernels = [job.result() for job in [pool.submit(through_the_api) for _ in range(many)]]
kernel_child.check(kernels[0])
print(json.dumps({"hits": sum(hits), "objects": len(set(map(id, kernels)))}))
"""


def test_of_many_processes_that_build_one_kernel_at_once_only_one_compiles(
    children: Any, gated_compiler: Any, wait_for: Any, tmp_path: Path, cache: Path
) -> None:
    marks = [tmp_path / f"ready{number}" for number in range(MANY)]
    gated_compiler.close()
    running = [children.start(BUILD_IN_A_PROCESS, str(mark), env={"CXX": gated_compiler.command}) for mark in marks]
    wait_for(lambda: all(mark.exists() for mark in marks), "every process to want the kernel")
    gated_compiler.open()
    for process in running:
        _, errors = process.communicate(timeout=60)
        assert (process.returncode, errors) == (0, "")
    assert gated_compiler.compilations == 1
    assert not [path.name for path in (cache / "artifacts").iterdir() if path.name.startswith(".")]


def test_of_many_threads_that_build_one_kernel_at_once_only_one_compiles(children: Any, gated_compiler: Any) -> None:
    done = children.python(BUILD_IN_THREADS, str(MANY), env={"CXX": gated_compiler.command})
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout) == {"hits": MANY - 1, "objects": 1}
    assert gated_compiler.compilations == 1


def test_many_threads_without_a_cache_directory_share_one_temporary_one(
    children: Any, gated_compiler: Any, tmp_path: Path
) -> None:
    blocked, temporary = tmp_path / "file", tmp_path / "tmp"
    blocked.touch()
    temporary.mkdir()
    env = {"CXX": gated_compiler.command, "FLASHGEN_CACHE_DIR": blocked, "TMPDIR": temporary}
    done = children.python(BUILD_IN_THREADS, str(MANY), env=env)
    assert done.returncode == 0, done.stderr
    assert len(done.stderr.splitlines()) == 1  # said once
    assert gated_compiler.compilations == 1
    assert not list(temporary.iterdir())  # removed at exit
