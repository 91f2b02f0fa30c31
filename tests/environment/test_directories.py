"""Homes, caches and temporary directories of every unhappy kind."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

BUILD = "import kernel_child; kernel_child.check(kernel_child.build())"
# Two kernels, because a warning for each would be one too many; the path tells where the first one lives.
BUILD_TWO = """
import kernel_child
first, second = kernel_child.build(), kernel_child.build(d=9)
kernel_child.check(first), kernel_child.check(second)
print(first.artifact.path)
"""
NO_HOME = {"FLASHGEN_CACHE_DIR": None, "HOME": None}
STRANGE_NAMES = ["with a space", "Zürich", "-o $(touch x);&'n\"[a-z]*?"]


@pytest.fixture
def temporary(tmp_path: Path) -> Path:
    """The TMPDIR of children, for every user."""
    directory = tmp_path / "tmp"
    directory.mkdir()
    directory.chmod(0o1777)
    return directory


def assert_built_in(temporary: Path, done: Any, *reasons: str) -> None:
    """Both kernels worked, the reason was said once, and the temporary directory is gone."""
    assert done.returncode == 0, done.stderr
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert all(reason in done.stderr for reason in reasons), done.stderr
    assert Path(done.stdout.strip()).is_relative_to(temporary)
    assert not list(temporary.iterdir())


@pytest.mark.parametrize("name", STRANGE_NAMES)
def test_a_cache_directory_and_a_temporary_directory_may_have_any_name(
    children: Any, tmp_path: Path, name: str
) -> None:
    directory = tmp_path / name
    directory.mkdir()
    for hit in (False, True):
        code = f"{BUILD}\nassert kernel_child.build().artifact.cache_hit is {hit}"
        done = children.python(code, cwd=directory, env={"FLASHGEN_CACHE_DIR": directory, "TMPDIR": directory})
        assert (done.returncode, done.stderr) == (0, "")
    assert [path.name for path in directory.iterdir()] == ["artifacts"]


def test_names_that_are_not_utf_8_work_too(children: Any, tmp_path: Path) -> None:
    directory = tmp_path / os.fsdecode(b"caf\xe9")
    done = children.python(BUILD, env={"FLASHGEN_CACHE_DIR": directory})
    assert (done.returncode, done.stderr) == (0, "")
    assert (directory / "artifacts").is_dir()


@pytest.mark.skipif(not sys.prefix.isascii(), reason="in such a place Python itself does not start in that locale")
def test_a_locale_without_umlauts_does_not_matter(children: Any, tmp_path: Path) -> None:
    env = {"FLASHGEN_CACHE_DIR": tmp_path / "Zürich", "LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    done = children.python(BUILD, env=env)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_checkout_may_stand_under_any_name(children: Any, tmp_path: Path) -> None:
    import flashgen
    from flashgen.render.environment import templates_dir

    checkout = tmp_path / "mein Prüf stand"
    shutil.copytree(Path(flashgen.__file__).parent, checkout / "flashgen")
    shutil.copytree(templates_dir(), checkout / "templates", dirs_exist_ok=True)
    arguments = ["build", "--d", "8", "--out", "aus gabe"]
    done = children.flashgen(*arguments, cwd=checkout, env={"FLASHGEN_CACHE_DIR": "ü"})
    assert (done.returncode, done.stderr) == (0, "")
    assert {path.suffix for path in (checkout / "aus gabe").iterdir()} == {".cpp", ".so"}
    assert list((checkout / "ü" / "artifacts").glob("*.so"))


def test_a_working_directory_that_was_removed_does_not_matter(children: Any, tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    code = f"import os; os.rmdir({str(gone)!r})\n{BUILD}"
    done = children.python(code, cwd=gone)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_relative_cache_directory_in_a_removed_working_directory_is_replaced(
    children: Any, tmp_path: Path, temporary: Path
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    code = f"import os; os.rmdir({str(gone)!r})\n{BUILD_TWO}"
    done = children.python(code, cwd=gone, env={"FLASHGEN_CACHE_DIR": "kept", "TMPDIR": temporary})
    assert_built_in(temporary, done, "kept")


def test_by_default_kernels_are_kept_in_the_home(children: Any, tmp_path: Path) -> None:
    done = children.python(BUILD, env={"FLASHGEN_CACHE_DIR": None, "HOME": tmp_path})
    assert (done.returncode, done.stderr) == (0, "")
    assert list((tmp_path / ".cache" / "flashgen" / "artifacts").glob("*.so"))


@pytest.mark.parametrize("home", [None, ""])
def test_without_home_the_passwd_file_tells_it(children: Any, mount: Any, tmp_path: Path, home: str | None) -> None:
    from_passwd = tmp_path / "root"
    from_passwd.mkdir()
    passwd = tmp_path / "passwd"
    passwd.write_text(f"root:x:0:0:root:{from_passwd}:/bin/sh\n")
    done = children.python(BUILD, env=NO_HOME | {"HOME": home}, wrapper=mount(["--bind", passwd, "/etc/passwd"]))
    assert (done.returncode, done.stderr) == (0, "")
    assert (from_passwd / ".cache" / "flashgen" / "artifacts").is_dir()


def test_a_user_without_home_and_passwd_entry_builds_in_a_temporary_directory(
    children: Any, stranger: list[str], temporary: Path
) -> None:
    done = children.python(BUILD_TWO, env=NO_HOME | {"TMPDIR": temporary}, wrapper=stranger, cwd="/")
    assert_built_in(temporary, done, "no home")


@pytest.mark.parametrize("home", ["/nonexistent", "/dev/null"])
def test_a_home_that_cannot_be_made_is_replaced(children: Any, stranger: list[str], temporary: Path, home: str) -> None:
    env = {"FLASHGEN_CACHE_DIR": None, "HOME": home, "TMPDIR": temporary}
    done = children.python(BUILD_TWO, env=env, wrapper=stranger, cwd="/")
    assert_built_in(temporary, done, home)


def test_a_cache_of_somebody_else_is_not_trusted(
    children: Any, stranger: list[str], cache: Path, temporary: Path
) -> None:
    assert children.python(BUILD).returncode == 0
    cache.parent.chmod(0o755)
    done = children.python(BUILD_TWO, env={"TMPDIR": temporary}, wrapper=stranger, cwd="/")
    assert_built_in(temporary, done, "another user", str(cache))


@pytest.mark.parametrize("mode", [0o770])
def test_a_cache_that_others_can_write_is_not_trusted(children: Any, cache: Path, temporary: Path, mode: int) -> None:
    assert children.python(BUILD).returncode == 0
    (cache / "artifacts").chmod(mode)
    done = children.python(BUILD_TWO, env={"TMPDIR": temporary})
    assert_built_in(temporary, done, "others can write", f"chmod go-w {cache / 'artifacts'}")


def test_a_read_only_cache_gives_what_it_has_and_the_rest_is_built_elsewhere(
    children: Any, mount: Any, cache: Path, temporary: Path
) -> None:
    assert children.python(BUILD).returncode == 0
    read_only = mount(["--bind", cache, cache], ["-o", "remount,ro,bind", cache])
    done = children.python(BUILD, env={"TMPDIR": temporary, "CXX": "g++"}, wrapper=read_only)
    assert (done.returncode, done.stderr) == (0, "")
    code = f"{BUILD_TWO}\nassert first.artifact.cache_hit\nprint(second.artifact.path)"
    done = children.python(code, env={"TMPDIR": temporary}, wrapper=read_only)
    assert done.returncode == 0, done.stderr
    assert [line.count("Read-only file system") for line in done.stderr.splitlines()] == [1]
    first, second = map(Path, done.stdout.split())
    assert first.is_relative_to(cache)
    assert second.is_relative_to(temporary)


def test_a_read_only_home_is_replaced(children: Any, mount: Any, tmp_path: Path, temporary: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    env = {"FLASHGEN_CACHE_DIR": None, "HOME": home, "TMPDIR": temporary}
    done = children.python(BUILD_TWO, env=env, wrapper=mount(["-t", "tmpfs", "-o", "ro", "tmpfs", home]))
    assert_built_in(temporary, done, "Read-only file system")


@pytest.mark.parametrize("size", ["8k", "40k"])
def test_a_full_disk_is_replaced(children: Any, mount: Any, cache: Path, temporary: Path, size: str) -> None:
    """The sizes break the compiler itself, and what comes after it."""
    cache.mkdir()
    env = {"TMPDIR": temporary}
    done = children.python(
        BUILD_TWO, env=env, wrapper=mount(["-t", "tmpfs", "-o", f"size={size},mode=700", "tmpfs", cache])
    )
    assert_built_in(temporary, done, "No space left on device")


def test_when_every_disk_is_full_one_line_says_so(children: Any, mount: Any, cache: Path) -> None:
    cache.mkdir()
    full = mount(["-t", "tmpfs", "-o", "size=8k,mode=700", "tmpfs", cache])
    done = children.python(MESSAGE, env={"TMPDIR": cache}, wrapper=full)
    assert done.returncode == 0, done.stderr
    kind, *message = done.stdout.splitlines()
    assert kind == "ToolchainError"
    assert len(message) == 1
    assert "No space left on device" in message[0]
    assert "FLASHGEN_CACHE_DIR" in message[0]


MESSAGE = """
import kernel_child, flashgen
try:
    kernel_child.build()
