"""`flashgen explain`: the generated source beside its algorithm, line by line."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flashgen.cli.options import (
    ALGORITHMS,
    DTypeChoice,
    causal_option,
    json_option,
    request,
    sram_option,
    target_option,
)

if TYPE_CHECKING:
    from flashgen.inspect.explain import ExplainedLine, Explanation
    from flashgen.source import KernelSource


@click.command()
@click.option(
    "--algorithm",
    default="fa1",
    show_default=True,
    type=click.Choice(ALGORITHMS),
    help="Which algorithm.",
)
@click.option("--line", type=click.IntRange(min=1), help="Only this line of it (for standard: this pass).")
@click.option("--lang", default="en", show_default=True, type=click.Choice(["en", "zh"]), help="Language.")
@click.option("--d", default=64, show_default=True, type=click.IntRange(min=1), help="Head dim of q and k.")
@click.option("--dv", type=click.IntRange(min=1), help="Head dim of v and out. Default: d.")
@click.option("--dtype", default="fp16", show_default=True, type=DTypeChoice(), help="Element type.")
@causal_option
@sram_option
@click.option("--br", type=click.IntRange(min=1), help="Query rows of a tile. Default: chosen.")
@click.option("--bc", type=click.IntRange(min=1), help="Keys of a tile. Default: chosen.")
@target_option
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="Write an HTML page to this file.")
@json_option
def explain(as_json: bool, line: int | None, lang: str, out: Path | None, **options: Any) -> None:
    """Show the generated source beside its algorithm: formula, meaning, operands and code of each line.

    \b
    Example:
      flashgen explain
      flashgen explain --algorithm fa1 --line 12 --lang zh
      flashgen explain --target sm_80 --sram 96KB --out fa1.html
    """
    from flashgen.cli.output import print_json
    from flashgen.inspect.explain import explain as explain_source

    source = _render(request(options))
    explanation = explain_source(source, lang, line)
    if out is not None:
        from flashgen.inspect.explain_page import explain_page

        out.write_text(explain_page(explanation), encoding="utf-8")
    if as_json:
        print_json(
            {
                "algorithm": explanation.algorithm,
                "language": lang,
                "title": explanation.title,
                "file": source.filename,
                "page": str(out) if out else None,
                "lines": [entry.as_dict(explanation.place_names) for entry in explanation.lines],
            }
        )
    elif out is not None:
        click.echo(f"{out}: {explanation.title}")
    else:
        _print(explanation)


def _render(asked: dict[str, Any]) -> KernelSource:
    import flashgen
    from flashgen.families import family_named
    from flashgen.render.renderer import render
    from flashgen.runtime.device import resolve_target
    from flashgen.spec import make_spec

    plan = flashgen.plan(**asked)
    spec = make_spec(asked["d"], asked["dtype"], asked["causal"], asked["d_v"])
    return render(family_named(plan.family), spec, plan, resolve_target(asked["target"]))


def _print(explanation: Explanation) -> None:
    from flashgen.cli.output import console
    from flashgen.inspect.explain_page import tile_text

    out, source = console(), explanation.source
    out.print(f"[bold]{explanation.title}[/]", soft_wrap=True)
    out.print(f"{source.spec.summary} · {source.target} · {tile_text(explanation)}", soft_wrap=True)
    out.print(source.filename, soft_wrap=True)
    for line in explanation.lines:
        out.print()
        _print_line(line, explanation)


def _print_line(line: ExplainedLine, explanation: Explanation) -> None:
    from rich.markup import escape

    from flashgen.cli.output import console
    from flashgen.inspect.explain_page import calls_label, span_label
    from flashgen.inspect.explain_texts import formula_text

    out, ui = console(), explanation.ui
    equation = f"   [dim]{ui['equation'].format(numbers=line.equations)}[/]" if line.equations else ""
    out.print(f"[bold cyan]{line.label}[/]  [bold]{escape(formula_text(line.formula))}[/]{equation}", soft_wrap=True)
    out.print(f"  {escape(line.meaning)}", soft_wrap=True)
    for operand in line.operands:
        shape, sizes = " x ".join(operand.shape), " x ".join(operand.sizes)
        where = " → ".join(explanation.place_names[place] for place in operand.places)
        out.print(f"    {operand.name:<7}{shape:<9}{sizes:<11}{where}", soft_wrap=True)
    for span in line.code:
        calls = calls_label(span, explanation)
        out.print(f"  [dim]{span_label(span, explanation)}{f' ({calls})' if calls else ''}[/]", soft_wrap=True)
        for number, text in enumerate(span.text.split("\n"), start=span.first):
            click.echo(f"    {number:4d}  {text}".rstrip())
