"""The SASS of a CUBIN, through nvdisasm: instructions, jumps and loops of each function.

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
_INSTRUCTION = re.compile(r"^\s*/\*[0-9a-f]{4,}\*/\s+(?:@(!?U?P\w+)\s+)?([A-Z][A-Z0-9_]*(?:\.[\w.]+)?)(.*)")
_TARGET = re.compile(r"`\((\.L_x_\d+)\)")
_ATTRIBUTE = re.compile(r"//----- nvinfo : EIATTR_(REGCOUNT|FRAME_SIZE)")
_OF_FUNCTION = re.compile(r"\.word\s+index@\((\w+)\)")
_NUMBER = re.compile(r"\.word\s+(0x[0-9a-f]+)")
_JUMPS = ("BRA", "CALL", "JMP")  # ptxas leaves loops by CALL, too; a call of a function has no label, and comes back
_ENDS = ("EXIT", "RET")
_ARITHMETIC = ("FFMA", "DFMA", "HMMA", "DMMA", "HGMMA", "HFMA2", "FADD", "FMUL", "DADD", "DMUL")


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop: indices of its first and last instruction (the branch back)."""

    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Jump:
    """Where an instruction may lead other than to the next one.

    Attributes:
        at: its index.
        to: index of the next instruction; None leaves the function.
        always: it never falls through.
    """

    at: int
    to: int | None
    always: bool


@dataclass(frozen=True, slots=True)
class Code:
    """One function.

    Attributes:
        opcodes: in order. An instruction that is switched off for good (``@!PT``) is called ``NOP``.
        loops: one for each branch back.
        jumps: in order.
        registers: of a thread; 0 if the listing does not say.
        stack_bytes: of a thread.
    """

    opcodes: tuple[str, ...]
    loops: tuple[Loop, ...]
    jumps: tuple[Jump, ...] = ()
    registers: int = 0
    stack_bytes: int = 0


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


def disassemble(cubin: Path) -> dict[str, Code] | None:
    """Function -> code of a CUBIN; None if nvdisasm is missing, or cannot read the file."""
    command = find_nvdisasm()
    if command is None:
        return None
    done = subprocess.run([command, str(cubin)], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    return parse_sass(done.stdout) if done.returncode == 0 else None


def hot_loop(cubin: Path, entry: str) -> dict[str, int] | None:
    """Instructions of the innermost loop with the most arithmetic, by opcode, most frequent first.

    None if nvdisasm is missing, cannot read the file, or the function has no loop.
    """
    code = (disassemble(cubin) or {}).get(entry)
    return None if code is None else loop_mix(code)


class _Function:
    """A function while it is read; labels become indices once all of it is known."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.opcodes: list[str] = []
        self.labels: dict[str, int] = {}
        self.jumps: list[tuple[int, str | None, bool]] = []

    def add(self, predicate: str | None, opcode: str, operands: str) -> None:
        """One instruction, in order."""
        target = _TARGET.search(operands)
        if opcode.startswith(_JUMPS) and target:
            # BRA P0, label and BRA.DIV label depend on something, too.
            bare = predicate is None and operands.lstrip().startswith("`") and not opcode.startswith("BRA.")
            self.jumps.append((len(self.opcodes), target[1], bare))
        elif opcode.startswith(_ENDS):
            self.jumps.append((len(self.opcodes), None, predicate is None))
        self.opcodes.append("NOP" if predicate == "!PT" else opcode)

    def code(self, attributes: dict[tuple[str, str], int]) -> Code:
        """What was read."""
        jumps = [
            Jump(at, None if label is None else self.labels[label], always)
            for at, label, always in self.jumps
            if label is None or label in self.labels
        ]
        loops = [Loop(jump.to, jump.at) for jump in jumps if jump.to is not None and jump.to <= jump.at]
        registers, stack = (attributes.get((key, self.name), 0) for key in ("REGCOUNT", "FRAME_SIZE"))
        return Code(tuple(self.opcodes), tuple(loops), tuple(jumps), registers, stack)


def parse_sass(text: str) -> dict[str, Code]:
    """Reads nvdisasm's listing: function -> code."""
    functions: list[_Function] = []
    attributes: dict[tuple[str, str], int] = {}
    attribute, owner = "", ""
    for line in text.splitlines():
        if match := _FUNCTION.match(line):
            functions.append(_Function(match[1]))
        elif match := _ATTRIBUTE.search(line):
            attribute, owner = match[1], ""
        elif attribute and (match := _OF_FUNCTION.search(line)):
            owner = match[1]
        elif owner and (match := _NUMBER.search(line)):
            attributes[attribute, owner] = int(match[1], 16)
            attribute = owner = ""
        elif functions and (match := _LABEL.match(line)):
            functions[-1].labels[match[1]] = len(functions[-1].opcodes)
        elif functions and (match := _INSTRUCTION.match(line)):
            functions[-1].add(match[1], match[2], match[3])
    return {function.name: function.code(attributes) for function in functions}


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
