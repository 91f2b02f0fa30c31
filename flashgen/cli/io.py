"""`flashgen io`: the HBM ledger, matrix by matrix."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flashgen.cli.options import (
    ALGORITHMS,
    CommaList,
    DTypeChoice,
    causal_option,
    json_option,
    sram_option,
    target_option,
)

if TYPE_CHECKING:
    from flashgen.inspect.io_report import IoRequest


@click.command(name="io")
@click.option("--d", default=64, show_default=True, type=click.IntRange(1, 512), help="Head dim of q and k.")
@click.option("--dv", type=click.IntRange(1, 512), help="Head dim of v and out. Default: d.")
@click.option("--n", default=1024, show_default=True, type=click.IntRange(min=1), help="Queries of a head.")
@click.option("--nk", type=click.IntRange(min=1), help="Keys of a head. Default: as many.")
@click.option("--heads", default=1, show_default=True, type=click.IntRange(min=1), help="Query heads.")
@click.option("--heads-kv", type=click.IntRange(min=1), help="Heads of K and V. Default: as many.")
@click.option("--batch", default=1, show_default=True, type=click.IntRange(min=1), help="Batch size.")
@click.option("--dtype", default="fp16", show_default=True, type=DTypeChoice(), help="Element type.")
@causal_option
@sram_option
@click.option(
    "--algorithm",
    "algorithms",
    type=CommaList(ALGORITHMS),
    help="Which algorithms. Default: standard,fa1,fa2, and decode if so few query rows are given to its kernel.",
)
@click.option(
    "--convention",
    default="kernel",
    show_default=True,
    type=click.Choice(["kernel", "paper"]),
    help="kernel: what the planned kernel moves. paper: the paper's algorithms at the rule's own tile.",
)
@click.option("--backward", is_flag=True, help="Add the backward pass (paper only).")
@target_option
@click.option(
    "--count",
    default="auto",
    show_default=True,
    type=click.Choice(["auto", "emulator", "executor", "none"]),
    help="Who counts: the compiled kernel in the emulator (CUDA), or the step-by-step reference executor.",
)
@click.option("--sweep", type=click.Choice(["sram"]), help="Draw the bytes against on-chip memory.")
@click.option("--png", type=click.Path(dir_okay=False, path_type=Path), help="With --sweep: draw it to a file, too.")
@json_option
def io(as_json: bool, sweep: str | None, png: Path | None, **options: Any) -> None:
    """Say what each matrix costs in HBM traffic: closed form, counted and measured.

    \b
    Example:
      flashgen io --heads 16 --batch 64 --sram 96KB --target sm_80
      flashgen io --heads 16 --batch 64 --sram 192KiB --convention paper --backward
      flashgen io --heads 32 --heads-kv 8 --n 1 --nk 8192 --d 128 --dtype bf16 --target sm_90
      flashgen io --convention paper --sweep sram --png sweep.png
    """
    from flashgen.cli.io_tables import print_report
    from flashgen.cli.output import print_json
    from flashgen.inspect.io_report import make_report

    if png is not None and sweep is None:
        raise click.UsageError("--png draws a sweep: add --sweep sram.")
    request = _request(options)
    if sweep is not None:
        _sweep(request, png, as_json)
        return
    report = make_report(request)
    if as_json:
        print_json(report.as_dict())
    else:
        print_report(report)


def _request(options: dict[str, Any]) -> IoRequest:
    from flashgen.inspect.io_ledger import Sizes
    from flashgen.inspect.io_report import IoRequest, usual_algorithms
    from flashgen.runtime.device import resolve_target
    from flashgen.spec import make_spec
    from flashgen.units import parse_bytes

    spec = make_spec(options["d"], options["dtype"], options["causal"], options["dv"])
    target, convention = resolve_target(options["target"]), options["convention"]
    n, heads_kv = options["n"], options["heads_kv"] or options["heads"]
    sizes = Sizes(options["batch"], options["heads"], n, options["nk"] or n, heads_kv=heads_kv)
    return IoRequest(
        spec=spec,
        sizes=sizes,
        target=target,
        algorithms=tuple(options["algorithms"] or usual_algorithms(spec, target, sizes, convention)),
        convention=convention,
        sram_bytes=None if options["sram"] is None else parse_bytes(options["sram"]),
        backward=options["backward"],
        count=options["count"],
        every_gpu=convention == "paper" and options["target"] == "auto",
    )


def _sweep(request: IoRequest, png: Path | None, as_json: bool) -> None:
    from flashgen.cli.io_tables import title
    from flashgen.cli.output import print_json
    from flashgen.inspect.io_plot import text_plot, write_png
    from flashgen.inspect.io_report import sweep_dict, sweep_report

    found = sweep_report(request)
    if png is not None:
        write_png(found, png, title(request))
    if as_json:
        print_json(sweep_dict(request, found) | {"png": str(png) if png else None})
        return
    click.echo(title(request))
    click.echo("bytes between HBM and the chip, against on-chip memory M\n")
    click.echo(text_plot(found))
    if png is not None:
        click.echo(f"\n{png}: the same as a picture")
