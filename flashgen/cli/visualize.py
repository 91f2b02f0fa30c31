"""`flashgen visualize`: a real run, stepped through in the browser."""

from __future__ import annotations

from pathlib import Path
from typing import Any

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


@click.command()
@click.option("--n", default=8, show_default=True, type=click.IntRange(min=1), help="Queries.")
@click.option("--nk", type=click.IntRange(min=1), help="Keys. Default: as many.")
@click.option("--d", default=4, show_default=True, type=click.IntRange(min=1), help="Head dim of q and k.")
@click.option("--dv", type=click.IntRange(min=1), help="Head dim of v and out. Default: d.")
@click.option(
    "--br", type=click.IntRange(min=1), help="Query rows of a tile. Default: a quarter of n; with --sram, the plan's."
)
@click.option(
    "--bc", type=click.IntRange(min=1), help="Keys of a tile. Default: half of the keys; with --sram, the plan's."
)
@click.option("--dtype", default="fp32", show_default=True, type=DTypeChoice(), help="Element type.")
@causal_option
@sram_option
@click.option(
    "--algorithm",
    default="fa1",
    show_default=True,
    type=click.Choice(ALGORITHMS),
    help="Which algorithm; decode has no page.",
)
@target_option
@click.option("--lang", default="en", show_default=True, type=click.Choice(["en", "zh"]), help="Language.")
@click.option("--seed", default=0, show_default=True, type=click.IntRange(min=0), help="Of the random inputs.")
@click.option(
    "--out",
    default="visualize.html",
    show_default=True,
    type=click.Path(dir_okay=False, path_type=Path),
    help="The page to write.",
)
@json_option
def visualize(as_json: bool, n: int, nk: int | None, lang: str, seed: int, out: Path, **options: Any) -> None:
    """Write a page that steps through a real run: what moves, what is computed, with the numbers.

    \b
    Example:
      flashgen visualize --n 8 --d 4 --br 2 --bc 4
      flashgen visualize --algorithm fa2 --causal --lang zh --out fa2.html
      flashgen visualize --n 1024 --d 64 --sram 96KB --dtype fp16
    """
    from flashgen.cli.output import plan_json, print_json
    from flashgen.inspect.visualize import visualize_page
    from flashgen.inspect.visualize_plan import plan_to_show
    from flashgen.runtime.device import resolve_target
    from flashgen.spec import make_spec
    from flashgen.units import parse_bytes

    asked = request(options)
    spec, target = make_spec(asked["d"], asked["dtype"], asked["causal"], asked["d_v"]), resolve_target(asked["target"])
    budget = None if asked["sram"] is None else parse_bytes(asked["sram"])
    if budget is None and asked["br"] is None and asked["bc"] is None:
        asked |= {"br": max(n // 4, 1), "bc": max((nk or n) // 2, 1)}  # a few blocks to step through
    plan = plan_to_show(spec, target, asked["algorithm"], budget, asked["br"], asked["bc"])
    out.write_text(visualize_page(spec, plan, target, n, nk or n, language=lang, seed=seed), encoding="utf-8")
    if as_json:
        print_json({"page": str(out), "n": n, "nk": nk or n, "language": lang, "plan": plan_json(spec, target, plan)})
        return
    click.echo(f"{out}: {plan.family}, {spec.summary}, {n} x {nk or n} in {plan.br} x {plan.bc} tiles")
    click.echo("Open it in a browser; it needs no network.")
