"""Compiler errors as people want them: the first lines, and the source around the first fault."""

from __future__ import annotations

import re

from flashgen.errors import CompileError
from flashgen.source import Source

_FIRST_LINES = 6


def compile_error(source: Source, log: str, command: str, status: int) -> CompileError:
    """Makes the CompileError for a failed compilation."""
    lines = [line for line in log.splitlines() if line.strip()]
    head = "\n".join(f"  {line}" for line in lines[:_FIRST_LINES]) or f"  (no output, status {status})"
    excerpt = numbered_excerpt(source, log)
    message = f"The compiler refused {source.filename}:\n{head}"
    if excerpt:
        message += f"\n{excerpt}"
    message += f"\nCommand: {command}\nFLASHGEN_LOG=debug shows the whole log."
    return CompileError(message, log=log, command=command, excerpt=excerpt)


def numbered_excerpt(source: Source, log: str, context: int = 2) -> str:
    """The numbered source lines around the first ``file:line`` or ``file(line)`` of the log that fits."""
    stem = re.escape(source.filename)
    match = re.search(rf"{stem}[:(](\d+)", log) or re.search(r"\((\d+)\): error", log)
    if match is None:
        return ""
    at = int(match[1])
    lines = source.text.splitlines()
    shown = range(max(at - context, 1), min(at + context, len(lines)) + 1)
    return "\n".join(f"{'>' if number == at else ' '} {number:4d} | {lines[number - 1]}" for number in shown)
