"""libgomp's threads do not survive a fork: a child computes on one thread, and never hangs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

START = """
import json, multiprocessing, os, threading
import kernel_child

def threads():
    return len(os.listdir("/proc/self/task"))

def in_a_child(work):
    "Runs work() in a forked child, and returns what it returns."
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writer, json.dumps(work()).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with open(reader) as answer:
        text = answer.read()
    _, status = os.waitpid(child, 0)
    assert status == 0, f"the child ended with {status}"
    assert text, "the child raised"
    return json.loads(text)

attn = kernel_child.build()
before = kernel_child.digest(attn)
assert threads() > 1, "the parent should have a pool for the child to miss"
"""

COMPUTE = (
    START
    + """
def work():
    return [kernel_child.digest(attn), threads(), in_a_child(lambda: kernel_child.digest(attn))]

bits, child_threads, grandchild_bits = in_a_child(work)
print(json.dumps([before, bits, grandchild_bits, kernel_child.digest(attn), child_threads]))
"""
)

BUILD_IN_CHILD = (
    START
    + """
def work():
    kernel_child.check(kernel_child.build(d=9))
    return kernel_child.digest(attn)

assert in_a_child(work) == before
"""
)

FIRST_CALL_IN_CHILD = """
import os
import kernel_child
attn = kernel_child.build()
child = os.fork()
if child == 0:
    kernel_child.check(attn)
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
kernel_child.check(attn)
"""

POOL = (
    START
    + """
import functools

def work(number):
    kernel_child.check(kernel_child.build(d=8 + number % 2))
    return kernel_child.digest(attn)

with multiprocessing.get_context("fork").Pool(2) as pool:
    assert set(pool.map(work, range(4))) == {before}
"""
)

WITH_TORCH = (
    """
import torch
torch.set_num_threads(2)
"""
    + START
    + """
from flashgen.reference import attention_reference
q, k, v = map(torch.from_numpy, kernel_child.inputs(8))
torch.randn(512, 512) @ torch.randn(512, 512)  # torch's own parallel regions
expected = attn(q, k, v)

def work():
    fresh = kernel_child.build(d=9)
    kernel_child.check(fresh)
    return [torch.equal(attn(q, k, v), expected), kernel_child.digest(attn)]

assert in_a_child(work) == [True, before]
assert torch.equal(attn(q, k, v), expected)
"""
)


def test_a_forked_child_and_its_own_child_compute_the_same_bits_on_one_thread(tolerant_children: Any) -> None:
    done = tolerant_children.python(COMPUTE)
    assert done.returncode == 0, done.stderr
    *bits, child_threads = json.loads(done.stdout)
    assert len(set(bits)) == 1
    assert child_threads == 1


@pytest.mark.parametrize("code", [BUILD_IN_CHILD, FIRST_CALL_IN_CHILD], ids=["a new kernel", "the first call"])
def test_a_forked_child_can_build_and_call(tolerant_children: Any, code: str) -> None:
    done = tolerant_children.python(code)
    assert done.returncode == 0, done.stderr


def test_workers_of_a_forked_pool_compute_and_build(tolerant_children: Any) -> None:
    done = tolerant_children.python(POOL)
    assert done.returncode == 0, done.stderr


def test_a_forked_child_computes_on_torch_tensors_after_torch_used_its_threads(tolerant_children: Any) -> None:
    pytest.importorskip("torch")
    done = tolerant_children.python(WITH_TORCH)
    assert done.returncode == 0, done.stderr


HELD_LOCK = """
import os, pathlib, signal, sys, threading, time
import kernel_child

log = pathlib.Path(sys.argv[1])
threading.Thread(target=kernel_child.build).start()
while not log.exists():
    time.sleep(0.01)
if os.fork() == 0:
    pathlib.Path(sys.argv[2]).touch()
    time.sleep(100)
signal.pause()
"""


def test_a_forked_child_does_not_keep_the_lock_of_a_build_of_its_parent(
    children: Any, tolerant_children: Any, gated_compiler: Any, wait_for: Any, tmp_path: Path
) -> None:
    """The parent is killed while it compiles; its child lives on with copies of its file descriptors."""
    gated_compiler.close()
    env = {"CXX": gated_compiler.command}
    parent = tolerant_children.start(HELD_LOCK, str(gated_compiler.log), str(mark := tmp_path / "forked"), env=env)
    wait_for(mark.exists, "the parent to fork")
    parent.kill()
    done = children.python("import kernel_child; kernel_child.check(kernel_child.build())")
    assert (done.returncode, done.stderr) == (0, "")


BUSY_PARENT = """
import pathlib, sys, threading, time
import kernel_child
import os

log, forked = map(pathlib.Path, sys.argv[1:])
builder = threading.Thread(target=kernel_child.build)
builder.start()
while not log.exists():
    time.sleep(0.01)
child = os.fork()
if child == 0:
    forked.touch()
    kernel_child.check(kernel_child.build())
    os._exit(0)
builder.join()
assert os.waitpid(child, 0)[1] == 0
kernel_child.check(kernel_child.build())
"""


def test_a_child_that_was_forked_while_its_parent_built_gets_the_same_kernel(
    tolerant_children: Any, gated_compiler: Any, wait_for: Any, tmp_path: Path
) -> None:
    gated_compiler.close()
    forked = tmp_path / "forked"
    env = {"CXX": gated_compiler.command}
    parent = tolerant_children.start(BUSY_PARENT, str(gated_compiler.log), str(forked), env=env)
    wait_for(forked.exists, "the parent to fork")
    gated_compiler.open()
    _, errors = parent.communicate(timeout=60)
    assert parent.returncode == 0, errors
    assert gated_compiler.compilations == 1
