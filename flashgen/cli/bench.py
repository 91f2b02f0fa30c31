"""`flashgen bench`: how fast, beside what, and how near to the machine's peak."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import click

from flashgen.cli.options import ALGORITHMS, DTYPES, CommaList, causal_option, json_option
from flashgen.spec import Causal

if TYPE_CHECKING:
    from flashgen.measure.bench import BenchResult
    from flashgen.measure.clock import Timing
    from flashgen.measure.workload import Workload


@click.command()
@click.option("--n", "lengths", default="512,2048", show_default=True, type=CommaList(), help="Sequence lengths.")
@click.option("--d", default=64, show_default=True, type=click.IntRange(1, 512), help="Head dim.")
@click.option("--heads", default=8, show_default=True, type=click.IntRange(min=1), help="Query heads.")
@click.option("--heads-kv", type=click.IntRange(min=1), help="Key and value heads. Default: as many.")
@click.option("--batch", default=1, show_default=True, type=click.IntRange(min=1), help="Batch size.")
@click.option("--dtype", "dtypes", default="fp32", show_default=True, type=CommaList(DTYPES), help="Element types.")
@click.option(
    "--algorithm",
    "algorithms",
    default="standard,fa1,fa2",
    show_default=True,
    type=CommaList(ALGORITHMS),
    help="What to time.",
)
@causal_option
@click.option("--target", default="cpu", show_default=True, metavar="TARGET", help="A CPU target that runs here.")
@click.option("--rounds", default=11, show_default=True, type=click.IntRange(min=1), help="Timed turns of each peer.")
@json_option
def bench(
    lengths: list[int],
    d: int,
    heads: int,
    heads_kv: int | None,
    batch: int,
    dtypes: list[str],
    algorithms: list[str],
    causal: Literal["bottom_right", "top_left"] | None,
    target: str,
    rounds: int,
    as_json: bool,
) -> None:
    """Time the algorithms, with torch's SDPA beside them where torch is installed.

    All peers take turns in one run, each after a pause and an untimed call. The machine's peak is probed
    in every round, and rounds in which other work disturbed it are discarded.

    \b
    Example:
      flashgen bench
      flashgen bench --n 1024,4096 --dtype fp32,fp16 --algorithm fa2 --causal
    """
    from rich.progress import Progress

    from flashgen.cli.output import console, print_json
    from flashgen.dtypes import parse_dtype
    from flashgen.measure.bench import bench as run_bench
    from flashgen.measure.bench import turns
    from flashgen.measure.workload import Workload
    from flashgen.spec import parse_causal

    workloads = [
        Workload(batch, heads, heads_kv or heads, n, d, d, parse_dtype(dtype), parse_causal(causal))
        for dtype in dtypes
        for n in lengths
    ]
    out = console()
    with Progress(console=out, transient=True, disable=as_json or not out.is_terminal) as bar:
        task = bar.add_task("timing", total=turns(workloads, algorithms, rounds))
        result = run_bench(workloads, algorithms, target=target, rounds=rounds, progress=lambda _: bar.advance(task))
    if as_json:
        rows = [row.as_dict() for row in result.rows]
        print_json({"peak_gflops": result.peak_gflops, "peaks": dict(result.peaks), "rows": rows})
    else:
        print_bench(result)


def print_bench(result: BenchResult) -> None:
    """Prints the table, and what to know when reading it."""
    from rich.table import Table

    from flashgen.cli.output import console
    from flashgen.measure.workload import torch_is_here
    from flashgen.runtime.device import host_name
    from flashgen.runtime.openmp import thread_pool

    out = console()
    threads = thread_pool().max_threads()
    peaks = ", ".join(f"{peak:,.0f} ({precision})" for precision, peak in result.peaks.items())
    out.print(f"{host_name()}, {threads} threads, peak GFLOP/s {peaks}")
    table = Table()
    table.add_column("kernel", no_wrap=True)
    for column in ("median ms", "spread", "GFLOP/s", "of peak", "memory", "vs SDPA"):
        table.add_column(column, justify="right")
    previous = None
    for row in result.rows:
        if row.workload != previous:
            table.add_section()
            table.add_row(f"[bold]{_title(row.workload)}[/]", *[""] * 6)
        previous, timing = row.workload, row.timing
        table.add_row(
            row.name,
            f"{timing.median_s * 1e3:.3f}",
            _spread(timing),
            f"{row.gflops:.1f}",
            f"{row.peak_fraction:.0%}",
            "" if row.workspace_bytes is None else f"{row.workspace_bytes / 1024:,.0f} KiB",
            "" if row.ratio_to_sdpa is None else f"{row.ratio_to_sdpa:.2f}x",
        )
    out.print(table)
    if any(row.timing.discarded > row.timing.rounds for row in result.rows):
        out.print(
            "Other work disturbed most rounds of some rows, so their numbers mean little. "
            "Run it again on a quiet machine, or with more --rounds."
        )
    elif any(row.timing.discarded for row in result.rows):
        out.print("Rounds that other work disturbed were discarded.")
    if not torch_is_here():
        out.print(
            "Without torch there is nothing to compare with: pip install 'flashgen\\[torch]', or make demo TORCH=1."
        )


def _spread(timing: Timing) -> str:
    """The spread, and how many rounds it is of where some were discarded."""
    spread = f"{timing.spread:.0%}" if timing.rounds > 1 else "-"
    return spread + (f" ({timing.rounds}/{timing.rounds + timing.discarded})" if timing.discarded else "")


def _title(work: Workload) -> str:
    batch, heads, seqlen, d = work.shape
    return f"B{batch} H{heads} N{seqlen} d{d} {work.dtype.name}" + ("" if work.causal is Causal.NONE else " causal")
