"""All entries, by mnemonic; opcode text to entry."""

from __future__ import annotations

import re
from collections import defaultdict
from functools import cache

from flashgen.emulator.isa import async_copy, compare, control, convert, floating, integer, memory, tensor, warp
from flashgen.emulator.isa.entry import Entry, Fields

ENTRIES: tuple[Entry, ...] = (
    *integer.ENTRIES,
    *floating.ENTRIES,
    *compare.ENTRIES,
    *convert.ENTRIES,
    *memory.ENTRIES,
    *async_copy.ENTRIES,
    *warp.ENTRIES,
    *tensor.ENTRIES,
    *control.ENTRIES,
)


@cache
def _by_mnemonic() -> dict[str, list[tuple[re.Pattern[str], Entry]]]:
    table: dict[str, list[tuple[re.Pattern[str], Entry]]] = defaultdict(list)
    for entry in ENTRIES:
        names = re.match(r"<\w+:([\w|]+)>", entry.syntax)
        for mnemonic in names[1].split("|") if names else [entry.mnemonic]:
            table[mnemonic].append((entry.pattern(), entry))
    return table


@cache
def lookup(opcode: str, num_operands: int) -> tuple[Entry, Fields] | None:
    """The first entry whose syntax the opcode has and that takes so many operands, with the fields."""
    for pattern, entry in _by_mnemonic().get(opcode.partition(".")[0], ()):
        match = pattern.fullmatch(opcode)
        if match is None or not _takes(entry, num_operands):
            continue
        return entry, {name: value or "" for name, value in match.groupdict().items()}
    return None


def _takes(entry: Entry, count: int) -> bool:
    if entry.build is not None:
        return True
    specs = entry.operands.split()
    return len(specs) - sum(spec.endswith("?") for spec in specs) <= count <= len(specs)
