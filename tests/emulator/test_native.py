"""The machine as a program: one text, built once, checked when it is loaded."""

from __future__ import annotations

from pathlib import Path

import pytest

import flashgen.emulator
from flashgen.compilation.builder import build
from flashgen.emulator import abi, native
from flashgen.errors import CompileError, LaunchError
from flashgen.source import HostSource


def test_the_source_holds_every_file() -> None:
    folder = Path(flashgen.emulator.__file__).parent / "machine"
    files = native.split_files(native.machine_source().text)
    assert files == {path.name: path.read_text() for path in folder.iterdir()}


def test_it_is_built_once() -> None:
    native.machine()
    artifact = build(native.machine_source(), native.MachineToolchain())
    assert artifact.cache_hit and artifact.path.suffix == ".so"


def test_an_error_of_the_compiler_is_shown() -> None:
    good = native.machine_source()
    bad = HostSource("// ---- file broken.cpp\nint main( {\n", good.entry, good.target, good.filename)
    with pytest.raises(CompileError, match=r"broken\.cpp"):
        build(bad, native.MachineToolchain())


def test_a_library_of_another_layout_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    path = build(native.machine_source(), native.MachineToolchain()).path
    monkeypatch.setattr(native, "STRUCTURES", (*abi.STRUCTURES[:-1], ("LaunchDesc", 1)))
    with pytest.raises(LaunchError, match="another layout"):
        native.Machine(path)


def test_every_handler_that_the_table_names_exists() -> None:
    """Names with fields in them are checked by the tests of each opcode; these are literal."""
    from flashgen.emulator.isa.table import ENTRIES

    names = {entry.handler for entry in ENTRIES if entry.handler and "{" not in entry.handler}
    assert len(names) > 20 and names <= set(native.machine().handlers)
