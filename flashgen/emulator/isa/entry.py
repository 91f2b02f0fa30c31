"""What an entry of the instruction table says, and how an opcode is matched against it.

The syntax of an entry is the opcode as the PTX manual writes it: ``<t:u32|s32>`` is a required choice
named t, ``[.<rnd:rn|rz>]`` an optional one, ``[.ftz]`` an optional flag. Upper-case names stand for the
lists below.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flashgen.emulator.ptx.types import WIDTHS

if TYPE_CHECKING:
    from flashgen.emulator.program.lower import Lowering
    from flashgen.emulator.ptx.ast import Instruction

LISTS = {
    "INT": "u16|u32|u64|s16|s32|s64",
    "INT32": "u32|s32",
    "INT3264": "u32|u64|s32|s64",
    "BITS": "b16|b32|b64",
    "RND": "rn|rz|rm|rp",
    "RNDI": "rni|rzi|rmi|rpi",
    "RNDANY": "rni|rzi|rmi|rpi|rn|rz|rm|rp",
    "HALF": "f16|f16x2|bf16|bf16x2",
    "ORDER": "eq|ne|lt|le|gt|ge",
    "CMP": "eq|ne|lt|le|gt|ge|lo|ls|hi|hs|equ|neu|ltu|leu|gtu|geu|num|nan",
    "BOOL": "and|or|xor",
    "ANY": "u8|u16|u32|u64|s8|s16|s32|s64|b8|b16|b32|b64|f16|bf16|f16x2|bf16x2|f32|f64",
    "SPACE": "global|shared|shared::cta|local|const|param|param::entry|param::func",
    "SEM": "weak|volatile|relaxed|acquire|release|acq_rel|sc|mmio",
    "SCOPE": "cta|cluster|gpu|sys",
    "CACHE": r"(?:\.L[12]::\w+)*",
}
# Field values as the machine's numbers; a field that is not here counts as a flag.
CODES: Mapping[str, Mapping[str, int]] = {
    "rnd": {"": 0, "rn": 0, "rz": 1, "rm": 2, "rp": 3, "rni": 4, "rzi": 5, "rmi": 6, "rpi": 7},
    "bool": {"": 0, "and": 1, "or": 2, "xor": 3},
    "shuffle": {"up": 0, "down": 1, "bfly": 2, "idx": 3},
    "vote": {"all": 0, "any": 1, "uni": 2, "ballot": 3},
    "match": {"any": 0, "all": 1},
    "redux": {"add": 0, "min": 1, "max": 2, "and": 3, "or": 4, "xor": 5},
    "barred": {"": 0, "popc": 1, "and": 2, "or": 3},
    "permute": {"": 0, "f4e": 1, "b4e": 2, "rc8": 3, "ecl": 4, "ecr": 5, "rc16": 6},
    "is": {"finite": 0, "infinite": 1, "number": 2, "notanumber": 3, "normal": 4, "subnormal": 5},
    "half": {"lo": 0, "hi": 1},
    "sign": {"u32": 0, "s32": 1},
}

Fields = dict[str, str]
Builder = Callable[["Lowering", "Instruction", Fields], None]


@dataclass(frozen=True, slots=True)
class Entry:
    """One opcode with its modifiers.

    Attributes:
        syntax: which opcodes it is.
        operands: what they take, in the order of the text: ``*`` marks a written one, ``name:type``,
            ``p|q:pred`` a pair whose second is optional, a final ``?`` an optional operand, ``~`` a
            register that may be wider than the type.
        handler: name of the machine's function; fields are filled in, ``{x_}`` is ``.x`` or nothing,
            ``{t_w}`` the bits of a type.
        unit: what kind of work it is, for the counters.
        aux: the handler's parameters: a field, ``!name`` (operand negated), ``?name`` (operand given)
            or a number.
        build: lowers the instructions that have a shape of their own.
        since: the least architecture that has it (80: sm_80).
    """

    syntax: str
    operands: str = ""
    handler: str = ""
    unit: str = "int"
    aux: tuple[str | int, ...] = ()
    build: Builder | None = None
    since: int = 0

    @property
    def mnemonic(self) -> str:
        """The opcode up to its first modifier."""
        match = re.match(r"\w+", self.syntax)
        assert match is not None
        return match[0]

    def pattern(self) -> re.Pattern[str]:
        """The regular expression of the syntax."""
        out = ""
        for piece in re.split(r"(<[^>]*>|\[\.\w+\]|\[|\]|\*CACHE)", self.syntax):
            if piece.startswith("<"):
                name, _, choices = piece[1:-1].partition(":")
                out += f"(?P<{name}>{LISTS.get(choices, choices)})"
            elif piece.startswith("[."):
                out += rf"(?:\.(?P<{piece[2:-1]}>{piece[2:-1]}))?"
            elif piece == "*CACHE":
                out += LISTS["CACHE"]
            else:
                out += {"[": "(?:", "]": ")?"}.get(piece, re.escape(piece))
        return re.compile(out)


def expand(template: str, fields: Fields) -> str:
    """Fills fields into a handler's name or an operand's type."""
    if "{" not in template:
        return template
    values = dict(fields)
    for name, value in fields.items():
        values[f"{name}_"] = f".{value}" if value else ""
        if value in WIDTHS:
            values[f"{name}_w"] = str(WIDTHS[value])
    return template.format(**values)


def code(name: str, fields: Fields) -> int:
    """A field as the machine's number."""
    value = fields.get(name, "")
    return CODES[name][value] if name in CODES else int(bool(value))
