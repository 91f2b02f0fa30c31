"""`flashgen bench --decode`: how near few query rows come to what memory gives."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flashgen.dtypes import parse_dtype

if TYPE_CHECKING:
    from flashgen.measure.decode import DecodeResult, DecodeWorkload


def run_decode(
    lengths: list[int],
    seqlen_q: int,
    d: int,
    heads: int,
    heads_kv: int,
    batch: int,
    dtypes: list[str],
    algorithms: list[str],
    target: str,
    rounds: int,
    as_json: bool,
) -> None:
    """Times one step of decoding for each length of the KV cache and dtype, and prints the result."""
    from rich.progress import Progress

    from flashgen.cli.output import console, print_json
    from flashgen.measure.decode import DecodeWorkload, bench_decode, turns

    workloads = [
        DecodeWorkload(batch, heads, heads_kv, seqlen_q, n, d, parse_dtype(dtype)) for dtype in dtypes for n in lengths
    ]
    shown = console()
    with Progress(console=shown, transient=True, disable=as_json or not shown.is_terminal) as bar:
        task = bar.add_task("timing", total=turns(workloads, algorithms, rounds))
        result = bench_decode(workloads, algorithms, target=target, rounds=rounds, progress=lambda: bar.advance(task))
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
    out.print(f"{data['machine']}, {data['threads']} threads")
    columns = ["median us", "spread", "GB/s of K, V", "memory GB/s", "of it", "vs torch SDPA"]
    table = Table()
    table.add_column("kernel", no_wrap=True)
    for column in columns:
        table.add_column(column, justify="right")
    previous = None
    for row in result.rows:
        if row.workload != previous:
            table.add_section()
            state = "cold" if row.is_cold else "partly cached"
            title = f"{_title(row.workload)}, {row.sets} x {row.workload.kv_bytes / 1e6:.1f} MB in turn, {state}"
            table.add_row(f"[bold]{title}[/]", *[""] * len(columns))
        previous = row.workload
        table.add_row(
            row.name,
            f"{row.timing.median_s * 1e6:,.0f}",
            spread_text(row.timing),
            f"{row.gbytes_per_s:.1f}",
            f"{row.read_gbytes_per_s:.1f}",
            f"{row.read_fraction:.0%}",
            ratio_text(row.ratio_to_sdpa),
        )
    out.print(table)
    note = disturbance([row.timing for row in result.rows])
    if note:
        out.print(note)


def _title(work: DecodeWorkload) -> str:
    heads = f"H{work.heads}" + (f"/{work.heads_kv}" if work.heads_kv != work.heads else "")
    return f"B{work.batch} {heads} {work.seqlen_q} x {work.seqlen_k:,} d{work.d} {work.dtype.name}"
