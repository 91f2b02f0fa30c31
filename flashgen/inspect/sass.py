"""The SASS of a CUBIN, through nvdisasm: what its hot loop is made of.

nvdisasm is a program of its own (extra `[inspect]`: nvidia-cuda-nvdisasm, 5 MB); without it there is no
SASS, and nothing else is missing.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from flashgen.settings import read_settings

_FUNCTION = re.compile(r"^\s*\.section\s+\.text\.(\w+)")
_LABEL = re.compile(r"^\s*(\.L_x_\d+):")
_INSTRUCTION = re.compile(r"^\s*/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9_]*(?:\.[\w.]+)?)(.*)")
_TARGET = re.compile(r"`\((\.L_x_\d+)\)")
_ARITHMETIC = ("FFMA", "DFMA", "HMMA", "DMMA", "HGMMA", "HFMA2", "FADD", "FMUL", "DADD", "DMUL")


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop: indices of its first and last instruction (the branch back)."""

    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Code:
    """One function: opcodes in order, and its loops."""

    opcodes: tuple[str, ...]
    loops: tuple[Loop, ...]


def find_nvdisasm() -> str | None:
    """The nvdisasm of a wheel, of CUDA_PATH or of PATH; None if there is none."""
    return _find_nvdisasm(tuple(sys.path), read_settings().cuda_path)


@cache
def _find_nvdisasm(search_path: tuple[str, ...], cuda_path: str | None) -> str | None:
    wheels = sorted(path for entry in search_path for path in Path(entry or ".").glob("nvidia/*/bin/nvdisasm"))
    if wheels:
        return str(wheels[-1])
    own = shutil.which("nvdisasm", path=str(Path(cuda_path) / "bin")) if cuda_path else None
    return own or shutil.which("nvdisasm")


def hot_loop(cubin: Path, entry: str) -> dict[str, int] | None:
    """Instructions of the innermost loop with the most arithmetic, by opcode, most frequent first.

    None if nvdisasm is missing, cannot read the file, or the function has no loop.
    """
    command = find_nvdisasm()
    if command is None:
        return None
    done = subprocess.run([command, str(cubin)], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    code = parse_sass(done.stdout).get(entry) if done.returncode == 0 else None
    return None if code is None else loop_mix(code)


def parse_sass(text: str) -> dict[str, Code]:
    """Reads nvdisasm's listing: function -> code."""
    functions: dict[str, Code] = {}
    name, opcodes, labels, branches = "", list[str](), dict[str, int](), list[tuple[int, str]]()

    def finish() -> None:
        if name:
            loops = [Loop(labels[label], at) for at, label in branches if labels.get(label, at + 1) <= at]
            functions[name] = Code(tuple(opcodes), tuple(loops))

    for line in text.splitlines():
        if match := _FUNCTION.match(line):
            finish()
            name, opcodes, labels, branches = match[1], [], {}, []
        elif match := _LABEL.match(line):
            labels[match[1]] = len(opcodes)
        elif match := _INSTRUCTION.match(line):
            target = _TARGET.search(match[2])
            if match[1].startswith("BRA") and target:
                branches.append((len(opcodes), target[1]))
            opcodes.append(match[1])
    finish()
    return functions


def loop_mix(code: Code) -> dict[str, int] | None:
    """Counts the opcodes (without modifiers) of the innermost loop that has the most arithmetic."""
    innermost = [
        loop
        for loop in code.loops
        if not any(loop.first <= other.first and other.last <= loop.last and other != loop for other in code.loops)
    ]
    if not innermost:
        return None
    mixes = [Counter(_kind(opcode) for opcode in code.opcodes[loop.first : loop.last + 1]) for loop in innermost]
    best = max(mixes, key=lambda mix: sum(mix[kind] for kind in _ARITHMETIC))
    return dict(best.most_common())


def _kind(opcode: str) -> str:
    return opcode.partition(".")[0]
