"""The sweep's own copy of its record: what was known at the start, and a line for everything that is added."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Any

from flashgen.log import logger, warn_once
from flashgen.tuning.records.directory import entries_in, record_path, remove_empty_directories
from flashgen.tuning.records.plans import plan_data, spec_data
from flashgen.tuning.records.record import Line, Record, RecordFile
from flashgen.tuning.records.validity import Validity
from flashgen.tuning.sweep.request import Request
from flashgen.tuning.sweep.shape import Shape
from flashgen.tuning.sweep.space import Space
from flashgen.tuning.sweep.trial import Failure, Trial

# Facts of a machine; the others (flashgen, templates, compilers) change on one and the same machine.
_MACHINE = ("how", "target", "device", "cpu model", "instructions", "threads", "cores", "onchip_bytes", "l2_bytes",
            "capability", "multiprocessors", "shared_bytes")  # fmt: skip


class Book:
    """One record during a sweep.

    Attributes:
        known: what the record held at the start; None for a new one.
        file: the record.
    """

    def __init__(
        self, request: Request, shape: Shape, space: Space, validity: Validity, *, fresh: bool = False
    ) -> None:
        """Opens the record of a request and shape, or begins it.

        Args:
            request: what is tuned.
            shape: for which calls.
            space: what there is to choose from; another default or rule makes another record.
            validity: what the results will be valid for.
            fresh: forget what an earlier sweep has measured.
        """
        family, spec, target = request.family.name, request.spec, request.target
        path = record_path(target, family, spec, shape.bucket(request.family), request.sram_bytes, validity)
        self.file = RecordFile(path)
        self._writable = True
        asked = _request_data(request, shape, space)
        found = None if fresh else self.file.read()
        same = found is not None and found.request == asked and found.valid_for == dict(validity)
        self.known = found if same else None
        if self.known is None:
            self._try(lambda: self.file.start(asked, validity, _now()))
        self._remove_superseded(request, shape, validity)

    def write(self, *lines: Line) -> None:
        """Adds lines; a directory that cannot be written costs the record, not the sweep."""
        self._try(lambda: self.file.append(*lines))

    def turns(self, stage: str, turns: Sequence[tuple[Trial, float, float]]) -> None:
        """Notes turns: whose, its seconds, and the reference's beside it."""
        self.write(*(
            {"turns": {
                "plan": plan_data(trial.candidate.plan), "stage": stage, "seconds": [mine], "reference": [beside],
            }}
            for trial, mine, beside in turns
        ))  # fmt: skip

    def failed(self, trial: Trial, failure: Failure) -> None:
        """Notes that a plan cannot be used, and why."""
        plan = plan_data(trial.candidate.plan)
        self.write({"failed": {"plan": plan, "kind": failure.kind, "reason": failure.reason}})

    def predicted(self, trial: Trial, seconds: float, details: dict[str, Any]) -> None:
        """Notes what the model expects of a plan."""
        plan = plan_data(trial.candidate.plan)
        self.write({"predicted": {"plan": plan, "seconds": seconds, "details": details}})

    def restart(self, reason: str) -> None:
        """Notes that earlier turns do not count: what they were compared with is gone."""
        self.write({"restart": {"reason": reason}})

    def result(self, data: Line) -> None:
        """Notes how the sweep ended."""
        self.write({"result": data | {"finished": _now()}})

    def recall(self, trials: Sequence[Trial]) -> None:
        """Gives trials what the record knew of their plans at the start."""
        if self.known is not None:
            recall(self.known, trials)

    def _try(self, action: Any) -> None:
        if not self._writable:
            return
        try:
            action()
        except OSError as error:
            self._writable = False
            why = error.strerror or error
            warn_once(f"The tuning record {self.file.path} cannot be written: {why}. Results are not kept.")

    def _remove_superseded(self, request: Request, shape: Shape, validity: Validity) -> None:
        """Drops this machine's records of the same request that were made with other compilers or templates."""
        for entry in entries_in(self.file.path.parent):
            same = entry.bucket == shape.bucket(request.family) and entry.sram_bytes == request.sram_bytes
            if not same or entry.path == self.file.path:
                continue
            record = RecordFile(entry.path).read()
            if record is None or all(record.valid_for.get(fact) == validity.get(fact) for fact in _MACHINE):
                logger.debug("removing a superseded tuning record: %s", entry.path)
                self._try(RecordFile(entry.path).remove)
                remove_empty_directories(entry.path)


def recall(record: Record, trials: Sequence[Trial]) -> None:
    """Gives trials what a record knows of their plans."""
    for trial in trials:
        key = trial.candidate.key
        failed, predicted = record.failures.get(key), record.predictions.get(key)
        if failed is not None:
            trial.failure = Failure(str(failed["kind"]), str(failed["reason"]))
        if predicted is not None:
            trial.predicted, trial.details = float(predicted["seconds"]), dict(predicted["details"])
        trial.turns = {stage: list(pairs) for stage, pairs in record.turns.get(key, {}).items()}


def known_result(record: Record | None) -> Line | None:
    """The result of a sweep that came to its own end, not to its time limit's; None if there is none."""
    result = None if record is None else record.result
    return result if result is not None and result.get("complete") else None


def _request_data(request: Request, shape: Shape, space: Space) -> dict[str, Any]:
    return {
        "family": request.family.name,
        "spec": spec_data(request.spec),
        "target": str(request.target),
        "sram_bytes": request.sram_bytes,
        "shape": shape.as_dict(),
        "bucket": shape.bucket(request.family).name,
        "default": plan_data(space.default.plan),
        "rule": None if space.rule is None else plan_data(space.rule.plan),
    }


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
