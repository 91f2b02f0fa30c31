"""Device code out of CUDA files that hold host code, too.

A file is cut into its top-level declarations: comments, strings and brackets are understood, nothing else. What is
asked for by name is kept, in the order of the file, with every preprocessor line but `#include` and `#pragma` between;
`#line` says where each piece stood, so that findings name the lines of the original.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

_SKIPPED = re.compile(
    r'\s+|//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|' r"'(?:\\.|[^'\\\n])*'", re.DOTALL
)  # of no interest to the nesting of brackets
_DIRECTIVE = re.compile(r"#(?:[^\n\\]|\\.|\\\n)*", re.DOTALL)
_ATTRIBUTES = re.compile(r"\b(?:__launch_bounds__|__attribute__|__align__|alignas)\s*\((?:[^()]|\([^()]*\))*\)")
_TYPE = re.compile(r"\b(?:struct|class|union|enum(?:\s+class)?)\s+(?:alignas\s*\([^()]*\)\s*)?(\w+)")
_FUNCTION = re.compile(r"(~?\w+|operator\W+)\s*(?:<[^<>]*>)?\s*\(")
_ALIAS = re.compile(r"\b(?:using|namespace)\s+(\w+)\s*=")
_VARIABLE = re.compile(r"(\w+)\s*(?:\[[^\]]*\]\s*)*(?:=|;|$)")


@dataclass(frozen=True)
class Piece:
    """A top-level declaration or a preprocessor line.

    Attributes:
        name: what it declares; "" for a preprocessor line.
        line: where it starts.
    """

    name: str
    text: str
    line: int


def pieces(text: str) -> Iterator[Piece]:
    """Cuts a file."""
    at = 0
    while at < len(text):
        skipped = _SKIPPED.match(text, at)
        if skipped:
            at = skipped.end()
            continue
        line = text.count("\n", 0, at) + 1
        directive = _DIRECTIVE.match(text, at)
        end = directive.end() if directive else _end_of_declaration(text, at)
        piece = text[at:end]
        yield Piece("" if directive else name_of(piece), piece, line)
        at = end


def _end_of_declaration(text: str, at: int) -> int:
    """Behind the semicolon, or behind the body of a function or namespace."""
    at += _template_header(text[at:])
    depth = 0
    has_parameters = is_type = False
    while at < len(text):
        skipped = _SKIPPED.match(text, at) or (_DIRECTIVE.match(text, at) if depth else None)
        if skipped:
            at = skipped.end()
            continue
        char = text[at]
        if depth == 0:
            is_type |= not has_parameters and _TYPE.match(text, at) is not None
            has_parameters |= char == "("
        depth += (char in "({[") - (char in ")}]")
        at += 1
        if depth == 0 and (char == ";" or (char == "}" and not is_type)):
            return at
    raise ValueError("a declaration that does not end")


def _template_header(text: str) -> int:
    """The length of ``template <...>``, or 0."""
    if not re.match(r"template\s*<", text):
        return 0
    depth = 0
    for k, char in enumerate(text):
        depth += (char == "<") - (char == ">")
        if char == ">" and depth == 0:
            return k + 1
    return 0


def name_of(declaration: str) -> str:
    """What a declaration declares."""
    head = re.split(r"[{;]", _ATTRIBUTES.sub(" ", _without_comments(declaration)), maxsplit=1)[0]
    alias = _ALIAS.search(head)
    if alias:
        return alias[1]
    head = head.strip()
    head = head[_template_header(head) :].strip()
    declared_type = _TYPE.match(head)
    if declared_type:
        return declared_type[1]
    function = _FUNCTION.search(head.partition("=")[0])
    found = function or _VARIABLE.search(head)
    return found[1].strip() if found else ""


def _without_comments(text: str) -> str:
    return re.sub(r"//[^\n]*|/\*.*?\*/", " ", text, flags=re.DOTALL)


def extract(path: Path, names: Iterable[str]) -> str:
    """The declarations of some names (all that have one of them), ready to be compiled.

    Raises:
        LookupError: a name that the file does not declare.
    """
    wanted = set(names)
    kept, found = [], set()
    for piece in pieces(path.read_text(encoding="utf-8", errors="replace")):
        if piece.name:
            if piece.name in wanted:
                found.add(piece.name)
                kept.append(f'#line {piece.line} "{path.name}"\n{piece.text}\n')
        elif not re.match(r"#\s*(include|pragma|error)\b", piece.text):
            kept.append(piece.text + "\n")
    if wanted - found:
        raise LookupError(f"{path} does not declare {', '.join(sorted(wanted - found))}: another version of it?")
    return "".join(kept)
