"""`flashgen bench --decode`: how near few query rows come to what memory gives."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flashgen.dtypes import parse_dtype

if TYPE_CHECKING:
    from flashgen.measure.decode import DecodeResult, DecodeRow


def run_decode(
    lengths: list[int],
    seqlen_q: int,
    d: int,
    heads: int,
    heads_kv: int,
    batch: int,
    dtypes: list[str],
    algorithms: list[str],
    peers: str,
    target: str,
    rounds: int,
    as_json: bool,
) -> None:
    """Times one step of decoding for each length of the KV cache and dtype, and prints the result."""
    from rich.progress import Progress

    from flashgen.cli.output import console, print_json
    from flashgen.measure.decode import bench_decode, turns
    from flashgen.measure.peers import named_peers
    from flashgen.measure.workload import Workload

    others = named_peers(peers)
    workloads = [
        Workload(batch, heads, heads_kv, seqlen_q, n, d, d, parse_dtype(dtype)) for dtype in dtypes for n in lengths
    ]
    shown = console()
    with Progress(console=shown, transient=True, disable=as_json or not shown.is_terminal) as bar:
        task = bar.add_task("timing", total=turns(workloads, algorithms, rounds, others))
        result = bench_decode(
            workloads, algorithms, peers=others, target=target, rounds=rounds, progress=lambda: bar.advance(task)
        )
    if as_json:
        print_json(result.as_dict())
    else:
        print_decode(result)


def print_decode(result: DecodeResult) -> None:
    """Prints the table, and what to know when reading it."""
    from rich.table import Table

    from flashgen.cli.bench import disturbance, ratio_text, spread_text
    from flashgen.cli.output import console

    out, data = console(), result.as_dict()
    memory = max(row.read_gbytes_per_s for row in result.rows)
    out.print(f"{data['machine']}, {data['threads']} threads, memory reads {memory:.1f} GB/s")
    columns = ["us", "spread", "GB/s", "of memory's", "vs SDPA", "vs best peer"]
    table = Table()
    table.add_column("kernel", no_wrap=True)
    for column in columns:
        table.add_column(column, justify="right")
    previous = None
    for row in result.rows:
        if row.workload != previous:
            table.add_section()
            table.add_row(f"[bold]{_title(row)}[/]", *[""] * len(columns))
        previous = row.workload
        table.add_row(
            row.name,
            f"{row.timing.median_s * 1e6:,.0f}",
            spread_text(row.timing),
            f"{row.gbytes_per_s:.1f}",
            f"{row.read_fraction:.0%}",
            ratio_text(row.ratio_to_sdpa),
            ratio_text(row.ratio_to_best_peer),
        )
    out.print(table)
    for line in (*disturbance(result.foreign_cores, [row.timing for row in result.rows]), *result.absent):
        out.print(line, markup=False)


def _title(row: DecodeRow) -> str:
    work = row.workload
    heads = f"H{work.heads}" + (f"/{work.heads_kv}" if work.heads_kv != work.heads else "")
    state = "cold" if row.is_cold else "partly cached"
    return f"B{work.batch} {heads} {work.seqlen_q}x{work.seqlen_k:,} d{work.d} {work.dtype.name}, {state}"
