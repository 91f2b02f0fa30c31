"""Which libgomp kernels use, and how many threads of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from flashgen.runtime import openmp
from flashgen.runtime.openmp import ThreadPool, libgomp_paths, thread_pool

LINE = "7f0000000000-7f0000001000 r-xp 00000000 fe:00 1234                       {path}\n"


def maps(*paths: str) -> str:
    return "".join(LINE.format(path=path) for path in paths)


def test_each_copy_is_listed_once_and_nothing_else_is() -> None:
    text = maps(
        "/usr/lib/libgomp.so.1.0.0", "/usr/lib/libgomp.so.1.0.0", "/env/libgomp/numpy.so", "[heap]", "/lib/libm.so"
    )
    assert libgomp_paths(text + "7f00-7f01 rw-p 00000000 00:00 0\n") == ["/usr/lib/libgomp.so.1.0.0"]


@pytest.mark.parametrize("torch", ["/env/torch/lib/libgomp-a34b3233.so.1", "/env/torch.libs/libgomp-98b21ff3.so.1"])
def test_the_copy_of_torch_comes_first(torch: str) -> None:
    others = ["/env/scikit_learn.libs/libgomp-a34b3233.so.1.0.0", "/usr/lib/libgomp.so.1.0.0"]
    assert libgomp_paths(maps(*others, torch)) == [torch, *others]


def test_a_path_with_spaces_is_whole() -> None:
    assert libgomp_paths(maps("/my env/libgomp.so.1")) == ["/my env/libgomp.so.1"]


def test_the_pool_of_this_process_is_in_its_own_maps() -> None:
    pool = thread_pool()
    if not pool.parallel:
        pytest.skip("this machine has no libgomp")
    assert pool.max_threads() >= 1
    assert libgomp_paths(Path("/proc/self/maps").read_text())
    assert thread_pool() is pool


def test_without_libgomp_there_is_one_thread() -> None:
    assert ThreadPool(0, "", None).max_threads() == 1


def test_a_forked_child_uses_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = ThreadPool(1, "stand-in", lambda: 8)  # type: ignore[arg-type]
    assert pool.max_threads() == 8
    monkeypatch.setattr(openmp, "_forked", True)
    assert pool.max_threads() == 1
