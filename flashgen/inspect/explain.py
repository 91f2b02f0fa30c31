"""A rendered kernel beside its algorithm, line by line: formula, meaning, operands, code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from flashgen.errors import SpecError
from flashgen.families import family_named
from flashgen.inspect.explain_tags import Span, call_sites, tagged_spans
from flashgen.inspect.explain_texts import algorithms, formula_text, texts
from flashgen.source import KernelSource


@dataclass(frozen=True, slots=True)
class Operand:
    """A block that a line works on.

    Attributes:
        name: ``Q_i``, ``P~_ij``, ...
        shape: in symbols, ``("Br", "d")``.
        sizes: the same in numbers, where the plan knows them: ``("64", "64")``; N stays N.
        places: where it lives, or where it comes from and goes to: keys ``hbm``, ``sram``, ``reg``.
    """

    name: str
    shape: tuple[str, str]
    sizes: tuple[str, str]
    places: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CodeSpan:
    """Lines of the rendered file that do a line of the algorithm.

    Attributes:
        first, last: line numbers, both included.
        text: those lines.
        called_from: lines that call the function, if the span is one.
    """

    first: int
    last: int
    text: str
    called_from: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ExplainedLine:
    """One line of the algorithm.

    Attributes:
        number: its number.
        label: ``line 12``, ``pass 2``, in the chosen language.
        formula: as written in algorithms.toml.
        equations: numbers of the document's equations, or an empty text.
        meaning: one sentence.
        operands, code: see there.
    """

    number: int
    label: str
    formula: str
    equations: str
    meaning: str
    operands: tuple[Operand, ...]
    code: tuple[CodeSpan, ...]

    def as_dict(self, place_names: Mapping[str, str]) -> dict[str, Any]:
        """For JSON; the keys are stable and documented in docs/cli.md."""
        return {
            "line": self.number,
            "label": self.label,
            "formula": formula_text(self.formula),
            "equations": self.equations,
            "meaning": self.meaning,
            "operands": [
                {
                    "name": operand.name,
                    "shape": list(operand.shape),
                    "sizes": list(operand.sizes),
                    "places": [place_names[place] for place in operand.places],
                }
                for operand in self.operands
            ],
            "code": [
                {"first": span.first, "last": span.last, "called_from": list(span.called_from), "text": span.text}
                for span in self.code
            ],
        }


@dataclass(frozen=True, slots=True)
class Explanation:
    """A kernel, explained.

    Attributes:
        source: the rendered file.
        algorithm: ``standard``, ``fa1``, ``fa2`` or ``decode``.
        language: ``en`` or ``zh``.
        title: what the algorithm is.
        lines: of the algorithm, in order.
    """

    source: KernelSource
    algorithm: str
    language: str
    title: str
    lines: tuple[ExplainedLine, ...]

    @property
    def ui(self) -> Mapping[str, str]:
        """Words of the language for headings and labels."""
        words: Mapping[str, str] = texts(self.language)["ui"]
        return words

    @property
    def place_names(self) -> Mapping[str, str]:
        """What hbm, sram and reg are called on the target."""
        names: Mapping[str, str] = texts(self.language)["place"][self.source.target.kind]
        return names


def explain(source: KernelSource, language: str = "en", line: int | None = None) -> Explanation:
    """Puts a rendered kernel beside its algorithm.

    Args:
        source: the kernel.
        language: ``en`` or ``zh``.
        line: only this line of the algorithm; None for all.

    Raises:
        SpecError: the algorithm has no such line.
    """
    algorithm = family_named(source.plan.family).algorithm
    entries, words = algorithms()[algorithm]["lines"], texts(language)[algorithm]
    if line is not None and not 1 <= line <= len(entries):
        raise SpecError(f"{algorithm} has no line {line}; it has 1 to {len(entries)}.")
    spans = tagged_spans(source.text, algorithm)
    explained = tuple(
        ExplainedLine(
            number=entry["number"],
            label=words["pass"].format(number=entry["number"]),
            formula=entry["formula"],
            equations=entry.get("equations", ""),
            meaning=words[str(entry["number"])],
            operands=tuple(_operand(text, source) for text in entry["operands"]),
            code=tuple(_code(source.text, span) for span in spans.get(entry["number"], ())),
        )
        for entry in entries
        if line in (None, entry["number"])
    )
    return Explanation(source, algorithm, language, words["title"], explained)


def complaints(source: KernelSource) -> tuple[str, ...]:
    """What is wrong with a source's tags: lines of the algorithm without code, tags without a line."""
    algorithm = family_named(source.plan.family).algorithm
    numbers = {entry["number"] for entry in algorithms()[algorithm]["lines"]}
    tagged = set(tagged_spans(source.text, algorithm))
    missing = [f"{algorithm} line {number} has no code" for number in sorted(numbers - tagged)]
    return (*missing, *(f"a tag names {algorithm} line {number}, which is none" for number in sorted(tagged - numbers)))


def _operand(text: str, source: KernelSource) -> Operand:
    name, rows, columns, places = text.split(" ")
    spec, plan = source.spec, source.plan
    known = {"Br": plan.br, "Bc": plan.bc, "d": spec.head_dim, "dv": spec.head_dim_v}
    cpu, _, cuda = places.partition("|")
    here = cuda if cuda and source.target.kind == "cuda" else cpu
    sizes = (str(known.get(rows, rows)), str(known.get(columns, columns)))
    return Operand(name, (rows, columns), sizes, tuple(here.split(">")))


def _code(text: str, span: Span) -> CodeSpan:
    lines = text.split("\n")[span.first - 1 : span.last]
    return CodeSpan(span.first, span.last, "\n".join(lines), call_sites(text, span))
