"""How `flashgen io` prints its ledgers."""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from flashgen.cli.output import console
from flashgen.inspect.io_counted import Counted
from flashgen.inspect.io_ledger import Ledger, Transfer
from flashgen.inspect.io_measured import Measured
from flashgen.inspect.io_report import Entry, IoRequest, Report
from flashgen.target import PRESETS
from flashgen.units import format_bytes

_LOOPS = {
    ("fa2", "line 4"): "outer loop, line 4",
    ("fa2", "line 7"): "inner loop, line 7",
    ("fa2", "line 14"): "outer loop, line 14",
    ("decode", "line 4"): "each split, line 4",
    ("decode", "line 12"): "each split, line 12",
    ("decode", "line 14"): "join, line 14",
}


def title(request: IoRequest) -> str:
    """The request in one line."""
    spec, sizes = request.spec, request.sizes
    keys = f", {sizes.seqlen_k:,} keys" if sizes.seqlen_k != sizes.seqlen_q else ""
    heads = f"{sizes.heads}, Hkv = {sizes.heads_kv}" if sizes.group > 1 else f"{sizes.heads}"
    where = f"kernels for {request.target}" if request.convention == "kernel" else "the paper's algorithms"
    passes = "forward and backward" if request.backward else "forward"
    return f"{spec.summary}, B = {sizes.batch}, H = {heads}, N = {sizes.seqlen_q:,}{keys}: {where}, {passes}"


def print_report(report: Report) -> None:
    """Prints the ledgers, then what bounds them, then the paper's figures."""
    out = console()
    out.print(title(report.request), soft_wrap=True)
    if report.request.sram_bytes is not None:
        out.print(f"on-chip memory {format_bytes(report.request.sram_bytes)}", soft_wrap=True)
    for entry in report.entries:
        out.print()
        _print_entry(out, entry)
    for algorithm, reason in report.skipped:
        out.print(f"\n[bold]{algorithm}[/] left out: {escape(reason)}", soft_wrap=True)
    _print_notes(out, report)
    _print_rooflines(out, report)
    for line in report.paper:
        out.print(f"\n{line}", soft_wrap=True)


def _print_entry(out: Console, entry: Entry) -> None:
    ledger = entry.ledger
    tile = f", tile Br {ledger.br} x Bc {ledger.bc}" if ledger.family or ledger.algorithm != "standard" else ""
    family = f" ({ledger.family})" if ledger.family else ""
    out.print(f"[bold]{ledger.algorithm}[/]{family}{tile}", soft_wrap=True)
    for remark in ledger.remarks:
        out.print(f"  {remark}", soft_wrap=True)
    table = Table()
    for column in ("", "matrix", "", f"per {ledger.unit}"):
        table.add_column(column)
    for column in _number_columns(entry):
        table.add_column(column, justify="right", no_wrap=True)
    for phase in dict.fromkeys(transfer.phase for transfer in ledger.transfers):
        table.add_section()
        if _has_phases(ledger):
            table.add_row(f"[dim]{phase}[/]", *[""] * (3 + len(_number_columns(entry))))
        _add_phase(table, entry, phase)
    _add_totals(table, entry)
    out.print(table)


def _number_columns(entry: Entry) -> tuple[str, ...]:
    """The columns of bytes; the last ones are left out where they would be empty."""
    if entry.measured.read is not None:
        return ("bytes", "counted", "measured")
    return ("bytes",) if entry.counted_total("read") is None else ("bytes", "counted")


def _has_phases(ledger: Ledger) -> bool:
    """Whether there is a backward pass to tell from the forward pass."""
    return any(transfer.phase == "backward" for transfer in ledger.transfers)


def _add_phase(table: Table, entry: Entry, phase: str) -> None:
    ledger, place = entry.ledger, ""
    for transfer in ledger.transfers:
        if transfer.phase != phase:
            continue
        numbers = (f"{transfer.bytes_per_head * ledger.heads:,}", _counted(entry, transfer), "")
        table.add_row(
            _LOOPS.get((ledger.algorithm, transfer.step), transfer.step) if transfer.step != place else "",
            transfer.matrix,
            transfer.direction,
            transfer.formula,
            *numbers[: len(_number_columns(entry))],
        )
        place = transfer.step


def _counted(entry: Entry, transfer: Transfer) -> str:
    """The bytes; where several matrices were counted together, their sum at the first and a mark at the rest."""
    count = entry.count_of(transfer)
    if count is None:
        return ""
    if transfer.key != count.keys[0]:
        return '"'
    names = "+".join(dict.fromkeys(key[2] for key in count.keys))
    return (f"{names}  " if len(count.keys) > 1 else "") + f"{count.bytes_per_head * entry.ledger.heads:,}"


def _add_totals(table: Table, entry: Entry) -> None:
    ledger = entry.ledger
    read, written = entry.counted_total("read"), entry.counted_total("write")
    seen = entry.measured
    table.add_section()
    for name, closed, found, real in (
        ("read", ledger.read, read, seen.read),
        ("written", ledger.written, written, seen.written),
        ("total", ledger.total, _sum(read, written), _sum(seen.read, seen.written)),
    ):
        numbers = [f"{closed:,}", *("" if value is None else f"{value:,}" for value in (found, real))]
        table.add_row(name, "", "", "", *numbers[: len(_number_columns(entry))])


def _sum(a: int | None, b: int | None) -> int | None:
    return None if a is None or b is None else a + b


def _print_notes(out: Console, report: Report) -> None:
    """Who counted, and what the empty columns would need."""
    columns_of: dict[str, list[str]] = {}
    for column, found in (
        pair for entry in report.entries for pair in (("counted", entry.counted), ("measured", entry.measured))
    ):
        columns = columns_of.setdefault(_note(found), [])
        if column not in columns:
            columns.append(column)
    out.print()
    for text, columns in columns_of.items():
        out.print(f"{' and '.join(columns)}: {text}", soft_wrap=True, markup=False)


def _note(found: Counted | Measured) -> str:
    by = f"by {found.by}" if found.by else ""
    return "; ".join(part for part in (by, found.reason) if part)


def _print_rooflines(out: Console, report: Report) -> None:
    entries = report.entries
    table = Table()
    for column in ("roofline", "unit", "ridge"):
        table.add_column(column, justify="right" if column == "ridge" else "left")
    for entry in entries:
        table.add_column(f"{entry.ledger.algorithm}, {entry.ledger.intensity:.1f}")
    known = False
    for rooflines in zip(*(entry.rooflines for entry in entries), strict=True):
        target = rooflines[0][0]
        for index, units in enumerate(zip(*(found for _, found in rooflines), strict=True)):
            known = True
            device = f"{target} ({PRESETS[target].device})" if index == 0 else ""
            table.add_row(device, units[0].unit, f"{units[0].ridge:.1f}", *(f"{unit.bound} bound" for unit in units))
    out.print()
    if known:
        out.print(table)
        out.print(
            "flop per byte: where the unit and the memory are even (ridge), and of each algorithm", soft_wrap=True
        )
    else:
        out.print(f"roofline: the peaks of {report.request.target} are not known", soft_wrap=True)