except Exception as error:
    print(type(error).__name__)
    print(error)
"""


def test_a_limit_on_file_sizes_is_told_apart_from_a_wrong_kernel(children: Any) -> None:
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (2048, 2048))"
    done = children.python(f"{limit}\n{MESSAGE}")
    assert done.returncode == 0, done.stderr
    kind, *message = done.stdout.splitlines()
    assert kind == "ToolchainError"
    assert len(message) == 1
    assert "File too large" in message[0]


def test_a_noexec_cache_is_replaced(children: Any, mount: Any, cache: Path, temporary: Path) -> None:
    cache.mkdir()
    noexec = mount(["-t", "tmpfs", "-o", "noexec,mode=700", "tmpfs", cache])
    done = children.python(BUILD_TWO, env={"TMPDIR": temporary}, wrapper=noexec)
    assert_built_in(temporary, done, "noexec", str(cache))


def test_a_noexec_temporary_directory_does_not_matter_beside_a_good_cache(
    children: Any, mount: Any, cache: Path, temporary: Path
) -> None:
    noexec = mount(["-t", "tmpfs", "-o", "noexec", "tmpfs", temporary])
    done = children.python(BUILD, env={"TMPDIR": temporary}, wrapper=noexec)
    assert (done.returncode, done.stderr) == (0, "")
    assert list((cache / "artifacts").glob("*.so"))


def test_where_nothing_may_be_executed_one_line_says_so(
    children: Any, mount: Any, cache: Path, temporary: Path
) -> None:
    cache.mkdir()
    noexec = mount(*(["-t", "tmpfs", "-o", "noexec", "tmpfs", directory] for directory in (cache, temporary)))
    done = children.python(MESSAGE, env={"TMPDIR": temporary}, wrapper=noexec)
    assert done.returncode == 0, done.stderr
    kind, *message = done.stdout.splitlines()
    assert kind == "ToolchainError"
    assert len(message) == 1
    assert "noexec" in message[0]
    assert "FLASHGEN_CACHE_DIR" in message[0]


def test_a_temporary_directory_of_a_worker_process_is_removed_when_the_worker_ends(
    tolerant_children: Any, tmp_path: Path, temporary: Path
) -> None:
    code = """
import multiprocessing, os, kernel_child

def work():
    kernel_child.check(kernel_child.build())
    assert len(os.listdir(os.environ["TMPDIR"])) >= 1

if __name__ == "__main__":
    for method in ("fork", "spawn"):
        worker = multiprocessing.get_context(method).Process(target=work)
        worker.start()
        worker.join()
        assert worker.exitcode == 0, method
"""
    script = tmp_path / "workers.py"
    script.write_text(code)
    blocked = tmp_path / "file"
    blocked.touch()
    code = f"import runpy; runpy.run_path({str(script)!r}, run_name='__main__')"
    done = tolerant_children.python(code, env={"FLASHGEN_CACHE_DIR": blocked, "TMPDIR": temporary})
    assert done.returncode == 0, done.stderr
    assert not list(temporary.iterdir())
