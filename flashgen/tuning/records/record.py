"""A record: what one sweep did, a JSON object on each line, written as it happens.

The first line is the header: what was asked for, and everything that the results are valid for. Each later
line tells one thing::

    {"turns": {"plan": {...}, "stage": "screening", "seconds": [...], "reference": [...]}}
    {"failed": {"plan": {...}, "kind": "crash", "reason": "..."}}
    {"restart": {"reason": "..."}}
    {"predicted": {"plan": {...}, "seconds": ..., ...}}
    {"result": {...}}

Lines are appended by one write and flushed to disk, so a sweep that is killed loses at most the turns since the last
write; a reader skips what it cannot read.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flashgen.compilation.lock import hold
from flashgen.log import logger
from flashgen.tuning.records.plans import plan_key

SCHEMA = 1
_RESULT = '{"result":'
_LOCK_SECONDS = 30.0
Line = dict[str, Any]


@dataclass(slots=True)
class Record:
    """A record, read.

    Attributes:
        request: of the header: family, spec, target, sram_bytes, shape, bucket.
        valid_for: of the header: labelled facts.
        created: of the header: UTC.
        plans: plan key -> its choices, of every plan that a line tells of.
        turns: plan key -> stage -> (seconds, seconds of the reference beside them), in order.
        failures: plan key -> the line's object.
        predictions: plan key -> the line's object.
        result: the last result, or None while the sweep is not at its end.
    """

    request: Mapping[str, Any]
    valid_for: Mapping[str, str]
    created: str
    plans: dict[str, dict[str, Any]] = field(default_factory=dict)
    turns: dict[str, dict[str, list[tuple[float, float]]]] = field(default_factory=dict)
    failures: dict[str, Line] = field(default_factory=dict)
    predictions: dict[str, Line] = field(default_factory=dict)
    result: Line | None = None

    def take(self, line: Line) -> None:
        """Adds what a line tells; lines of a kind that is not known say nothing."""
        for kind, data in line.items():
            if kind == "turns":
                pairs = zip(data["seconds"], data["reference"], strict=True)
                stages = self.turns.setdefault(self._key(data), {})
                stages.setdefault(data["stage"], []).extend((float(a), float(b)) for a, b in pairs)
            elif kind == "failed":
                self.failures[self._key(data)] = data
            elif kind == "restart":  # what turns were compared with is gone
                self.turns.clear()
            elif kind == "predicted":
                self.predictions[self._key(data)] = data
            elif kind == "result":
                self.result = data

    def _key(self, data: Line) -> str:
        key = plan_key(data["plan"])
        self.plans.setdefault(key, data["plan"])
        return key


class RecordFile:
    """A record on disk. One sweep writes it; anybody reads it."""

    def __init__(self, path: Path) -> None:
        """Names the file; nothing is opened."""
        self.path = path

    def read(self) -> Record | None:
        """The record; None if there is none, or its header cannot be read."""
        return self._parsed(self._text())

    def conclusion(self) -> Record | None:
        """The record's header and last result, without the hundreds of lines between them: what builds ask for."""
        header, _, rest = self._text().partition("\n")
        start = rest.rfind(_RESULT)
        return self._parsed(header + "\n" + (rest[start:] if start >= 0 else ""))

    def start(self, request: Mapping[str, Any], valid_for: Mapping[str, str], created: str) -> None:
        """Begins the record anew, in one step. Raises OSError if the directory cannot be written."""
        header = {"record": SCHEMA, "request": dict(request), "valid_for": dict(valid_for), "created": created}
        self.replace([header])

    def replace(self, lines: list[Line]) -> None:
        """Writes a whole record, in one step. Raises OSError if the directory cannot be written."""
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with hold(self._lock, _LOCK_SECONDS):
            handle, temporary = tempfile.mkstemp(prefix=f".{self.path.name}.", dir=self.path.parent)
            try:
                with os.fdopen(handle, "w", encoding="utf-8") as stream:
                    stream.writelines(_encode(line) for line in lines)
                    stream.flush()
                    os.fsync(stream.fileno())
                os.replace(temporary, self.path)
            except BaseException:
                Path(temporary).unlink(missing_ok=True)
                raise

    def append(self, *lines: Line) -> None:
        """Adds lines at the end, in one write. Raises OSError if the file is gone or cannot be written."""
        with hold(self._lock, _LOCK_SECONDS), open(self.path, "ab+", opener=_existing) as stream:
            text = "".join(map(_encode, lines)).encode()
            end = stream.seek(0, os.SEEK_END)
            if end and _last_byte(stream.fileno(), end) != b"\n":  # a writer was killed in the middle of a line
                text = b"\n" + text
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())

    def remove(self) -> None:
        """Deletes the record and its lock."""
        with hold(self._lock, _LOCK_SECONDS):
            self.path.unlink(missing_ok=True)
            self._lock.unlink(missing_ok=True)

    def lines(self) -> list[Line]:
        """All lines that can be read, the header first."""
        return list(self._lines(self._text()))

    @property
    def _lock(self) -> Path:
        return self.path.with_suffix(".lock")

    def _text(self) -> str:
        try:
            return self.path.read_bytes().decode("utf-8", errors="replace")
        except OSError:
            return ""

    def _parsed(self, text: str) -> Record | None:
        lines = self._lines(text)
        try:
            header = next(lines, None)
            return None if header is None else _read(header, lines)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            logger.warning("The tuning record %s cannot be read (%s) and is ignored.", self.path, error)
            return None

    def _lines(self, text: str) -> Iterator[Line]:
        for number, line in enumerate(text.split("\n"), start=1):
            if not line.strip():
                continue
            try:
                data = json.loads(line)
                if not isinstance(data, dict):
                    raise ValueError("it is no object")
            except (ValueError, RecursionError) as error:
                logger.debug("%s, line %d: skipped (%s)", self.path, number, error)
                if number == 1:
                    return
            else:
                yield data


def _read(header: Line, lines: Iterator[Line]) -> Record:
    if header["record"] != SCHEMA:
        raise ValueError(f"it is of format {header['record']!r}, not {SCHEMA}")
    record = Record(dict(header["request"]), dict(header["valid_for"]), str(header["created"]))
    for line in lines:
        try:
            record.take(line)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            logger.debug("a line of a tuning record was skipped (%s)", error)
    return record


def _encode(line: Line) -> str:
    return json.dumps(line, separators=(",", ":")) + "\n"


def _existing(path: str, flags: int) -> int:
    """Opens a file that is there: one without a header would be no record."""
    return os.open(path, flags & ~os.O_CREAT)


def _last_byte(descriptor: int, size: int) -> bytes:
    return os.pread(descriptor, 1, size - 1)
