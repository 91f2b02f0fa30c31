"""Entries that were damaged on disk are built again, and a cache that is being emptied harms no build."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

BUILD = "import kernel_child; kernel_child.check(kernel_child.build())"


@pytest.mark.parametrize("suffix", ["so", "json"])
def test_a_damaged_entry_is_built_again(children: Any, gated_compiler: Any, cache: Path, suffix: str) -> None:
    env = {"CXX": gated_compiler.command}
    assert children.python(BUILD, env=env).returncode == 0
    (entry,) = (cache / "artifacts").glob(f"*.{suffix}")
    whole = entry.read_bytes()
    middle = len(whole) // 2
    entry.write_bytes(whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :])
    for _ in range(2):
        done = children.python(BUILD, env=env)
        assert (done.returncode, done.stderr) == (0, "")
        assert gated_compiler.compilations == 2
    assert entry.read_bytes() == whole


def test_emptying_the_cache_leaves_a_build_that_runs_alone(children: Any, gated_compiler: Any, cache: Path) -> None:
    """The build ends well, is kept, and the lock that it holds still keeps others from compiling."""
    assert children.python("import kernel_child; kernel_child.build(d=9)").returncode == 0
    env = {"CXX": gated_compiler.command}
    gated_compiler.close()
    first = children.start(BUILD, env=env)
    gated_compiler.wait_for_compilation()
    done = children.flashgen("cache", "clear", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["artifacts"] == 1
    second = children.start(BUILD, env=env)
    children.python("import time; time.sleep(0.5)")
    gated_compiler.open()
    for process in (first, second):
        _, errors = process.communicate(timeout=60)
        assert (process.returncode, errors) == (0, "")
    assert gated_compiler.compilations == 1
    assert len(list((cache / "artifacts").glob("*.so"))) == 1


def test_emptying_the_cache_over_and_over_disturbs_no_store(children: Any, cache: Path) -> None:
    code = """
import sys, threading, time
from pathlib import Path
from flashgen.compilation.artifact import Compiled
from flashgen.compilation.store import open_directory

store = open_directory(Path(sys.argv[1]))
end = time.monotonic() + 1.5
if sys.argv[2] == "clear":
    while time.monotonic() < end:
        store.clear()
        store.entries()
else:
    keys = [f"{number:064x}" for number in range(4)]
    rounds = 0
    while time.monotonic() < end:
        for key in keys:
            with store.locked(key) as alone, store.workdir(key, alone) as workdir:
                (workdir / "file").write_text("x")
                store.put(key, Compiled({"so": key.encode() * 100}), ())
                assert store.get(key) is not None
            rounds += 1
    assert rounds > 10
"""
    arguments = [(str(cache / "artifacts"), what) for what in ("clear", "build", "build", "clear")]
    running = [children.start(code, *each) for each in arguments]
    for process in running:
        _, errors = process.communicate(timeout=60)
        assert (process.returncode, errors) == (0, "")


def test_emptying_the_cache_touches_nothing_but_artifacts(children: Any, cache: Path) -> None:
    assert children.python(BUILD).returncode == 0
    artifacts = cache / "artifacts"
    (artifacts / "model.json").write_text("{}")
    (artifacts / "weights").mkdir()
    done = children.flashgen("cache", "clear")
    assert (done.returncode, done.stderr) == (0, "")
    assert "Removed 1 compiled kernels" in done.stdout
    assert sorted(path.name for path in artifacts.iterdir()) == ["model.json", "weights"]


VANISHED = """
import kernel_child
from flashgen.runtime.ctypes_loader import CtypesLoader

load, loads = CtypesLoader.load, []

def load_late(self, artifact, source):
    loads.append(artifact)
    if len(loads) == 1:
        from flashgen.compilation.cache import open_store
        open_store().clear()
    return load(self, artifact, source)

CtypesLoader.load = load_late
kernel_child.check(kernel_child.build())
assert len(loads) == 2
"""


def test_a_kernel_that_vanishes_between_building_and_loading_is_built_again(children: Any) -> None:
    done = children.python(VANISHED)
    assert (done.returncode, done.stderr) == (0, "")


TWO_KERNELS = """
import kernel_child, flashgen
from dataclasses import replace
import flashgen.pipeline as pipeline
from flashgen.render import renderer

plain = kernel_child.build()
expected = kernel_child.digest(plain)

def render(*arguments):
    source = renderer.render(*arguments)
    return replace(source, text=source.text + "\\n// another source, same name\\n"
                   'extern "C" __attribute__((visibility("default"))) int marker() { return 7; }\\n')

pipeline.render = render
other = kernel_child.build(loader="ctypes")  # another request, so that it is not remembered
assert other is not plain
assert other.source.filename == plain.source.filename
assert other.source.entry == plain.source.entry
assert other.artifact.path != plain.artifact.path
assert kernel_child.digest(other) == expected == kernel_child.digest(plain)
import ctypes
assert ctypes.CDLL(str(other.artifact.path)).marker() == 7
assert not hasattr(ctypes.CDLL(str(plain.artifact.path)), "marker")
"""


def test_two_kernels_of_one_name_live_in_one_process(children: Any) -> None:
    done = children.python(TWO_KERNELS)
    assert (done.returncode, done.stderr) == (0, "")


WRONG_LEVEL = """
import kernel_child, flashgen, ctypes
from flashgen.errors import LaunchError
from flashgen.runtime import ctypes_loader, device

loads = []
load = ctypes.CDLL
ctypes.CDLL = lambda *arguments, **more: loads.append(arguments) or load(*arguments, **more)
target = str(device.host_target())
features = device.host_features()
lacking = sorted(device.required_features(device.host_target()))[0]
ctypes_loader.host_features = device.host_features = lambda: features - {lacking}
try:
    kernel_child.build(target=target)
except LaunchError as error:
    assert error.exit_code == 6
    print(error)
assert not [name for name, *_ in loads if str(name).endswith(".so")], loads
print(lacking)
print(target)
"""


def test_a_library_for_a_cpu_that_this_one_is_not_is_never_loaded(children: Any) -> None:
    done = children.python(WRONG_LEVEL)
    assert (done.returncode, done.stderr) == (0, "")
    message, lacking, target = done.stdout.splitlines()
    assert f"lacks {lacking}." in message
    assert target in message
    assert "--target cpu" in message
