"""The host's compiler: which one is found, what it is asked, and what becomes of its answer."""

from __future__ import annotations

import os
import pickle
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from flashgen.compilation.diagnostics import compile_error
from flashgen.compilation.toolchains import host
from flashgen.compilation.toolchains.host import HostToolchain, find_compiler
from flashgen.errors import CompileError, ToolchainError
from flashgen.target import PRESETS, X86_LEVELS, Target, required_features

CPU_TARGETS = [target for target in PRESETS if target.kind == "cpu"]
INSTALL = r"apt-get install g\+\+.*CXX"


@dataclass(frozen=True)
class Text:
    """As much of a source as a toolchain sees."""

    text: str
    target: Target
    language: str = "c++"
    entry: str = "f"
    filename: str = "kernel_of_tests.cpp"


@pytest.fixture(scope="module")
def compiler() -> host.Compiler:
    """The machine's own."""
    try:
        return find_compiler()
    except ToolchainError as error:
        pytest.skip(str(error))


@pytest.fixture
def target(compiler: host.Compiler) -> Target:
    """A target that the machine's own compiler compiles for."""
    return Target("cpu", "aarch64" if compiler.machine.startswith("aarch64") else "x86-64-v2")


@pytest.fixture
def source(target: Target) -> Text:
    return Text('#include <cstdint>\nextern "C" int64_t f() { return 7; }\n', target)


@pytest.fixture
def script(tmp_path: Path) -> Callable[..., Path]:
    """Makes an executable shell script."""

    def make(body: str, name: str = "cxx") -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)
        return path

    return make


@pytest.fixture
def workdir(tmp_path: Path) -> Path:
    path = tmp_path / "work"
    path.mkdir()
    return path


def answers(version: str = "gcc version 12.2.0 (made up)", machine: str = "x86_64-linux-gnu") -> str:
    """A script that says what compilers say to -v, and fails at all else."""
    return f'[ "$*" = -v ] || exit 1\necho "Target: {machine}" >&2; echo "{version}" >&2'


# ---- finding a compiler ----


