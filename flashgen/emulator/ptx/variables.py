"""Declarations of variables: ``.shared .align 16 .b8 tile[1024]``, with or without initial values."""

from __future__ import annotations

import re
import struct

from flashgen.emulator.errors import PtxError
from flashgen.emulator.ptx.ast import Variable, element_size
from flashgen.emulator.ptx.operands import literal
from flashgen.emulator.ptx.types import WIDTHS

_DECLARATION = re.compile(
    r"(?P<words>(?:\.[\w:]+(?:\s+\d+)?\s+)+)(?P<name>[\w$%.]+)\s*(?P<dims>(?:\[\s*\d*\s*\]\s*)*)(?:=\s*(?P<init>.*))?\Z",
    re.DOTALL,
)
_ALIGN = re.compile(r"\.align\s+(\d+)")
_SPACES = ("global", "shared", "const", "local", "param")


def parse_variable(text: str, line: int) -> Variable:
    """Reads one declaration.

    Raises:
        PtxError: it is none that the emulator knows.
    """
    match = _DECLARATION.match(text)
    words = re.findall(r"\.([\w:]+)", match["words"]) if match else []
    spaces = [word.partition("::")[0] for word in words if word.partition("::")[0] in _SPACES]
    types = [word for word in words if word in WIDTHS]
    if match is None or len(spaces) != 1 or len(types) != 1:
        raise PtxError("a declaration that the emulator does not know", line=line, statement=text)
    size = element_size(types[0])
    size *= next((int(word[1:]) for word in words if word in ("v2", "v4", "v8")), 1)
    align = _ALIGN.search(match["words"])
    dims = re.findall(r"\[\s*(\d*)\s*\]", match["dims"])
    alignment = int(align[1]) if align else size
    for dim in dims:
        size *= int(dim) if dim else 0
    init = _initial_bytes(match["init"], types[0], size, line) if match["init"] else None
    if init is not None and size == 0:
        size = len(init)
    return Variable(match["name"], spaces[0], types[0], size, alignment, init, "extern" in words)


def _initial_bytes(text: str, type_name: str, size: int, line: int) -> bytes:
    values = [piece for piece in re.split(r"[{},\s]+", text) if piece]
    data = bytearray()
    for piece in values:
        number = literal(piece)
        if number is None:
            raise PtxError("an initial value that is not a number", line=line, statement=piece)
        data += _pack(number.value, number.float_width, type_name)
    return bytes(data.ljust(size, b"\0"))


def _pack(value: int, float_width: int, type_name: str) -> bytes:
    width = WIDTHS[type_name]
    if type_name in ("f32", "f64") and float_width != width:
        number = struct.unpack("<d", struct.pack("<Q", value))[0] if float_width == 64 else float(value)
        return struct.pack("<f" if width == 32 else "<d", number)
    return (value & ((1 << width) - 1)).to_bytes(width // 8, "little")
