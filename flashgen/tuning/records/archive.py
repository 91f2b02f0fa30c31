"""All records together: listed, found by a short name, taken elsewhere and back, removed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flashgen.errors import FlashgenError, SpecError
from flashgen.families import FAMILIES
from flashgen.target import parse_target
from flashgen.tuning.records.bucket import parse_bucket
from flashgen.tuning.records.directory import (
    Entry,
    all_entries,
    record_path,
    remove_empty_directories,
    tuning_directory,
)
from flashgen.tuning.records.plans import plan_key, spec_from
from flashgen.tuning.records.record import Line, Record, RecordFile
from flashgen.tuning.records.validity import Validity, differences, validity_here

_EXPORT = "flashgen_tuning_export"
_VERSION = 1


@dataclass(frozen=True, slots=True)
class Kept:
    """A record in the archive.

    Attributes:
        name: a short name that commands take.
        entry: its file.
        record: what it says.
        invalid_because: why builds on this machine do not use it; empty if they do.
    """

    name: str
    entry: Entry
    record: Record
    invalid_because: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Imported:
    """How an import went: files by what became of them."""

    added: tuple[Path, ...]
    replaced: tuple[Path, ...]
    kept: tuple[Path, ...]


def kept_records(names: Sequence[str] = ()) -> list[Kept]:
    """All records that can be read, or those of some names.

    Raises:
        SpecError: a name belongs to none, or to several.
    """
    here: dict[str, Validity | None] = {}
    found = []
    for entry in all_entries():
        record = RecordFile(entry.path).read()
        if record is not None:
            found.append(Kept(_name(entry.path), entry, record, _invalid_because(record, here)))
    if not names:
        return found
    return [_only(name, found) for name in dict.fromkeys(names)]


def export_records(records: Iterable[Kept]) -> str:
    """Records as one text, which `import_records` reads."""
    bundle = [RecordFile(kept.entry.path).lines() for kept in records]
    return json.dumps({_EXPORT: _VERSION, "records": bundle}, indent=1) + "\n"


def import_records(text: str, *, replace: bool = False) -> Imported:
    """Adds records that were exported, here or on another machine.

    They are used where they are valid, and only there. A record that is here already is kept.

    Args:
        text: what `export_records` gave.
        replace: put imported records in the place of those that are here.

    Raises:
        SpecError: the text is no export; nothing is added.
    """
    bundle = [(_path_of(lines), lines) for lines in _bundle(text)]
    added: list[Path] = []
    replaced: list[Path] = []
    kept: list[Path] = []
    for path, lines in bundle:
        there = RecordFile(path).read() is not None
        if there and not replace:
            kept.append(path)
            continue
        RecordFile(path).replace(lines)
        (replaced if there else added).append(path)
    return Imported(tuple(added), tuple(replaced), tuple(kept))


def remove_records(records: Iterable[Kept]) -> tuple[int, int]:
    """Removes records; returns how many, and their bytes."""
    count = size = 0
    for kept in records:
        path = kept.entry.path
        size += path.stat().st_size if path.exists() else 0
        count += 1
        RecordFile(path).remove()
        remove_empty_directories(path)
    return count, size


def _name(path: Path) -> str:
    return hashlib.sha256(path.relative_to(tuning_directory()).as_posix().encode()).hexdigest()[:8]


def _only(name: str, records: Sequence[Kept]) -> Kept:
    matching = [kept for kept in records if kept.name.startswith(name)] if name else []
    if len(matching) != 1:
        what = "Several tuning records are" if matching else "No tuning record is"
        raise SpecError(f"{what} called {name!r}. flashgen tune list shows their names.")
    return matching[0]


def _invalid_because(record: Record, here: dict[str, Validity | None]) -> tuple[str, ...]:
    """Differences to this machine; what it is is worked out once for each target."""
    target = str(record.request.get("target"))
    if target not in here:
        here[target] = _validity_of(target)
    machine = here[target]
    return ("no compiler for the target is here",) if machine is None else differences(record.valid_for, machine)


def _validity_of(target: str) -> Validity | None:
    try:
        return validity_here(parse_target(target))
    except FlashgenError:
        return None


def _bundle(text: str) -> list[list[Line]]:
    try:
        data = json.loads(text)
        if data[_EXPORT] != _VERSION:
            raise ValueError(f"version {data[_EXPORT]}")
        bundle: list[list[Line]] = data["records"]
        if not all(isinstance(line, dict) for lines in bundle for line in lines):
            raise ValueError("its records have no lines")
        return bundle
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise SpecError(f"This is no file that flashgen tune export has written ({error}).") from error


def _path_of(lines: Sequence[Line]) -> Path:
    """Where a record belongs: worked out from its header, never taken from the file that is imported."""
    try:
        header = lines[0]
        request: Mapping[str, Any] = header["request"]
        bucket = parse_bucket(request["bucket"])
        family, sram = request["family"], request["sram_bytes"]
        if bucket is None or family not in {known.name for known in FAMILIES}:
            raise ValueError(f"unknown family or bucket: {family}, {request['bucket']}")
        if not (sram is None or (isinstance(sram, int) and sram > 0)):
            raise ValueError("its budget makes no sense")
        plan_key(request["default"])
        valid_for = {str(label): str(value) for label, value in header["valid_for"].items()}
        return record_path(parse_target(request["target"]), family, spec_from(request["spec"]), bucket, sram, valid_for)
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        raise SpecError(f"The file holds a record that makes no sense: {error}.") from error
