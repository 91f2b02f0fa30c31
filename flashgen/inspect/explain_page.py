"""The page of `flashgen explain`: the algorithm on the left, the generated source on the right."""

from __future__ import annotations

from typing import Any

from flashgen.inspect.explain import CodeSpan, ExplainedLine, Explanation
from flashgen.inspect.explain_texts import formula_html, prose_html
from flashgen.render.environment import environment, templates_dir


def explain_page(explanation: Explanation) -> str:
    """One self-contained HTML page."""
    source, ui = explanation.source, explanation.ui
    template = environment(templates_dir()).get_template("pages/explain.html.j2")
    return template.render(
        language=explanation.language,
        title=explanation.title,
        ui=ui,
        source=source,
        tile=tile_text(explanation),
        lines=[_line(line, explanation) for line in explanation.lines],
        rows=_rows(explanation),
        file=ui["source_of"].format(filename=source.filename, count=source.text.count("\n")),
        made_by=ui["made_by"].format(filename=source.filename),
    )


def tile_text(explanation: Explanation) -> str:
    """The plan in a phrase: tile and bytes on chip."""
    plan = explanation.source.plan
    return explanation.ui["tile"].format(br=plan.br, bc=plan.bc, bytes=f"{plan.footprint.total:,}")


def span_label(span: CodeSpan, explanation: Explanation) -> str:
    """``lines 10 to 12``, ``line 7``, in the explanation's language."""
    key = "one_line" if span.first == span.last else "lines"
    return explanation.ui[key].format(first=span.first, last=span.last)


def calls_label(span: CodeSpan, explanation: Explanation) -> str:
    """``called from line 307``, or an empty text."""
    key = "called_from" if len(span.called_from) == 1 else "called_from_several"
    return explanation.ui[key].format(lines=", ".join(map(str, span.called_from))) if span.called_from else ""


def _line(line: ExplainedLine, explanation: Explanation) -> dict[str, Any]:
    names = explanation.place_names
    return {
        "number": line.number,
        "label": line.label,
        "formula": formula_html(line.formula),
        "equations": explanation.ui["equation"].format(numbers=line.equations) if line.equations else "",
        "meaning": prose_html(line.meaning),
        "operands": [
            {
                "name": formula_html(operand.name),
                "shape": " × ".join(operand.shape),
                "sizes": " × ".join(operand.sizes),
                "places": " → ".join(names[place] for place in operand.places),
            }
            for operand in line.operands
        ],
        "code": [
            {
                "first": span.first,
                "last": span.last,
                "label": span_label(span, explanation),
                "calls": calls_label(span, explanation),
            }
            for span in line.code
        ],
    }


def _rows(explanation: Explanation) -> list[dict[str, Any]]:
    """The file's lines, each with the numbers of the algorithm's lines that begin there."""
    begins: dict[int, list[int]] = {}
    for line in explanation.lines:
        for span in line.code:
            begins.setdefault(span.first, []).append(line.number)
    texts = explanation.source.text.removesuffix("\n").split("\n")
    return [{"text": text, "numbers": begins.get(number, [])} for number, text in enumerate(texts, start=1)]
