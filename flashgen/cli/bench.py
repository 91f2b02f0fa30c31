"""`flashgen bench`: how fast, beside what, and how near to the machine's peak."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from flashgen.cli.options import ALGORITHMS, DTYPES, CommaList, causal_option, json_option
from flashgen.spec import Causal

if TYPE_CHECKING:
    from rich.table import Table

    from flashgen.measure.bench import BenchResult
    from flashgen.measure.clock import Timing
    from flashgen.measure.workload import Workload


def _cpu_that_runs_here(ctx: click.Context, param: click.Parameter, value: str) -> str:
    from flashgen.errors import SpecError
    from flashgen.runtime.device import resolve_target, runs_here

    where = resolve_target(value)
    if where.kind != "cpu":
        raise SpecError(f"flashgen bench times CPU kernels, and {where} is no CPU; benchmarks/gpu/run.py is for GPUs.")
    if not runs_here(where):
        raise SpecError(f"This CPU cannot run {where}, so nothing can be timed on it here.")
    return value


@click.command()
@click.option("--decode", is_flag=True, help="Few query rows against keys and values out of memory, in GB/s.")
@click.option(
    "--n",
    "lengths",
    show_default="512,2048; with --decode 4096",
    type=CommaList(),
    help="Sequence lengths; with --decode, keys.",
)
@click.option("--seqlen-q", type=click.IntRange(min=1), help="With --decode: query rows of a head. Default: 1.")
@click.option("--d", default=64, show_default=True, type=click.IntRange(1, 512), help="Head dim.")
@click.option("--heads", show_default="8; with --decode 32", type=click.IntRange(min=1), help="Query heads.")
@click.option("--heads-kv", type=click.IntRange(min=1), help="Key and value heads. Default: as many; with --decode 8.")
@click.option("--batch", default=1, show_default=True, type=click.IntRange(min=1), help="Batch size.")
@click.option("--dtype", "dtypes", default="fp32", show_default=True, type=CommaList(DTYPES), help="Element types.")
@click.option(
    "--algorithm",
    "algorithms",
    show_default="standard,fa1,fa2; with --decode decode,fa2",
    type=CommaList(ALGORITHMS),
    help="What to time.",
)
@causal_option
@click.option(
    "--peers", default="sdpa", show_default=True, metavar="LIST", help="sdpa, matmul, flex, ort, openvino, or all."
)
@click.option(
    "--target",
    default="cpu",
    show_default=True,
    metavar="TARGET",
    callback=_cpu_that_runs_here,
    help="A CPU target that runs here.",
)
@click.option(
    "--rounds", default=11, show_default=True, type=click.IntRange(min=1), help="Timed turns of each contender."
)
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), help="A folder for bench.json and bench.png.")
@json_option
def bench(
    decode: bool,
    lengths: list[int] | None,
    seqlen_q: int | None,
    d: int,
    heads: int | None,
    heads_kv: int | None,
    batch: int,
    dtypes: list[str],
    algorithms: list[str] | None,
    causal: Literal["bottom_right", "top_left"] | None,
    peers: str,
    target: str,
    rounds: int,
    out: Path | None,
    as_json: bool,
) -> None:
    """Time the algorithms, with other libraries beside them where they are installed.

    All contenders take turns in one run, each after a pause and an untimed call. The machine's peak is probed
    in every round, and rounds in which other work disturbed it are discarded.

    \b
    Example:
      flashgen bench
      flashgen bench --n 1024,4096 --dtype fp32,fp16 --algorithm fa2 --causal
      flashgen bench --algorithm fa2 --peers all --out results
      flashgen bench --decode --n 4096,32768 --dtype fp32,bf16
    """
    if decode:
        if causal or out:
            raise click.UsageError("--decode goes without --causal and --out.")
        from flashgen.cli.bench_decode import run_decode

        heads = heads or heads_kv or 32
        run_decode(
            lengths or [4096],
            seqlen_q or 1,
            d,
            heads,
            heads_kv or min(heads, 8),
            batch,
            dtypes,
            algorithms or ["decode", "fa2"],
            peers,
            target,
            rounds,
            as_json,
        )
        return
    if seqlen_q is not None:
        raise click.UsageError("--seqlen-q goes with --decode only.")
    lengths, heads, algorithms = lengths or [512, 2048], heads or 8, algorithms or ["standard", "fa1", "fa2"]
    from rich.progress import Progress

    from flashgen.cli.output import console, print_json
    from flashgen.dtypes import parse_dtype
    from flashgen.measure.bench import bench as run_bench
    from flashgen.measure.bench import turns
    from flashgen.measure.peers import named_peers
    from flashgen.measure.workload import Workload
    from flashgen.spec import parse_causal

    others = named_peers(peers)
    workloads = [
        Workload(batch, heads, heads_kv or heads, n, n, d, d, parse_dtype(dtype), parse_causal(causal))
        for dtype in dtypes
        for n in lengths
    ]
    shown = console()
    with Progress(console=shown, transient=True, disable=as_json or not shown.is_terminal) as bar:
        task = bar.add_task("timing", total=turns(workloads, algorithms, rounds, others))
        result = run_bench(
            workloads, algorithms, peers=others, target=target, rounds=rounds, progress=lambda _: bar.advance(task)
        )
    if as_json:
        print_json(result.as_dict())
    else:
        print_bench(result)
    if out is not None:
        _write(result, out)


def _write(result: BenchResult, folder: Path) -> None:
    """Writes bench.json and, where matplotlib is installed, bench.png; says so beside the result, on stderr."""
    import json

    from flashgen.errors import ToolchainError
    from flashgen.measure.picture import write_picture

    folder.mkdir(parents=True, exist_ok=True)
    data = result.as_dict()
    (folder / "bench.json").write_text(json.dumps(data, indent=2) + "\n", encoding="utf-8")
    click.echo(f"wrote {folder / 'bench.json'}", err=True)
    try:
        write_picture(data, folder / "bench.png")
    except ToolchainError as error:
        click.echo(str(error), err=True)
    else:
        click.echo(f"wrote {folder / 'bench.png'}", err=True)


def print_bench(result: BenchResult) -> None:
    """Prints the table, and what to know when reading it."""
    from flashgen.cli.output import console
    from flashgen.runtime.device import host_name
    from flashgen.runtime.openmp import thread_pool

    out = console()
    threads = thread_pool().max_threads()
    peaks = ", ".join(f"{peak:,.0f} ({precision})" for precision, peak in result.peaks.items())
    out.print(f"{host_name()}, {threads} threads, peak GFLOP/s {peaks}")
    out.print(_table(result))
    for line in (*disturbance(result.foreign_cores, [row.timing for row in result.rows]), *result.absent):
        out.print(line, markup=False)


def _table(result: BenchResult) -> Table:
    from rich.table import Table

    columns = ["median ms", "spread", "GFLOP/s", "of peak", "memory", "vs torch SDPA", "vs best peer"]
    table = Table()
    table.add_column("kernel", no_wrap=True)
    for column in columns:
        table.add_column(column, justify="right")
    previous = None
    for row in result.rows:
        if row.workload != previous:
            table.add_section()
            table.add_row(f"[bold]{_title(row.workload)}[/]", *[""] * len(columns))
        previous, timing = row.workload, row.timing
        table.add_row(
            row.name,
            f"{timing.median_s * 1e3:.3f}",
            spread_text(timing),
            f"{row.gflops:.1f}",
            f"{row.peak_fraction:.0%}",
            "" if row.workspace_bytes is None else f"{row.workspace_bytes / 1024:,.0f} KiB",
            ratio_text(row.ratio_to_sdpa),
            ratio_text(row.ratio_to_best_peer),
        )
    return table


def disturbance(foreign_cores: float | None, timings: Sequence[Timing]) -> list[str]:
    """What to say of other work on the machine: lines, none if there was none."""
    from flashgen.measure.clock import DISTURBED_CORES

    if any(timing.discarded > timing.rounds for timing in timings):
        again = "so their numbers mean little. Run it again on a quiet machine, or with more --rounds."
        taken = (
            f"Other work took {foreign_cores:.1f} cores meanwhile. " if (foreign_cores or 0) > DISTURBED_CORES else ""
        )
        return [f"{taken}Most rounds of some rows were disturbed, {again}"]
    return ["Rounds that other work disturbed were discarded."] if any(timing.discarded for timing in timings) else []


def ratio_text(ratio: float | None) -> str:
    """``2.51x``, or nothing."""
    return "" if ratio is None else f"{ratio:.2f}x"


def spread_text(timing: Timing) -> str:
    """The spread, and how many rounds it is of where some were discarded."""
    spread = f"{timing.spread:.0%}" if timing.rounds > 1 else "-"
    return spread + (f" ({timing.rounds}/{timing.rounds + timing.discarded})" if timing.discarded else "")


def _title(work: Workload) -> str:
    shape = f"B{work.batch} H{work.heads} N{work.seqlen_k} d{work.d}"
    return f"{shape} {work.dtype.name}" + ("" if work.causal is Causal.NONE else " causal")
