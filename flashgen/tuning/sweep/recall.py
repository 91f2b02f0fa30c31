"""A result from a record alone: what `flashgen tune show` shows, also of other machines and other versions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import make_dataclass
from pathlib import Path
from typing import Any

from flashgen.errors import SpecError
from flashgen.families import FAMILIES, family_named
from flashgen.families.base import Family
from flashgen.spec import AttentionSpec
from flashgen.target import Target, parse_target
from flashgen.tile_plan import Footprint, TilePlan
from flashgen.tuning.records.plans import plan_from, plan_key, spec_from
from flashgen.tuning.records.record import Record, RecordFile
from flashgen.tuning.records.validity import place_of
from flashgen.tuning.sweep.book import recall
from flashgen.tuning.sweep.conclusion import Task, conclude
from flashgen.tuning.sweep.request import Request
from flashgen.tuning.sweep.result import TuneResult
from flashgen.tuning.sweep.shape import Shape
from flashgen.tuning.sweep.space import DEFAULT, RULE, Candidate, Space, label_of
from flashgen.tuning.sweep.trial import Trial

UNFINISHED = "unfinished"


def result_of(path: Path) -> TuneResult:
    """What a record holds.

    Raises:
        SpecError: it cannot be read, or is of a family or target that this flashgen does not know.
    """
    record = RecordFile(path).read()
    if record is None:
        raise SpecError(f"{path} is no tuning record.")
    try:
        request, shape = _request(record.request), Shape(**record.request["shape"])
        candidates = tuple(_candidates(record, request))
    except (KeyError, TypeError, ValueError) as error:
        raise SpecError(f"The tuning record {path} makes no sense: {error}.") from error
    trials = [Trial(candidate) for candidate in candidates]
    recall(record, trials)
    place = place_of(record.valid_for)
    task = Task(request, shape, Space(candidates, ()), record.valid_for, place, 0.0)
    how = record.valid_for.get("how", "measured")
    stopped_by = str(record.result["stopped_by"]) if record.result else UNFINISHED
    return TuneResult(request, (conclude(task, trials, path, how, stopped_by, 0.0, 0),))


def request_facts(data: Mapping[str, Any]) -> tuple[AttentionSpec, Target, Family]:
    """Spec, target and family of a record's request.

    Raises:
        SpecError, KeyError: it has none that are known here.
    """
    name = data["family"]
    if name not in {family.name for family in FAMILIES}:
        raise SpecError(f"Family {name!r} is not known to this flashgen.")
    return spec_from(data["spec"]), parse_target(data["target"]), family_named(name)


def _request(data: Mapping[str, Any]) -> Request:
    spec, target, family = request_facts(data)
    return Request(spec, target, family, data["sram_bytes"])


def _candidates(record: Record, request: Request) -> list[Candidate]:
    """The plans that the record tells of, the default first."""
    data = {plan_key(record.request["default"]): record.request["default"]}
    roles = dict.fromkeys(data, (DEFAULT,))
    rule = record.request["rule"]
    if rule is not None:
        data.setdefault(plan_key(rule), rule)
        roles[plan_key(rule)] = (*roles.get(plan_key(rule), ()), RULE)
    data |= {key: plan for key, plan in record.plans.items() if key not in data}
    return [_candidate(plan, roles.get(key, ()), request) for key, plan in data.items()]


def _candidate(data: Mapping[str, Any], roles: tuple[str, ...], request: Request) -> Candidate:
    plan = plan_from(data, request.family, request.spec, request.target, onchip_bytes=1 << 62)
    if plan is not None:
        return Candidate(plan, label_of(request.family, plan), roles)
    # One that the family had once: its knobs are kept as they are written.
    words = ", ".join(f"{name} {value}" for name, value in data["knobs"].items())
    knobs = make_dataclass("FormerKnobs", data["knobs"], frozen=True)(**data["knobs"])
    lost = TilePlan(request.family.name, data["br"], data["bc"], knobs, Footprint(()), "tuned")
    return Candidate(lost, f"{data['br']} x {data['bc']}" + (f", {words}" if words else ""), roles)
