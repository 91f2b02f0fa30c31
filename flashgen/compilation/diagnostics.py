"""Compiler errors as people want them: the first lines, and the source around the first fault."""

from __future__ import annotations

import errno
import os
import re

from flashgen.errors import CompileError
from flashgen.log import logger
from flashgen.source import Source

_FIRST_LINES = 6
_WIDEST = 200
# What compilers, assemblers and linkers say, in English, when it is not the source that is at fault.
_STARVED = {
    "No space left on device": errno.ENOSPC,
    "Disk quota exceeded": errno.EDQUOT,
    "Read-only file system": errno.EROFS,
    "File too large": errno.EFBIG,
    "File size limit exceeded": errno.EFBIG,
}


def compile_error(source: Source, log: str, command: str, status: int) -> CompileError | OSError:
    """The error for a failed compilation.

    Returns:
        A CompileError; or, where it was not the source that failed but the file system under the compiler,
        that OSError, so that the builder looks for another directory.
    """
    logger.debug("%s\n%s", command, log)
    for words, number in _STARVED.items():
        if words in log:
            return OSError(number, os.strerror(number))
    lines = [_printable(line) for line in log.splitlines() if line.strip()][:_FIRST_LINES]
    head = "\n".join(f"  {line}" for line in lines or [_silence(status)])
    excerpt = numbered_excerpt(source, log)
    verb = "refused" if excerpt else "failed on"
    message = f"The compiler {verb} {source.filename}:\n{head}"
    if excerpt:
        message += f"\n{excerpt}"
    message += f"\nCommand: {command}\nFLASHGEN_LOG=debug shows the whole log."
    return CompileError(message, log=log, command=command, excerpt=excerpt)


def numbered_excerpt(source: Source, log: str, context: int = 2) -> str:
    """The numbered source lines around the first error that the log places in it, else the first place."""
    stem = re.escape(source.filename)
    places = (rf"{stem}[:(](\d+).*error", r"\((\d+)\): error", rf"{stem}[:(](\d+)")
    match = next(filter(None, (re.search(place, log) for place in places)), None)
    lines = source.text.splitlines()
    if match is None or not 1 <= int(match[1]) <= len(lines):
        return ""
    at = int(match[1])
    shown = range(max(at - context, 1), min(at + context, len(lines)) + 1)
    return "\n".join(f"{'>' if number == at else ' '} {number:4d} | {lines[number - 1]}" for number in shown)


def _silence(status: int) -> str:
    if status < 0:
        return f"(no output; killed by signal {-status})"
    return f"(no output; it ended with status {status})" if status else "(it wrote no shared library)"


def _printable(line: str) -> str:
    """The line without control characters, which a terminal would obey, and not endless."""
    clean = "".join(char if char.isprintable() else " " for char in line.rstrip())
    return clean if len(clean) <= _WIDEST else f"{clean[:_WIDEST]} ..."
