"""The store: whole entries or none, one builder at a time, directories that deserve trust."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from flashgen.compilation.artifact import Compiled
from flashgen.compilation.lock import hold
from flashgen.compilation.store import Store, open_directory
from flashgen.errors import CompileError, ToolchainError

KEY, OTHER_KEY = "a" * 64, "b" * 64
TOOLCHAIN = (("compiler", "gcc version 12.2.0"), ("machine", "x86_64-linux-gnu"))
COMPILED = Compiled({"so": b"\x7fELF" + bytes(range(256)), "ptx": b"// text"}, "a warning\n", {"registers": 40})

root_only = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_directory(tmp_path / "artifacts")


@pytest.fixture
def entry(store: Store) -> Store:
    """A store with one entry, of KEY."""
    store.put(KEY, COMPILED, TOOLCHAIN)
    return store


def names(store: Store) -> list[str]:
    return sorted(path.name for path in store.directory.iterdir())


# ---- entries ----


def test_what_was_put_is_got(store: Store) -> None:
    assert store.get(KEY) is None
    put = store.put(KEY, COMPILED, TOOLCHAIN)
    got = store.get(KEY)
    assert got is not None
    assert (put.cache_hit, got.cache_hit) == (False, True)
    for artifact in (put, got):
        assert artifact.key == KEY
        assert artifact.toolchain == TOOLCHAIN
        assert artifact.report == {"registers": 40}
        assert artifact.log == "a warning\n"
        assert {suffix: path.read_bytes() for suffix, path in artifact.paths.items()} == COMPILED.files
        assert artifact.path.suffix == ".so"
    assert store.get(OTHER_KEY) is None
    assert names(store) == [f"{KEY}.json", f"{KEY}.ptx", f"{KEY}.so"]


def test_entries_are_for_the_user_alone(entry: Store) -> None:
    assert all(path.stat().st_mode & 0o077 == 0 for path in (entry.directory, *entry.directory.iterdir()))


def flip(at: float) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        contents = bytearray(path.read_bytes())
        contents[int(at * (len(contents) - 1))] ^= 1
        path.write_bytes(contents)

    return damage


def make_a_directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


DAMAGES: dict[str, Callable[[Path], Any]] = {
    "removed": Path.unlink,
    "empty": lambda path: path.write_bytes(b""),
    "truncated": lambda path: path.write_bytes(path.read_bytes()[:-1]),
    "halved": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "one byte longer": lambda path: path.write_bytes(path.read_bytes() + b"\0"),
    "another first bit": flip(0),
    "another bit in the middle": flip(0.5),
    "another last bit": flip(1),
    "zeros": lambda path: path.write_bytes(bytes(path.stat().st_size)),
    "garbage": lambda path: path.write_bytes(b"\xff\xfe{[" * 9),
    "a deep nest": lambda path: path.write_bytes(b"[" * 100_000),
    "null": lambda path: path.write_bytes(b"null"),
    "an empty object": lambda path: path.write_bytes(b"{}"),
}


@pytest.mark.parametrize("suffix", ["so", "ptx", "json"])
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_entry_is_a_miss_and_can_be_put_again(entry: Store, damage: str, suffix: str) -> None:
    DAMAGES[damage](entry.directory / f"{KEY}.{suffix}")
    assert entry.get(KEY) is None
    entry.put(KEY, COMPILED, TOOLCHAIN)
    assert entry.get(KEY) is not None


CHANGES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "log": lambda entry: entry.update(log="nothing to worry about"),
    "report": lambda entry: entry["report"].update(registers=41),
    "toolchain": lambda entry: entry["toolchain"][0].reverse(),
    "one file less": lambda entry: entry["files"].pop("ptx"),
    "no files": lambda entry: entry["files"].clear(),
    "a file elsewhere": lambda entry: entry["files"].update({"/../../x": entry["files"]["so"]}),
    "key": lambda entry: entry.update(key=OTHER_KEY),
}


@pytest.mark.parametrize("change", CHANGES)
def test_an_entry_whose_description_was_edited_is_a_miss(entry: Store, change: str) -> None:
    path = entry.directory / f"{KEY}.json"
    sealed = json.loads(path.read_bytes())
    CHANGES[change](sealed["entry"])
    path.write_text(json.dumps(sealed))
    assert entry.get(KEY) is None


def test_the_files_of_another_entry_under_this_name_are_a_miss(entry: Store) -> None:
    for path in list(entry.directory.iterdir()):
        path.rename(entry.directory / path.name.replace(KEY, OTHER_KEY))
    assert entry.get(OTHER_KEY) is None


@root_only
@pytest.mark.parametrize("suffix", ["so", "json"])
def test_a_file_of_another_user_is_a_miss(entry: Store, suffix: str) -> None:
    os.chown(entry.directory / f"{KEY}.{suffix}", 54321, 54321)
    assert entry.get(KEY) is None


@pytest.mark.parametrize("call", ["fsync", "replace"])
@pytest.mark.parametrize("after", [0, 1, 2])
def test_a_failed_put_leaves_no_temporary_files_and_nothing_half(
    store: Store, monkeypatch: pytest.MonkeyPatch, call: str, after: int
) -> None:
    calls = []
    real = getattr(os, call)

    def fail(*arguments: Any) -> None:
        calls.append(arguments)
        if len(calls) > after:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(*arguments)

    monkeypatch.setattr(os, call, fail)
    with pytest.raises(OSError, match="No space left"):
        store.put(KEY, COMPILED, TOOLCHAIN)
    assert store.get(KEY) is None
    assert not [name for name in names(store) if name.startswith(".")]


def test_readers_see_a_whole_entry_while_it_is_written_again_and_again(entry: Store) -> None:
    """The same key always has the same contents, so there is no moment at which it may be missing."""
    end = time.monotonic() + 0.3

    def read() -> int:
        reads = 0
        while time.monotonic() < end:
            assert entry.get(KEY) is not None
            reads += 1
        return reads

    def write() -> int:
        writes = 0
        while time.monotonic() < end:
            entry.put(KEY, COMPILED, TOOLCHAIN)
            writes += 1
        return writes

    with ThreadPoolExecutor(3) as pool:
        assert all(job.result() > 1 for job in [pool.submit(write), pool.submit(read), pool.submit(read)])


# ---- locks and working directories ----


def test_the_lock_of_a_key_lets_one_thread_in(store: Store) -> None:
    inside: list[int] = []

    def enter(_: int) -> None:
        with store.locked(KEY) as alone:
            assert alone
            inside.append(1)
            assert len(inside) == 1
            time.sleep(0.005)
            inside.pop()

    with ThreadPoolExecutor(8) as pool:
        assert len(list(pool.map(enter, range(16)))) == 16


def test_locks_of_different_keys_do_not_hinder_each_other(store: Store) -> None:
    with store.locked(KEY), store.locked(OTHER_KEY, seconds=0) as alone:
        assert alone


def test_a_lock_that_is_held_too_long_is_a_timeout(store: Store) -> None:
    with store.locked(KEY):
        with pytest.raises(TimeoutError, match="another process holds its lock"), store.locked(KEY, seconds=0.05):
            pytest.fail("two hold one lock")
        with pytest.raises(TimeoutError), store.locked(KEY, seconds=0):
            pytest.fail("two hold one lock")
    with store.locked(KEY, seconds=0) as alone:
        assert alone


def test_a_lock_is_let_go_when_the_build_fails(store: Store) -> None:
    with pytest.raises(CompileError), store.locked(KEY):
        raise CompileError("no")
    with store.locked(KEY, seconds=0) as alone:
        assert alone


def test_a_lock_file_that_was_removed_while_one_waited_for_it_does_not_let_two_in(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    entered = threading.Event()
    leave = threading.Event()

    def wait_for_lock() -> None:
        with hold(path, 10):
            entered.set()
            leave.wait(10)

    with ThreadPoolExecutor(1) as pool:
        with hold(path, 10):
            waiting = pool.submit(wait_for_lock)
            time.sleep(0.05)  # it has the file open by now
            path.unlink()
        assert entered.wait(10)
        with pytest.raises(TimeoutError), hold(path, 0):
            pytest.fail("two hold one lock")
        leave.set()
        waiting.result()


def test_locks_leave_no_open_files(store: Store) -> None:
    def descriptors() -> int:
        return len(os.listdir("/proc/self/fd"))

    before = descriptors()
    for _ in range(3):
        with store.locked(KEY), pytest.raises(TimeoutError), store.locked(KEY, seconds=0):
            pytest.fail("two hold one lock")
    assert descriptors() == before


def no_locks(*_: Any) -> None:
    raise OSError(errno.ENOLCK, "No locks available")


def test_where_the_file_system_has_no_locks_work_goes_on_and_disturbs_nobody(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fcntl, "flock", no_locks)
    with store.locked(KEY) as alone, store.workdir(KEY, alone) as mine:
        assert not alone
        with store.locked(KEY) as also, store.workdir(KEY, also) as theirs:
            assert mine != theirs
        assert mine.is_dir()


def test_a_working_directory_is_private_empty_and_removed(store: Store) -> None:
    with store.workdir(KEY, alone=True) as workdir:
        assert workdir.parent == store.directory
        assert workdir.stat().st_mode & 0o077 == 0
        assert not list(workdir.iterdir())
        (workdir / "kernel.o").touch()
    assert names(store) == []


@pytest.mark.parametrize("error", [CompileError("no"), KeyboardInterrupt()])
def test_a_working_directory_is_removed_when_the_build_fails(store: Store, error: BaseException) -> None:
    with pytest.raises(type(error)), store.workdir(KEY, alone=True) as workdir:
        (workdir / "kernel.o").touch()
        raise error
    assert names(store) == []


def leave_behind(store: Store, key: str, seconds_ago: float = 0) -> list[str]:
    """What a build that was killed leaves: a working directory, and a file that was being written."""
    folder, file = store.directory / f".{key}.x1", store.directory / f".{key}.so.x2"
    folder.mkdir()
    (folder / "kernel.o").write_text("half")
    file.write_text("half")
    for path in (folder, file):
        os.utime(path, (time.time() - seconds_ago,) * 2)
    return [file.name, folder.name]


def test_the_next_build_of_a_key_sweeps_what_a_killed_one_left(store: Store) -> None:
    leave_behind(store, KEY)
    theirs = leave_behind(store, OTHER_KEY)
    with store.workdir(KEY, alone=True):
        pass
    assert names(store) == theirs  # which may be another process's build, at this moment


def test_any_build_sweeps_what_was_left_long_ago_but_nothing_that_is_not_ours(store: Store) -> None:
    leave_behind(store, OTHER_KEY, seconds_ago=7200)
    foreign = store.directory / ".notes"
    foreign.mkdir()
    os.utime(foreign, (0, 0))
    with store.workdir(KEY, alone=False):
        pass
    assert names(store) == [".notes"]


# ---- counting and clearing ----


def test_entries_counts_artifacts_and_bytes(entry: Store) -> None:
    entry.put(OTHER_KEY, Compiled({"so": b"12345"}), ())
    leave_behind(entry, OTHER_KEY)
    (entry.directory / "foreign.json").write_text("{}")
    size = sum((entry.directory / name).stat().st_size for name in names(entry) if name[0] in "ab")
    assert entry.entries() == (2, size)


def test_clear_removes_artifacts_locks_and_leftovers_and_nothing_else(entry: Store) -> None:
    entry.put(OTHER_KEY, COMPILED, TOOLCHAIN)
    with entry.locked(KEY):
        pass
    leave_behind(entry, KEY)
    foreign = ["model.json", f"{KEY}x.so", "weights"]
    for name in foreign[:2]:
        (entry.directory / name).write_text("{}")
    (entry.directory / "weights").mkdir()
    counted = entry.entries()
    assert entry.clear() == counted
    assert counted[0] == 2
    assert names(entry) == sorted(foreign)
    assert entry.clear() == (0, 0)


def test_clear_leaves_a_kernel_alone_that_is_being_built(entry: Store) -> None:
    entry.put(OTHER_KEY, COMPILED, TOOLCHAIN)
    with entry.locked(KEY) as alone, entry.workdir(KEY, alone) as workdir:
        assert entry.clear()[0] == 2
        assert workdir.is_dir()
        assert entry.get(KEY) is not None
        assert entry.get(OTHER_KEY) is None
        with pytest.raises(TimeoutError), entry.locked(KEY, seconds=0):
            pytest.fail("two hold one lock")
    entry.clear()
    assert names(entry) == []


def test_clear_without_locks_leaves_fresh_leftovers_alone(entry: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fcntl, "flock", no_locks)
    fresh = leave_behind(entry, KEY)
    leave_behind(entry, OTHER_KEY, seconds_ago=7200)
    entry.clear()
    assert names(entry) == fresh


# ---- directories ----


def test_a_store_directory_is_made_for_this_user_alone_whatever_the_umask(tmp_path: Path) -> None:
    umask = os.umask(0)
    try:
        store = open_directory(tmp_path / "new" / "artifacts")
    finally:
        os.umask(umask)
    assert store.directory.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("mode", [0o720, 0o702, 0o777, 0o1777])
def test_a_directory_that_others_can_write_is_refused(tmp_path: Path, mode: int) -> None:
    tmp_path.chmod(mode)
    with pytest.raises(ToolchainError, match=rf"others can write to it \(chmod go-w {tmp_path}\)"):
        open_directory(tmp_path)
    tmp_path.chmod(0o755)
    open_directory(tmp_path)


@root_only
def test_a_directory_of_another_user_is_refused(tmp_path: Path) -> None:
    os.chown(tmp_path, 54321, 54321)
    with pytest.raises(ToolchainError, match="belongs to another user"):
        open_directory(tmp_path)


def test_a_link_in_place_of_the_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    with pytest.raises(ToolchainError, match="not a directory"):
        open_directory(tmp_path / "link")
    open_directory(tmp_path / "link" / "artifacts")  # its parents may be links: ~/.cache often is


@pytest.mark.parametrize("place", ["file", "file/below", "dangling"])
def test_what_cannot_be_a_directory_is_refused(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "dangling").symlink_to("nowhere")
    with pytest.raises(ToolchainError, match=rf"{place} cannot be used: .*\.$"):
        open_directory(tmp_path / place)


def test_a_relative_directory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ToolchainError, match="no home or working directory"):
        open_directory(Path("~/.cache"))
    assert not list(tmp_path.iterdir())


def test_a_noexec_file_system_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_flag=os.ST_NOEXEC))
    with pytest.raises(ToolchainError, match="mounted noexec"):
        open_directory(tmp_path)
