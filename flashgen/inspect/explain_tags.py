"""Where a rendered kernel does which line of its algorithm: read from the tags in its comments.

A tag names lines: ``// line 10: ...``, ``// Algorithm 1, lines 12 and 13: ...``, ``// Pass 2: ...``. How much
code it covers depends on where it stands:

    behind code                   that line of code
    alone, inside a function      the code below it, down to the next tag or blank line
    above a function              the function, unless tags inside it say more exactly which part does what
    in a section's heading        the section, down to the next heading
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

_NUMBERS = r"(\d+(?:(?:, | and | to |, and )\d+)*)"
TAGS: Mapping[str, re.Pattern[str]] = {
    "standard": re.compile(rf"\bPass(?:es)? {_NUMBERS}\b"),
    "fa1": re.compile(rf"\blines? {_NUMBERS}\b"),
    "fa2": re.compile(rf"\b[Ll]ines? {_NUMBERS}\b"),
    "decode": re.compile(rf"\b[Ll]ines? {_NUMBERS}\b"),  # up to line 11 as fa2, with which it shares parts
}
_SECTION = "// ----"
_NAME = re.compile(r"([A-Za-z_]\w*)\(")


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """Lines of a source file, counted from 1, both ends included."""

    first: int
    last: int


@dataclass(frozen=True, slots=True)
class _Tag:
    numbers: tuple[int, ...]
    span: Span
    is_function: bool = False


def tagged_spans(source: str, algorithm: str) -> dict[int, tuple[Span, ...]]:
    """The spans of each line (or pass) that the source's tags name, in the order of the file.

    Numbers are taken as they stand: what a tag names but the algorithm lacks shows up here.
    """
    lines = source.split("\n")
    tags = list(_find_tags(lines, TAGS[algorithm]))
    found: dict[int, set[Span]] = {}
    for tag in tags:
        if tag.is_function and _is_refined(tag, tags):
            continue
        for number in tag.numbers:
            found.setdefault(number, set()).add(tag.span)
    return {number: tuple(sorted(spans)) for number, spans in sorted(found.items())}


def call_sites(source: str, span: Span) -> tuple[int, ...]:
    """Lines that call the function which a span holds; none if it holds no function."""
    lines = source.split("\n")
    name = _function_name(lines, span)
    if name is None:
        return ()
    call = re.compile(rf"\b{name}(?:<[^<>]*>)?\(")
    return tuple(
        number
        for number, line in enumerate(lines, start=1)
        if call.search(_code(line)) and line.startswith(" ") and not span.first <= number <= span.last
    )


def numbers_in(text: str, pattern: re.Pattern[str]) -> tuple[int, ...]:
    """The line numbers that a comment names: ``lines 3, 4 and 7``, ``lines 10 to 13``."""
    numbers: list[int] = []
    for match in pattern.finditer(text):
        for part in re.split(r", and |, | and ", match[1]):
            first, _, last = part.partition(" to ")
            numbers += range(int(first), int(last or first) + 1)
    return tuple(numbers)


def _find_tags(lines: list[str], pattern: re.Pattern[str]) -> Iterator[_Tag]:
    at = 0
    while at < len(lines):
        if not _is_comment(lines[at]):
            numbers = numbers_in(_comment(lines[at]), pattern)
            if numbers:
                yield _Tag(numbers, Span(at + 1, at + 1))
            at += 1
            continue
        end = at + 1
        while end < len(lines) and _is_comment(lines[end]) and not lines[at].startswith(_SECTION):
            end += 1
        numbers = numbers_in(" ".join(lines[at:end]), pattern)
        if numbers:
            yield _covered(lines, at, end, numbers, pattern)
        at = end


def _covered(lines: list[str], start: int, code: int, numbers: tuple[int, ...], pattern: re.Pattern[str]) -> _Tag:
    """The tag of a comment in lines[start:code], with the code that it covers."""
    if lines[start].startswith(_SECTION):
        end = _first(lines, code, lambda line: line.startswith((_SECTION, "}  //")))
        return _Tag(numbers, Span(start + 1, _without_blanks(lines, end)))
    if not lines[start].startswith(" "):
        end = _first(lines, code, lambda line: line[:1] != " " and line.endswith(("}", ";")))
        return _Tag(numbers, Span(start + 1, min(end + 1, len(lines))), is_function=True)
    end = _first(lines, code, lambda line: not line.strip() or bool(numbers_in(_comment(line), pattern)))
    depth = len(lines[start]) - len(lines[start].lstrip())
    end = _first(lines[:end], code, lambda line: line[:1] != "#" and len(line) - len(line.lstrip()) < depth)
    return _Tag(numbers, Span(start + 1, end))


def _is_refined(tag: _Tag, tags: list[_Tag]) -> bool:
    return any(tag.span.first < other.span.first <= tag.span.last for other in tags)


def _first(lines: list[str], start: int, wanted: Callable[[str], bool]) -> int:
    """Index of the first wanted line from ``start`` on, or the number of lines."""
    return next((at for at in range(start, len(lines)) if wanted(lines[at])), len(lines))


def _without_blanks(lines: list[str], end: int) -> int:
    while end > 0 and not lines[end - 1].strip():
        end -= 1
    return end


def _function_name(lines: list[str], span: Span) -> str | None:
    """Name of the function that a span begins with; None if it begins with anything else."""
    code = (line for line in lines[span.first - 1 : span.last] if line.strip() and not _is_comment(line))
    first = next((line for line in code if not line.startswith(("template", "#"))), "")
    if first.startswith((" ", "constexpr", "struct", "enum", "extern")):
        return None
    named = _NAME.search(first)
    return named[1] if named else None


def _is_comment(line: str) -> bool:
    return line.lstrip().startswith("//")


def _comment(line: str) -> str:
    return line.partition("//")[2]


def _code(line: str) -> str:
    return line.partition("//")[0]
