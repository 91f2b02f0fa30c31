"""The texts of explain and visualize: algorithms in no language, sentences in English and Chinese."""

from __future__ import annotations

import html
import re
import tomllib
from functools import cache
from importlib import resources
from typing import Any

LANGUAGES = ("en", "zh")

_SYMBOLS = (("->", "→"), ("<-", "←"), ("-inf", "−∞"), ("...", "…"))
_SIMPLE = re.compile(r"([_^])(-?[A-Za-z0-9]+)")
_BRACED = re.compile(r"([_^])\{([^{}]*)\}")
_TILDE = re.compile(r"([A-Za-z])~")
_LETTER = re.compile("(?<![\\w<&/])(ij|[A-Za-z]\N{COMBINING TILDE}?)(?![\\w>;])")
_SYMBOL_IN_PROSE = re.compile(r"(?<![A-Za-z0-9_])([A-Za-z])_([A-Za-z]{1,2})(?![A-Za-z0-9_])")
_TAGS = {"_": "sub", "^": "sup"}


@cache
def texts(language: str) -> dict[str, Any]:
    """All sentences of a language, by section and key."""
    return _read(language)


@cache
def algorithms() -> dict[str, Any]:
    """Lines, formulas and operands of each algorithm."""
    return _read("algorithms")


def formula_text(formula: str) -> str:
    """A formula as plain text: ``e^{m_i - m_new}`` becomes ``e^(m_i - m_new)``."""
    text = _BRACED.sub(lambda m: m[1] + (m[2] if re.fullmatch(r"-?\w+", m[2]) else f"({m[2]})"), formula)
    return _with_symbols(text)


def formula_html(formula: str) -> str:
    """A formula as HTML, with subscripts, superscripts and tildes set, and single letters in italics."""
    text = html.escape(_with_symbols(formula), quote=False).replace(" - ", " − ")
    text = _TILDE.sub("\\1\N{COMBINING TILDE}", text)
    text = _SIMPLE.sub(_set, text)
    while _BRACED.search(text):
        text = _BRACED.sub(_set, text)
    return _LETTER.sub(r"<i>\1</i>", text)


def prose_html(sentence: str) -> str:
    """A sentence as HTML, with the symbols in it set as in formulas: K_j, T_r."""
    return _SYMBOL_IN_PROSE.sub(r"<i>\1</i><sub>\2</sub>", html.escape(sentence, quote=False))


def _set(match: re.Match[str]) -> str:
    tag = _TAGS[match[1]]
    return f"<{tag}>{match[2].replace('-', chr(0x2212))}</{tag}>"


def _with_symbols(text: str) -> str:
    for written, shown in _SYMBOLS:
        text = text.replace(written, shown)
    return text


def _read(name: str) -> dict[str, Any]:
    return tomllib.loads(resources.files("flashgen.inspect").joinpath(f"texts/{name}.toml").read_text(encoding="utf-8"))
