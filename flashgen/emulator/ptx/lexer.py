"""Cuts PTX text into statements, each with the line on which it starts.

A statement ends at ``;``, except for labels (``name:``), braces that open or close a scope, and
``.loc`` and ``.file``, which end with their line. Braces inside a statement belong to a vector or an
initialiser.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from flashgen.emulator.errors import PtxError

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_SPACE = re.compile(r"\s*")
_LABEL = re.compile(r"([A-Za-z_$%][\w$]*)\s*:(?!:)")
_LINE = re.compile(r"\.(?:loc|file)\b[^\n]*")
# A statement without nested braces, as nearly all are; vectors may stand in it.
_PLAIN = re.compile(r"[^;{}\"]*(?:\{[^;{}\"]*\}[^;{}\"]*)*;")
_HEADER = re.compile(r"(?:\.(?:visible|extern|weak|common)\s+)*\.(?:entry|func)\b")


class Statement(NamedTuple):
    """A piece of text.

    Attributes:
        kind: ``label``, ``{``, ``}``, ``line`` (.loc, .file), ``header`` (of a function) or ``;``.
    """

    kind: str
    text: str
    line: int


def strip_comments(text: str) -> str:
    """Blanks comments out, keeping the lines."""
    return _COMMENT.sub(lambda match: "\n" * match[0].count("\n") or " ", text)


def statements(text: str) -> Iterator[Statement]:
    """All statements of a PTX text."""
    text = strip_comments(text)
    at, line, end = 0, 1, len(text)
    while True:
        space = _SPACE.match(text, at)
        assert space is not None
        line += text.count("\n", at, space.end())
        at = space.end()
        if at == end:
            return
        kind, stop = _next(text, at, line)
        piece = text[at:stop]
        yield Statement(kind, piece.rstrip(";: \t\n") if kind in (";", "label") else piece.strip(), line)
        line += piece.count("\n")
        at = stop


def _next(text: str, at: int, line: int) -> tuple[str, int]:
    first = text[at]
    if first in "{}":
        return first, at + 1
    if first == ".":
        if match := _LINE.match(text, at):
            return "line", match.end()
        if _HEADER.match(text, at):
            return "header", _header_end(text, at, line)
        if text.startswith((".version", ".target", ".address_size"), at):
            newline = text.find("\n", at)
            return ";", len(text) if newline < 0 else newline
        if text.startswith(".section", at):
            return ";", _block_end(text, at, line)
    elif match := _LABEL.match(text, at):
        return "label", match.end()
    if match := _PLAIN.match(text, at):
        return ";", match.end()
    return ";", _quoted_end(text, at, line)


def _header_end(text: str, at: int, line: int) -> int:
    """A function's header runs to its body, or to ``;`` if it is only a declaration."""
    depth = 0
    for k in range(at, len(text)):
        char = text[k]
        depth += (char == "(") - (char == ")")
        if depth == 0 and char in "{;":
            return k if char == "{" else k + 1
    raise PtxError("a function header without an end", line=line)


def _block_end(text: str, at: int, line: int) -> int:
    close = text.find("}", at)
    if close < 0:
        raise PtxError("a section without an end", line=line)
    return close + 1


def _quoted_end(text: str, at: int, line: int) -> int:
    """A statement with strings or nested braces."""
    depth, quoted = 0, False
    for k in range(at, len(text)):
        char = text[k]
        if char == '"':
            quoted = not quoted
        elif not quoted:
            depth += (char == "{") - (char == "}")
            if char == ";" and depth == 0:
                return k + 1
    raise PtxError("a statement without its ';'", line=line, statement=text[at : at + 60].split("\n", maxsplit=1)[0])
