"""The key of an artifact changes with everything that its bytes depend on, and with nothing else."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flashgen.compilation.key import artifact_key
from flashgen.compilation.toolchains.host import Compiler, HostToolchain
from flashgen.target import Target

TARGET = Target("cpu", "x86-64-v3")
TOOLCHAIN = (("compiler", "gcc version 12.2.0"), ("machine", "x86_64-linux-gnu"))
FLAGS = ("-O3", "-shared")


@dataclass(frozen=True)
class Text:
    """As much of a source as a toolchain sees."""

    text: str = "int f() { return 1; }"
    language: str = "c++"
    entry: str = "f"
    target: Target = TARGET
    filename: str = "f.cpp"


PLAIN = artifact_key(Text(), FLAGS, TOOLCHAIN)

OTHERS = {
    "a letter of the source": (Text("int f() { return 2; }"), FLAGS, TOOLCHAIN),
    "white space in the source": (Text("int f() { return 1; }\n"), FLAGS, TOOLCHAIN),
    "the language": (Text(language="cuda"), FLAGS, TOOLCHAIN),
    "the entry": (Text(entry="g"), FLAGS, TOOLCHAIN),
    "a flag": (Text(), ("-O2", "-shared"), TOOLCHAIN),
    "one more flag": (Text(), (*FLAGS, "-g"), TOOLCHAIN),
    "one flag less": (Text(), FLAGS[:1], TOOLCHAIN),
    "the order of flags": (Text(), FLAGS[::-1], TOOLCHAIN),
    "two flags in one": (Text(), ("-O3-shared",), TOOLCHAIN),
    "the version of the compiler": (Text(), FLAGS, (("compiler", "gcc version 12.2.1"), TOOLCHAIN[1])),
    "the machine": (Text(), FLAGS, (TOOLCHAIN[0], ("machine", "aarch64-linux-gnu"))),
    "a label": (Text(), FLAGS, (("compiler2", TOOLCHAIN[0][1]), TOOLCHAIN[1])),
    "a letter that moves from label to value": (Text(), FLAGS, (("compile", "r" + TOOLCHAIN[0][1]), TOOLCHAIN[1])),
    "a letter that moves from the source to the last value": (
        Text("nt f() { return 1; }"),
        FLAGS,
        (TOOLCHAIN[0], ("machine", TOOLCHAIN[1][1] + "i")),
    ),
    "a flag that looks like the toolchain": (Text(), (*FLAGS, "toolchain.compiler"), TOOLCHAIN[1:]),
}


@pytest.mark.parametrize("changed", OTHERS)
def test_a_key_changes_with(changed: str) -> None:
    assert artifact_key(*OTHERS[changed]) != PLAIN


def test_all_changes_give_different_keys() -> None:
    keys = [artifact_key(*other) for other in OTHERS.values()]
    assert len({*keys, PLAIN}) == len(keys) + 1


def test_a_key_is_a_file_name_for_every_file_system() -> None:
    assert re.fullmatch(r"[0-9a-f]{64}", PLAIN)


def test_the_name_of_the_file_and_the_type_of_the_sequences_do_not_matter() -> None:
    assert artifact_key(Text(filename="g.cpp"), list(FLAGS), iter(TOOLCHAIN)) == PLAIN


words = st.text(alphabet="ab-.\x00ü", max_size=4)
requests = st.tuples(words, st.lists(words, max_size=3), st.lists(st.tuples(words, words), max_size=3))


@given(requests, requests)
def test_keys_are_equal_exactly_where_requests_are(one: tuple, other: tuple) -> None:  # type: ignore[type-arg]
    keys = [artifact_key(Text(text), flags, toolchain) for text, flags, toolchain in (one, other)]
    assert (keys[0] == keys[1]) == (one == other)


@pytest.mark.parametrize("levels", [("x86-64-v2", "x86-64-v3"), ("x86-64-v4", "x86-64-v4-bf16")])
def test_every_target_has_its_own_key(levels: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = Compiler(("/usr/bin/g++",), "gcc", "gcc version 12.2.0", "x86_64-linux-gnu")
    monkeypatch.setattr("flashgen.compilation.toolchains.host.find_compiler", lambda: compiler)
    host = HostToolchain()
    flags = [host.flags(Target("cpu", level)) for level in levels]
    assert artifact_key(Text(), flags[0], TOOLCHAIN) != artifact_key(Text(), flags[1], TOOLCHAIN)


def test_the_place_of_the_compiler_does_not_matter_but_its_arguments_do() -> None:
    here = Compiler(("/usr/bin/g++",), "gcc", "gcc version 12.2.0", "x86_64-linux-gnu")
    assert replace(here, command=("/opt/g++",)).identity == here.identity
    keys = {
        artifact_key(Text(), FLAGS, replace(here, command=("g++", *arguments)).identity)
        for arguments in ((), ("-O0",), ("-O0", "-g"), ("-O0 -g",))
    }
    assert len(keys) == 4


KEY_OF_A_KERNEL = """
import flashgen
from flashgen.compilation.key import artifact_key
from flashgen.compilation.toolchains.host import HostToolchain
from flashgen.families import family_named
from flashgen.render.renderer import render
from flashgen.spec import make_spec
from flashgen.target import parse_target

target, spec = parse_target("cpu:x86-64-v3"), make_spec(24, "bf16", "top_left", 40)
plan = flashgen.plan(24, "bf16", "96KB", "top_left", str(target), "fa1", 40)
source = render(family_named(plan.family), spec, plan, target)
host = HostToolchain()
print(artifact_key(source, host.flags(target), host.identity()))
"""


def test_hash_seed_environment_time_and_working_directory_do_not_matter(tmp_path: Path) -> None:
    changes = [
        {"PYTHONHASHSEED": "0"},
        {"PYTHONHASHSEED": "4242", "HOME": str(tmp_path), "FLASHGEN_CACHE_DIR": str(tmp_path), "LC_ALL": "C.UTF-8"},
        {"TZ": "Asia/Tokyo", "CPATH": str(tmp_path), "CFLAGS": "-O0", "CXXFLAGS": "-O0", "USER": "somebody"},
    ]
    keys = set()
    for number, change in enumerate(changes):
        directory = tmp_path / str(number)
        directory.mkdir()
        command = [sys.executable, "-c", KEY_OF_A_KERNEL]
        done = subprocess.run(command, cwd=directory, env=os.environ | change, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        keys.add(done.stdout)
    assert len(keys) == 1
