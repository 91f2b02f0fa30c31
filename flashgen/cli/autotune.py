"""`flashgen autotune`: measure the plans of a family, and let later builds use what was found."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flashgen.cli.options import DTypeChoice, algorithm_option, causal_option, json_option, sram_option, target_option

if TYPE_CHECKING:
    from flashgen.tuning.sweep.result import TuneResult


class Lengths(click.ParamType[list[int | tuple[int, int]]]):
    """Sequence lengths: ``1024,4096``; ``1x4096`` is one query row against 4,096 keys."""

    name = "lengths"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Splits the text and checks every length."""
        if not isinstance(value, str):
            return value
        found: list[int | tuple[int, int]] = []
        for item in filter(None, (part.strip() for part in value.split(","))):
            match = re.fullmatch(r"(\d+)(?:x(\d+))?", item)
            sizes = [int(size) for size in match.groups() if size] if match else []
            if not sizes or 0 in sizes:
                self.fail(f"{item!r} is no length. Write 1024, or 1x4096 for query rows x keys.", param, ctx)
            found.append(sizes[0] if len(sizes) == 1 else (sizes[0], sizes[1]))
        if not found:
            self.fail("the list is empty.", param, ctx)
        return found


class Seconds(click.ParamType[float]):
    """A time: ``60s``, ``2min``, ``90``."""

    name = "seconds"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Reads the number and its unit."""
        if isinstance(value, (int, float)):
            return float(value)
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(s|sec|min|m|h)?\s*", str(value))
        if match is None or float(match[1]) == 0:
            self.fail(f"{value!r} is no time. Write 60s, 2min or 1h.", param, ctx)
        return float(match[1]) * {"min": 60.0, "m": 60.0, "h": 3600.0}.get(match[2] or "s", 1.0)


@click.command()
@click.option("--d", type=click.IntRange(min=1), required=True, help="Head dim of q and k.")
@click.option("--dv", "d_v", type=click.IntRange(min=1), help="Head dim of v and out. Default: d.")
@click.option("--dtype", default="fp16", show_default=True, type=DTypeChoice(), help="Element type.")
@click.option(
    "--seqlen",
    "seqlens",
    default="1024",
    show_default=True,
    type=Lengths(),
    help="Lengths to tune for; 1x4096 is one query row against 4,096 keys.",
)
@click.option("--batch", default=1, show_default=True, type=click.IntRange(min=1), help="Batch size.")
@click.option("--heads", default=8, show_default=True, type=click.IntRange(min=1), help="Query heads.")
@click.option("--heads-kv", type=click.IntRange(min=1), help="Key and value heads. Default: as many.")
@causal_option
@target_option
@algorithm_option
@sram_option
@click.option(
    "--strategy",
    default="halving",
    show_default=True,
    type=click.Choice(["halving", "exhaustive", "random"]),
    help="Which plans to time how often, before the best meet in the final.",
)
@click.option("--time-limit", default="60s", show_default=True, type=Seconds(), help="For all lengths together.")
@click.option("--jobs", type=click.IntRange(min=1), help="Plans to compile at once. Default: one for each CPU.")
@click.option("--seed", default=0, show_default=True, type=click.IntRange(min=0), help="Of the random strategy.")
@click.option("--fresh", is_flag=True, help="Forget what was measured before.")
@click.option(
    "--out",
    default="generated",
    show_default=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="Directory for the report: a page, and a PNG of each map.",
)
@click.option("--dry-run", is_flag=True, help="Only list the plans, and why some fell.")
@json_option
def autotune(as_json: bool, dry_run: bool, out: Path, **options: Any) -> None:
    """Measure the plans of a kernel family on this machine. Builds use the winner from then on.

    Every plan is compiled ahead, checked against float64 and timed in turn with the others. The default is
    replaced only by a plan that beats it by more than the noise. An interrupted sweep goes on where it was.

    \b
    Example:
      flashgen autotune --d 64 --dtype fp32 --seqlen 1024,4096
      flashgen autotune --d 128 --dtype bf16 --causal --heads 32 --heads-kv 8 --time-limit 2min
      flashgen autotune --d 64 --sram 96KB --algorithm fa1 --dry-run
    """
    asked = options | {"causal": options["causal"] or False}
    if dry_run:
        from flashgen.cli.tune_tables import print_spaces

        print_spaces(asked, as_json)
        return
    from flashgen.tuning.report.files import write_report

    result = _run(asked, show_progress=not as_json)
    files, excuse = write_report(result, out)
    _show(result, as_json, files, excuse)


def _run(asked: dict[str, Any], show_progress: bool) -> TuneResult:
    import flashgen
    from flashgen.cli.tune_progress import live_progress

    try:
        with live_progress(show_progress) as tell:
            return flashgen.autotune(**asked, progress=tell)
    except KeyboardInterrupt:
        click.echo("What was measured is kept; the same command goes on from there.", err=True)
        raise


def _show(result: TuneResult, as_json: bool, files: list[Path], excuse: str) -> None:
    from flashgen.cli.output import print_json
    from flashgen.cli.tune_tables import print_result

    if as_json:
        print_json(result.as_dict() | {"files": [str(path) for path in files]})
        return
    for shape in result.shapes:
        print_result(result, shape)
    click.echo(f"report    {files[0]}")
    for path in files[1:]:
        click.echo(f"map       {path}")
    if excuse:
        click.echo(f"no map    {excuse}")
