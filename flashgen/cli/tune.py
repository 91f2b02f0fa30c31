"""`flashgen tune`: what autotune has found."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flashgen.cli.options import json_option

if TYPE_CHECKING:
    from flashgen.tuning.records.archive import Kept


@click.group()
def tune() -> None:
    """Look at, carry and drop what flashgen autotune has found.

    \b
    Example:
      flashgen tune list
      flashgen tune show 3f2a
      flashgen tune export epyc.json
    """


@tune.command(name="list")
@json_option
def list_records(as_json: bool) -> None:
    """List the tuning records: for what, what was found, and whether builds here use it.

    \b
    Example:
      flashgen tune list
    """
    from flashgen.cli.output import print_json
    from flashgen.cli.tune_tables import print_records
    from flashgen.tuning.records.archive import kept_records
    from flashgen.tuning.records.directory import tuning_directory

    records = kept_records()
    if as_json:
        print_json({"directory": str(tuning_directory()), "records": [_as_json(kept) for kept in records]})
    else:
        print_records(records)


@tune.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@json_option
def show(names: tuple[str, ...], as_json: bool) -> None:
    """Show records whole: every plan, and what the record is valid for. A name may be shortened.

    \b
    Example:
      flashgen tune show 3f2a
    """
    from flashgen.cli.output import print_json
    from flashgen.cli.tune_tables import print_record
    from flashgen.tuning.records.archive import kept_records
    from flashgen.tuning.sweep.recall import result_of

    found = [(kept, result_of(kept.entry.path)) for kept in kept_records(names)]
    if as_json:
        print_json({"records": [_as_json(kept) | result.as_dict() for kept, result in found]})
        return
    for kept, result in found:
        print_record(kept, result)


@tune.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.argument("names", nargs=-1, metavar="[NAME...]")
@json_option
def export(file: Path, names: tuple[str, ...], as_json: bool) -> None:
    """Write records to a file, all or those named, to import them on another machine of the same kind.

    \b
    Example:
      flashgen tune export epyc.json
    """
    from flashgen.cli.output import print_json
    from flashgen.tuning.records.archive import export_records, kept_records

    records = kept_records(names)
    file.write_text(export_records(records), encoding="utf-8")
    if as_json:
        print_json({"file": str(file), "records": len(records)})
    else:
        click.echo(f"{file}: {_count(len(records))}.")


@tune.command(name="import")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--replace", is_flag=True, help="Put them in the place of records that are here already.")
@json_option
def import_file(file: Path, replace: bool, as_json: bool) -> None:
    """Add records that were exported. Builds use them where they are valid, and only there.

    \b
    Example:
      flashgen tune import epyc.json
    """
    from flashgen.cli.output import print_json
    from flashgen.tuning.records.archive import import_records, kept_records

    done = import_records(file.read_text(encoding="utf-8", errors="replace"), replace=replace)
    new = {*done.added, *done.replaced}
    invalid = [kept for kept in kept_records() if kept.entry.path in new and kept.invalid_because]
    if as_json:
        counts = {"added": len(done.added), "replaced": len(done.replaced), "kept": len(done.kept)}
        print_json(counts | {"not_valid_here": len(invalid)})
        return
    click.echo(f"Added {_count(len(done.added))}, replaced {len(done.replaced)}.")
    if done.kept:
        click.echo(f"{len(done.kept)} were here already and are kept; --replace takes the imported ones.")
    for kept in invalid:
        click.echo(f"{kept.name} is not valid on this machine: {kept.invalid_because[0]}.")


@tune.command()
@click.argument("names", nargs=-1, metavar="[NAME...]")
@json_option
def clear(names: tuple[str, ...], as_json: bool) -> None:
    """Remove records, all or those named. Builds use the default plans again.

    \b
    Example:
      flashgen tune clear
      flashgen tune clear 3f2a
    """
    from flashgen.cli.output import print_json
    from flashgen.tuning.records.archive import kept_records, remove_records
    from flashgen.tuning.records.directory import tuning_directory
    from flashgen.units import format_bytes

    count, size = remove_records(kept_records(names))
    if as_json:
        print_json({"directory": str(tuning_directory()), "records": count, "bytes": size})
    else:
        click.echo(f"Removed {_count(count)} ({format_bytes(size)}) from {tuning_directory()}.")


def _as_json(kept: Kept) -> dict[str, Any]:
    return {
        "name": kept.name,
        "file": str(kept.entry.path),
        "created": kept.record.created,
        "request": dict(kept.record.request),
        "valid_for": dict(kept.record.valid_for),
        "valid_here": not kept.invalid_because,
        "invalid_because": list(kept.invalid_because),
        "result": kept.record.result,
    }


def _count(count: int) -> str:
    return f"{count} tuning record" + ("" if count == 1 else "s")
