"""What sweeps print: spaces, rankings, verdicts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from flashgen.cli.output import console, print_json
from flashgen.families.base import Family
from flashgen.tuning.records.plans import plan_data, spec_from
from flashgen.tuning.sweep.request import Request
from flashgen.tuning.sweep.result import ShapeResult, TuneResult
from flashgen.tuning.sweep.shape import Shape
from flashgen.tuning.sweep.space import Space
from flashgen.tuning.sweep.table import Row, columns_of, regret_text, rows_of

if TYPE_CHECKING:
    from flashgen.tuning.records.archive import Kept
    from flashgen.tuning.records.record import Record

_SHOWN = 12
_ENDINGS = {
    "confidence": "It ended because more rounds would not change the choice.",
    "all": "Every plan was predicted; none was measured.",
    "rounds": "It ended after the last round: the machine is too restless to tell the best plans apart.",
    "time limit": "The time limit ended it; the same command goes on from here.",
    "record": "Nothing was measured: an earlier sweep is complete. --fresh measures again.",
    "unfinished": "It was interrupted; flashgen autotune goes on from here.",
}


def print_result(result: TuneResult, shape: ShapeResult, limit: int | None = _SHOWN) -> None:
    """Prints one shape's ranking, verdict, regret and failures.

    Args:
        result: the whole.
        shape: the part to print.
        limit: rows to print, beside those of the default and the rule; None for all.
    """
    out = console()
    title = _title(result.request, shape.family, shape.shape)
    out.print(f"[bold]{title}[/] ({shape.how})", soft_wrap=True)
    rows = rows_of(shape, result.request)
    shown = [row for place, row in enumerate(rows) if limit is None or place < limit or row.marks]
    out.print(_ranking(shown, shape.how))
    if len(rows) > len(shown):
        out.print(f"{len(rows) - len(shown)} more plans are in the report, and in flashgen tune show.")
    _print_rest(out, shape)
    out.print(f"[bold]{escape(_sentence(shape.verdict))}[/]", soft_wrap=True)
    out.print(escape(regret_text(shape)), soft_wrap=True)


def print_spaces(asked: dict[str, Any], as_json: bool) -> None:
    """Lists the plans that a sweep would choose from, and what fell."""
    from flashgen.runtime.device import runs_here
    from flashgen.tuning.api import make_request, make_shape, space_for
    from flashgen.tuning.sweep.bench import Tools
    from flashgen.tuning.sweep.predictor import prune_by_ptxas
    from flashgen.tuning.sweep.runner import default_jobs

    names = ("d", "dtype", "causal", "d_v", "target", "algorithm", "sram")
    request = make_request(**{name: asked[name] for name in names})
    shapes = [make_shape(length, asked["batch"], asked["heads"], asked["heads_kv"]) for length in asked["seqlens"]]
    spaces = [(shape, *space_for(request, asked["algorithm"], shape)) for shape in shapes]
    if request.target.kind == "cuda" and not runs_here(request.target):
        jobs = asked["jobs"] or default_jobs()
        spaces = [(shape, own, prune_by_ptxas(space, own, Tools(), jobs)) for shape, own, space in spaces]
    if as_json:
        found = [_space_json(shape, own.family, space) for shape, own, space in spaces]
        print_json({"target": str(request.target), "shapes": found})
        return
    for shape, own, space in spaces:
        _print_space(own, shape, space)


def print_records(records: Sequence[Kept]) -> None:
    """Lists records, one row for each."""
    out = console()
    if not records:
        out.print("There are no tuning records. flashgen autotune makes them.")
        return
    table = Table("name", "what", "where", "shapes", "outcome", "used here")
    for kept in records:
        request = kept.record.request
        budget = f", {request['sram_bytes']:,} bytes" if request.get("sram_bytes") else ""
        table.add_row(
            kept.name,
            escape(f"{spec_from(request['spec']).summary}{budget}"),
            f"{request['target']}\n{request['family']}",
            kept.entry.bucket.summary.replace(", ", "\n"),
            escape(_outcome(kept.record)),
            escape(_used_here(kept)),
        )
    out.print(table)


def print_record(kept: Kept, result: TuneResult) -> None:
    """Prints a record whole."""
    out = console()
    for shape in result.shapes:
        print_result(result, shape, limit=None)
    out.print(f"record {kept.name}, {kept.record.created}: {kept.entry.path}", soft_wrap=True, markup=False)
    out.print("valid for:")
    for label, value in kept.record.valid_for.items():
        out.print(f"  {label:<20} {escape(value)}", soft_wrap=True)
    for reason in kept.invalid_because:
        out.print(f"[bold]not valid here[/]: {escape(reason)}", soft_wrap=True)


def _used_here(kept: Kept) -> str:
    """In few words; flashgen tune show has the rest."""
    if kept.invalid_because:
        fact, quoted, _ = kept.invalid_because[0].partition(" '")
        return f"no: other {fact}" if quoted else f"no: {fact}"
    return "yes" if kept.record.result else "no: unfinished"


def _outcome(record: Record) -> str:
    result = record.result
    if result is None:
        return "unfinished"
    how = f", {record.valid_for.get('how')}"
    if not result["replaces_default"]:
        return f"the default stands{how}"
    chosen, ratio = result["chosen"], result.get("ratio")
    return f"{chosen['br']} x {chosen['bc']}" + (f": {ratio[0]:.3f} of the default" if ratio else "") + how


def _print_space(request: Request, shape: Shape, space: Space) -> None:
    out = console()
    out.print(f"[bold]{_title(request, request.family, shape)}[/]", soft_wrap=True)
    table = Table("plan", "on chip", "")
    table.columns[1].justify = "right"
    for candidate in space.candidates:
        size = candidate.plan.footprint.total
        table.add_row(escape(candidate.label), f"{size:,}", ", ".join(candidate.roles))
    out.print(table)
    for fallen in space.pruned:
        out.print(f"pruned  {escape(fallen.label)}: {escape(fallen.reason)}", soft_wrap=True)
    out.print(f"{len(space.candidates)} plans to measure, {len(space.pruned)} pruned.")


def _space_json(shape: Shape, family: Family, space: Space) -> dict[str, Any]:
    return {
        "shape": shape.as_dict(),
        "family": family.name,
        "candidates": [
            {"label": candidate.label, **plan_data(candidate.plan), "roles": list(candidate.roles),
             "footprint_bytes": candidate.plan.footprint.total}
            for candidate in space.candidates
        ],
        "pruned": [{"label": fallen.label, **fallen.data, "reason": fallen.reason} for fallen in space.pruned],
    }  # fmt: skip


def _ranking(rows: list[Row], how: str) -> Table:
    table = Table()
    first, *others = columns_of(how)
    table.add_column(first)  # wraps where there is little room, so that no number is cut
    for column in others:
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("")
    for place, row in enumerate(rows):
        if place and row.trial.stage != rows[place - 1].trial.stage:
            table.add_section()  # below: only screened
        style = "bold green" if "chosen" in row.marks else None
        table.add_row(*(escape(cell) for cell in row.cells), ", ".join(row.marks), style=style)
    return table


def _print_rest(out: Console, shape: ShapeResult) -> None:
    """What has no place in the ranking: failures by kind, what was left out, how it ended."""
    kinds = Counter(trial.failure.kind for trial in shape.failures if trial.failure)
    for kind, count in kinds.items():
        first = next(trial for trial in shape.failures if trial.failure and trial.failure.kind == kind)
        reason = first.failure.reason if first.failure else ""
        others = f" and {count - 1} more" if count > 1 else ""
        out.print(f"[red]{kind}[/]: {escape(first.candidate.label)}{others}: {escape(reason)}", soft_wrap=True)
    left_out = [(len(shape.pruned), "pruned"), (len(shape.untried), "not tried")]
    counts = ", ".join(f"{count} {what}" for count, what in left_out if count)
    disturbed = f" Other work disturbed the machine {shape.discarded} times." if shape.discarded else ""
    took = f" {shape.seconds:.0f} s." if shape.seconds else ""
    out.print(
        f"{len(shape.trials)} plans{', ' + counts if counts else ''}.{took} {_ENDINGS[shape.stopped_by]}{disturbed}",
        soft_wrap=True,
    )


def _title(request: Request, family: Family, shape: Shape) -> str:
    budget = "" if request.sram_bytes is None else f", at most {request.sram_bytes:,} bytes on chip"
    return f"{request.spec.summary} on {request.target}, {family.name}{budget}, {shape.label}"


def _sentence(verdict: str) -> str:
    return verdict[0].upper() + verdict[1:] + "."