def test_a_compiler_says_its_version_its_machine_and_where_it_is(script: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    path = script(answers())
    monkeypatch.setenv("CXX", str(path))
    found = find_compiler()
    assert found.command == (str(path),)
    assert found.family == "gcc"
    assert found.version == "gcc version 12.2.0 (made up)"
    assert found.machine == "x86_64-linux-gnu"
    assert HostToolchain().identity() == (("compiler", found.version), ("machine", found.machine))


VERSIONS = {
    "gcc version 12.1.0 (GCC)": "gcc",
    "gcc version 13.0.1 20230401 (experimental)": "gcc",
    "clang version 12.0.0": "clang",
    "Debian clang version 14.0.6": "clang",
    "Apple clang version 15.0.0 (clang-1500.3.9.4)": "clang",
}


@pytest.mark.parametrize("version", VERSIONS)
def test_a_version_line_is_understood(script: Any, monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    monkeypatch.setenv("CXX", str(script(answers(version))))
    assert find_compiler().family == VERSIONS[version]
    assert find_compiler().version == version


@pytest.mark.parametrize("version", ["gcc version 11.4.0", "gcc version 4.8.5 20150623", "clang version 11.1.0"])
def test_a_version_that_is_too_old_is_refused(script: Any, monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    monkeypatch.setenv("CXX", str(script(answers(version))))
    expected = rf"{version}.* is too old: flashgen needs g\+\+ 12 or clang\+\+ 12\. Install.*{INSTALL}"
    with pytest.raises(ToolchainError, match=expected):
        find_compiler()


GARBAGE = {
    "nothing": "exit 0",
    "noise": "head -c 4096 /dev/urandom",
    "a crash": "echo Segmentation fault >&2; exit 139",
    "control characters": "printf '\\033[2J\\0\\377'",
    "a signal": "kill -9 $$",
    "a version without a machine": "echo gcc version 12.2.0",
    "a machine without a version": "echo Target: x86_64-linux-gnu",
}


@pytest.mark.parametrize("garbage", GARBAGE)
def test_a_program_that_answers_with_garbage_is_refused(
    script: Any, monkeypatch: pytest.MonkeyPatch, garbage: str
) -> None:
    path = script(GARBAGE[garbage])
    monkeypatch.setenv("CXX", str(path))
    with pytest.raises(ToolchainError, match=rf"^{path} is neither g\+\+ nor clang\+\+.*{INSTALL}"):
        find_compiler()


def test_a_program_that_does_not_answer_is_given_up(script: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", str(script("exec sleep 60")))
    monkeypatch.setattr(host, "_PROBE_SECONDS", 0.1)
    with pytest.raises(ToolchainError, match=f"did not answer.*{INSTALL}"):
        find_compiler()


@pytest.mark.parametrize("cxx", ["nonsense-g++", "/nonexistent/g++", "./g++", "/", "/etc/passwd", "nonsense-g++ -O1"])
def test_a_cxx_that_is_no_program_is_refused_by_name(monkeypatch: pytest.MonkeyPatch, cxx: str) -> None:
    monkeypatch.setenv("CXX", cxx)
    with pytest.raises(ToolchainError, match=f"^CXX={re.escape(cxx)} .*{INSTALL}"):
        find_compiler()


@pytest.mark.parametrize("cxx", ["g++ '-DX", 'g++ "', "'"])
def test_a_cxx_that_no_shell_could_read_is_refused(monkeypatch: pytest.MonkeyPatch, cxx: str) -> None:
    monkeypatch.setenv("CXX", cxx)
    with pytest.raises(ToolchainError, match=f"^CXX={re.escape(cxx)} cannot be read.*{INSTALL}"):
        find_compiler()


@pytest.mark.parametrize("contents", [b"\x7fELF, but no more of it", b"#!/nonexistent/interpreter\n"])
def test_a_program_that_does_not_start_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, contents: bytes
) -> None:
    path = tmp_path / "cxx"
    path.write_bytes(contents)
    path.chmod(0o755)
    monkeypatch.setenv("CXX", str(path))
    with pytest.raises(ToolchainError, match=rf"{path} does not run: .*{INSTALL}"):
        find_compiler()


@pytest.mark.parametrize("name", ["g++", "clang++", "c++"])
def test_without_cxx_the_path_is_searched(
    script: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str
) -> None:
    path = script(answers(), f"bin/{name}")
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", f"/nonexistent:{tmp_path / 'bin'}")
    assert find_compiler().command == (str(path),)


@pytest.mark.parametrize("name", ["g++", f"{os.uname().machine}-conda-linux-gnu-c++"])
def test_last_of_all_the_prefix_of_the_interpreter_is_searched(
    script: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str
) -> None:
    path = script(answers(), f"bin/{name}")
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr("sys.prefix", str(tmp_path))
    assert find_compiler().command == (str(path),)


def test_without_any_compiler_the_message_says_how_to_get_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr("sys.prefix", str(tmp_path))
    with pytest.raises(ToolchainError, match=f"^No C.. compiler was found on PATH. .*{INSTALL}"):
        find_compiler()


def test_a_compiler_that_does_not_serve_is_passed_over(
    script: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    script(answers("gcc version 4.8.5"), "bin/g++")
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr("sys.prefix", str(tmp_path / "prefix"))
    with pytest.raises(ToolchainError, match=r"4\.8\.5"):  # the first one is named, if none serves
        find_compiler()
    path = script(answers(), "bin/clang++")
    assert find_compiler().command == (str(path),)


def test_a_compiler_that_was_replaced_is_asked_again(script: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", str(script(answers("gcc version 12.2.0"))))
    before = HostToolchain().identity()
    script(answers("gcc version 12.2.11"))
    assert HostToolchain().identity() != before


# ---- CXX as people write it ----


FORMS = ["{path}", "'{path}' -DTWO=2 -DONE", "my-g++ -DTWO=2", "./my-g++", "'{folder}/my-g++'"]


@pytest.mark.parametrize("form", FORMS)
def test_cxx_may_be(
    form: str,
    script: Any,
    compiler: host.Compiler,
    source: Text,
    tmp_path: Path,
    workdir: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = tmp_path / "meine Übersetzer"
    log = tmp_path / "log"
    path = script(f'echo "$*" >> {log}\nexec {shlex.join(compiler.command)} "$@"', f"{folder.name}/my-g++")
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PATH", f".:{os.environ['PATH']}")
    monkeypatch.setenv("CXX", form.format(path=path, folder=folder))
    assert HostToolchain().compile(source, workdir).files["so"].startswith(b"\x7fELF")
    arguments = shlex.split(form.format(path="", folder=""))[1:] if " -D" in form else []
    assert log.read_text().splitlines()[-1].startswith(" ".join([*arguments, "-std=c++17"]))
    assert find_compiler().command == (str(path), *arguments)


# ---- flags ----


@pytest.mark.parametrize("target", CPU_TARGETS, ids=str)
@pytest.mark.parametrize("version", ["gcc version 12.2.0", "clang version 14.0.6"])
def test_flags_never_change_what_floating_point_means(
    target: Target, version: str, script: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CXX", str(script(answers(version))))
    flags = HostToolchain().flags(target)
    forbidden = {"-ffast-math", "-Ofast", "-funsafe-math-optimizations", "-ffinite-math-only", "-fno-signed-zeros"}
    forbidden |= {"-fassociative-math", "-freciprocal-math", "-march=native", "-mtune=native"}
    assert not forbidden & set(flags)
    assert {"-std=c++17", "-shared", "-fPIC", "-fvisibility=hidden"} <= set(flags)
    assert ("-fno-gnu-unique" in flags) == version.startswith("gcc")
    assert HostToolchain().flags(target) == flags


# Compilers' macros, and what /proc/cpuinfo calls the same features.
MACROS = {
    "__SSE3__": "pni", "__SSSE3__": "ssse3", "__SSE4_1__": "sse4_1", "__SSE4_2__": "sse4_2", "__POPCNT__": "popcnt",
    "__CRC32__": "sse4_2", "__GCC_HAVE_SYNC_COMPARE_AND_SWAP_16": "cx16", "__LAHF_SAHF__": "lahf_lm",
    "__AVX__": "avx", "__AVX2__": "avx2", "__BMI__": "bmi1", "__BMI2__": "bmi2", "__F16C__": "f16c", "__FMA__": "fma",
    "__LZCNT__": "abm", "__MOVBE__": "movbe", "__XSAVE__": "xsave",
    "__AVX512F__": "avx512f", "__AVX512BW__": "avx512bw", "__AVX512CD__": "avx512cd", "__AVX512DQ__": "avx512dq",
    "__AVX512VL__": "avx512vl", "__AVX512BF16__": "avx512_bf16",
}  # fmt: skip
EXTENSION = re.compile(
    r"__(AVX\w*|SSE[34]\w*|SSSE3|BMI2?|F16C|FMA4?|LZCNT|MOVBE|XSAVE\w*|POPCNT|CRC32|AES|VAES|PCLMUL|VPCLMULQDQ|GFNI|SHA\w*"
    r"|AMX\w*|RDRND|RDSEED|ADX|FSGSBASE|CLFLUSHOPT|PREFETCHW|LAHF_SAHF|TBM|XOP|RTM|WAITPKG|PTWRITE|CLWB)__"
)


@pytest.mark.parametrize("command", ["g++", "clang++"])
@pytest.mark.parametrize("level", X86_LEVELS)
def test_a_level_turns_on_the_features_that_the_loader_asks_for_and_no_others(
    level: str, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not shutil.which(command):
        pytest.skip(f"{command} is not installed")
    monkeypatch.setenv("CXX", command)
    found = find_compiler()
    if not found.machine.startswith("x86_64"):
        pytest.skip(f"{command} compiles for {found.machine}")
    target = Target("cpu", level)
    machine_flags = [flag for flag in HostToolchain().flags(target) if flag.startswith("-m")]
    dump = [*found.command, *machine_flags, "-dM", "-E", "-x", "c++", "/dev/null"]
    printed = subprocess.run(dump, capture_output=True, text=True, check=True).stdout
    macros = {line.split()[1] for line in printed.splitlines()}
    extensions = {macro for macro in macros if EXTENSION.fullmatch(macro)}
    assert not extensions - MACROS.keys() - {"__SSE__", "__SSE2__", "__SSE_MATH__", "__SSE2_MATH__", "__FXSR__"}
    enabled = {feature for macro, feature in MACROS.items() if macro in macros}
    # Not every version has a macro for these two, and for them alone: nothing in a kernel can use them.
    assert enabled | {"lahf_lm", "movbe"} >= required_features(target)
    assert enabled <= required_features(target)


# ---- compiling ----


def test_compiling_gives_a_library_and_an_empty_log(
    source: Text, workdir: Path, compiler: host.Compiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled = HostToolchain().compile(source, workdir)
    assert list(compiled.files) == ["so"]
    assert compiled.files["so"].startswith(b"\x7fELF")
    assert compiled.log == ""


def test_the_library_does_not_depend_on_directories_and_time(
    source: Text, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    libraries = set()
    for name in ("one", "zwei ü"):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        libraries.add(HostToolchain().compile(source, tmp_path / name).files["so"])
    assert len(libraries) == 1


def test_temporary_files_of_the_compiler_stay_in_the_working_directory(
    source: Text, workdir: Path, script: Any, compiler: host.Compiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = script(f'[ "$*" = -v ] || echo "$TMPDIR" > seen\nexec {shlex.join(compiler.command)} "$@"')
    monkeypatch.setenv("CXX", str(path))
    monkeypatch.setenv("TMPDIR", "/nonexistent")
    HostToolchain().compile(source, workdir)
    assert (workdir / "seen").read_text().strip() == str(workdir)


def test_a_compiler_for_another_machine_is_refused(
    script: Any, workdir: Path, source: Text, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CXX", str(script(answers(machine="riscv64-linux-gnu"))))
    with pytest.raises(ToolchainError, match=r"compiles for riscv64-linux-gnu, not for cpu:.*CXX=\w+-linux-gnu-g\+\+"):
        HostToolchain().compile(source, workdir)


def test_an_error_in_the_source_is_shown_with_its_line(source: Text, target: Target, workdir: Path) -> None:
    lines = ["int a;", "int b;", "int c;", "int wrong = nobody_knows_this;", "int d;", "int e;", "int f;"]
    with pytest.raises(CompileError) as caught:
        HostToolchain().compile(Text("\n".join(lines), target), workdir)
    error = pickle.loads(pickle.dumps(caught.value))
    assert str(error) == str(caught.value)
    assert error.excerpt.splitlines() == [
        "     2 | int b;",
        "     3 | int c;",
        ">    4 | int wrong = nobody_knows_this;",
        "     5 | int d;",
        "     6 | int e;",
    ]
    assert error.excerpt in str(error)
    assert str(error).startswith("The compiler refused kernel_of_tests.cpp:\n  kernel_of_tests.cpp:4")
    assert "nobody_knows_this" in error.log
    assert f"Command: {error.command}\n" in str(error)


def fail(body: str, script: Any, workdir: Path, source: Text, monkeypatch: pytest.MonkeyPatch) -> Exception:
    """What comes of a compiler that answers -v well, and then does as told."""
    machine = "aarch64" if source.target.arch == "aarch64" else "x86_64"
    path = script(f'if [ "$*" = -v ]; then echo Target: {machine}-linux-gnu; echo gcc version 12.2.0; exit; fi\n{body}')
    monkeypatch.setenv("CXX", str(path))
    with pytest.raises(Exception) as caught:
        HostToolchain().compile(source, workdir)
    return caught.value


SILENT = {
    "exit 0": "(it wrote no shared library)",
    "echo garbage > kernel.so": "(it wrote no shared library)",
    ": > kernel.so": "(it wrote no shared library)",
    "mkdir kernel.so": "(it wrote no shared library)",
    "exit 3": "(no output; it ended with status 3)",
    "kill -9 $$": "(no output; killed by signal 9)",
    "head -c 999 /dev/zero; exit 1": "",
    "echo 'Killed signal terminated program cc1plus'; exit 1": "Killed signal terminated program cc1plus",
    "printf '\\033[2Jboo\\n'; exit 1": " [2Jboo",
    "printf 'a\\377b\\n'; exit 1": "a\N{REPLACEMENT CHARACTER}b",
}


@pytest.mark.parametrize("body", SILENT)
def test_a_failure_that_is_not_in_the_source_is_told_in_other_words(
    body: str, script: Any, workdir: Path, source: Text, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = fail(body, script, workdir, source, monkeypatch)
    assert type(error) is CompileError
    assert error.excerpt == ""
    message = str(error)
    assert message.startswith("The compiler failed on kernel_of_tests.cpp:\n  ")
    assert SILENT[body] in message
    assert all(line.isprintable() for line in message.splitlines())
    assert max(map(len, message.partition("\nCommand: ")[0].splitlines())) < 250


STARVATION = ["No space left on device", "Disk quota exceeded", "Read-only file system", "File too large"]


@pytest.mark.parametrize("words", STARVATION)
def test_a_directory_without_room_is_not_an_error_of_the_source(
    words: str, script: Any, workdir: Path, source: Text, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = f"echo 'kernel_of_tests.cpp:1:1: fatal error: error writing to /x/y.s: {words}'; exit 1"
    error = fail(body, script, workdir, source, monkeypatch)
    assert type(error) is OSError
    assert error.strerror == words


def test_a_working_directory_that_was_removed_is_not_an_error_of_the_source(
    script: Any, workdir: Path, source: Text, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = fail('rm -r "$PWD"; echo no such file; exit 1', script, workdir, source, monkeypatch)
    assert type(error) is FileNotFoundError
    with pytest.raises(FileNotFoundError):
        HostToolchain().compile(source, workdir)


def test_a_compiler_that_vanished_is_named(
    script: Any, workdir: Path, source: Text, compiler: host.Compiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = workdir / "gone-g++"
    gone = host.Compiler((str(path),), compiler.family, compiler.version, compiler.machine)
    monkeypatch.setattr(host, "find_compiler", lambda: gone)
    with pytest.raises(ToolchainError, match=rf"{re.escape(str(path))} does not run: No such file.*{INSTALL}"):
        HostToolchain().compile(source, workdir)


LOGS = {
    "g++: an error after warnings and notes": (
        "kernel_of_tests.cpp: In function 'int f()':\n"
        "kernel_of_tests.cpp:1:5: warning: unused\nkernel_of_tests.cpp:3:1: error: wrong\n",
        3,
    ),
    "clang++": ("kernel_of_tests.cpp:2:9: fatal error: 'cstdint' file not found\n", 2),
    "nvrtc": ("kernel_of_tests.cpp(4): error: identifier is undefined\n", 4),
    "nvcc's ptxas": ("ptxas /tmp/x.ptx, line 9; error : no\n", None),
    "a line that there is not": ("kernel_of_tests.cpp:99:1: error: wrong\n", None),
    "the linker": ("/usr/bin/ld: cannot find -lfoo: No such file or directory\n", None),
}


@pytest.mark.parametrize("log", LOGS)
def test_the_excerpt_shows_the_first_error_of(log: str, target: Target) -> None:
    text, line = LOGS[log]
    error = compile_error(Text("one\ntwo\nthree\nfour\nfive", target), text, "cxx", 1)
    assert isinstance(error, CompileError)
    marked = [shown for shown in error.excerpt.splitlines() if shown.startswith(">")]
    assert [int(shown.split()[1]) for shown in marked] == ([] if line is None else [line])
