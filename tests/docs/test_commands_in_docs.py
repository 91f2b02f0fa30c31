"""What the documents say that a command prints is what it prints.

A ```console block holds commands (lines that start with "$ flashgen") and their output. A line of "..." stands for any
lines, and "..." at the end of a line for its rest.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from flashgen.cli.main import main

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


def commands(document: Path) -> list[tuple[str, str]]:
    found = []
    for block in re.findall(r"^```console\n(.*?)^```", document.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = part.partition("\n")
            if command.startswith("flashgen "):
                found.append((command, output))
    return found


def pattern(output: str) -> str:
    lines = []
    for line in output.rstrip("\n").split("\n"):
        if line == "...":
            lines.append(r"(?:.*\n)*?.*")
        elif line.endswith("..."):
            lines.append(re.escape(line.removesuffix("...")) + ".*")
        else:
            lines.append(re.escape(line) + " *")
    return "\n".join(lines) + r"\s*"


CASES = [(document.name, *found) for document in DOCUMENTS if document.is_file() for found in commands(document)]


@pytest.mark.parametrize(("document", "command", "output"), CASES, ids=[f"{name}: {cmd}" for name, cmd, _ in CASES])
def test_a_command_prints_what_the_document_says(document, command, output, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(main, shlex.split(command)[1:], prog_name="flashgen")
    printed = result.stdout + result.stderr
    assert re.fullmatch(pattern(output), printed), f"{document} says\n{output}\nbut it prints\n{printed}"


def test_the_documents_hold_commands():
    assert len(CASES) >= 3


def test_links_between_documents_lead_somewhere():
    broken = [
        f"{document.name}: {link}"
        for document in DOCUMENTS
        if document.is_file()
        for link in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", document.read_text(encoding="utf-8"))
        if "://" not in link and not (document.parent / link).exists()
    ]
    assert not broken
