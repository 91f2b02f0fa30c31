"""Where records are: ``<cache>/tuning/<target>/<family>/<spec>/<bucket>[_sram<bytes>].<machine>.jsonl``.

The last part of the name is a digest of what the record is valid for, so that machines that share a home directory
keep their records apart.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from flashgen.compilation.cache import cache_directory
from flashgen.spec import AttentionSpec
from flashgen.target import Target
from flashgen.tuning.records.bucket import Bucket, parse_bucket
from flashgen.tuning.records.plans import spec_slug
from flashgen.tuning.records.validity import Validity, digest, host_of_lock

_NAME = re.compile(r"(?P<bucket>[a-z]+\d+_[a-z]+\d+_k\d+)(?:_sram(?P<sram>\d+))?\.(?P<machine>[0-9a-f]{12})\.jsonl")


@dataclass(frozen=True, slots=True)
class Entry:
    """A record's file, as its name describes it.

    Attributes:
        path: the file.
        bucket: of the shapes that it is for.
        sram_bytes: the budget that it was made under, or None.
        machine: digest of what it is valid for.
    """

    path: Path
    bucket: Bucket
    sram_bytes: int | None
    machine: str


def tuning_directory() -> Path:
    """The directory of all records; it need not exist."""
    return cache_directory() / "tuning"


def spec_directory(target: Target, family: str, spec: AttentionSpec) -> Path:
    """The directory of the records that may serve a build."""
    return tuning_directory() / str(target).replace(":", "_") / family / spec_slug(spec)


def record_path(
    target: Target, family: str, spec: AttentionSpec, bucket: Bucket, sram_bytes: int | None, validity: Validity
) -> Path:
    """The file of one record."""
    budget = "" if sram_bytes is None else f"_sram{sram_bytes}"
    return spec_directory(target, family, spec) / f"{bucket.name}{budget}.{digest(validity)}.jsonl"


def entries_in(directory: Path) -> list[Entry]:
    """The records in a directory, by name; none if it cannot be read."""
    try:
        with os.scandir(directory) as found:
            names = sorted(item.name for item in found)
    except OSError:
        return []
    return [entry for entry in (_entry(directory / name) for name in names) if entry]


def all_entries() -> Iterator[Entry]:
    """Every record, by name."""
    for directory, subdirectories, _ in os.walk(tuning_directory()):
        subdirectories.sort()
        yield from entries_in(Path(directory))


def sweep_lock() -> Path:
    """The lock that lets one sweep at a time measure on this machine. Raises OSError if it cannot be made."""
    directory = tuning_directory()
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    return directory / f"sweep-{host_of_lock()}.lock"


def remove_empty_directories(path: Path) -> None:
    """Removes the directories above a removed record that hold nothing any more."""
    root = tuning_directory()
    with contextlib.suppress(OSError):
        for directory in path.parents:
            if directory == root or root not in directory.parents:
                return
            directory.rmdir()


def _entry(path: Path) -> Entry | None:
    match = _NAME.fullmatch(path.name)
    bucket = parse_bucket(match["bucket"]) if match else None
    if match is None or bucket is None:
        return None
    return Entry(path, bucket, int(match["sram"]) if match["sram"] else None, match["machine"])
