"""What a build asks: is there a tuned plan for these shapes, valid on this machine?

Without records the answer costs a look into the directory of each family that serves the build.
"""

from __future__ import annotations

from collections.abc import Iterable

from flashgen.errors import FlashgenError
from flashgen.families.base import Family
from flashgen.log import logger, warn_once
from flashgen.runtime.device import limits_of
from flashgen.spec import AttentionSpec
from flashgen.target import Target
from flashgen.tile_plan import TilePlan
from flashgen.tuning.records.bucket import Bucket
from flashgen.tuning.records.directory import Entry, entries_in, spec_directory
from flashgen.tuning.records.plans import plan_from
from flashgen.tuning.records.record import Record, RecordFile
from flashgen.tuning.records.validity import Validity, differences, digest, validity_here


def tuned_plans(spec: AttentionSpec, target: Target, family: Family, sram_bytes: int | None) -> dict[Bucket, TilePlan]:
    """Plans that beat the default, by shape bucket.

    A record made on another machine, by another flashgen or another compiler is ignored, and said so once.

    Args:
        spec: what is built.
        target: where.
        family: by which family.
        sram_bytes: the budget asked for; a record counts if it was made under the same one.
    """
    found = entries_in(spec_directory(target, family.name, spec))
    entries = [entry for entry in found if entry.sram_bytes == sram_bytes]
    if not entries:
        return {}
    try:
        here = validity_here(target)
    except FlashgenError as error:  # no compiler: the build itself will say so, unless it needs none
        logger.debug("tuning records are not used: %s", error)
        return {}
    valid, machine = {}, digest(here)
    for entry in (entry for entry in entries if entry.machine == machine):
        record = RecordFile(entry.path).conclusion()
        if record is not None and not differences(record.valid_for, here):
            valid[entry.bucket] = _plan(record, family, spec, target, sram_bytes)
    _tell_of_others((entry for entry in entries if entry.bucket not in valid), spec, here)
    return {bucket: plan for bucket, plan in valid.items() if plan is not None}


def _plan(
    record: Record, family: Family, spec: AttentionSpec, target: Target, sram_bytes: int | None
) -> TilePlan | None:
    """The plan that a record's result names; None if the default stands, or there is no result yet."""
    result = record.result
    if result is None or not result.get("replaces_default"):
        return None
    limit = limits_of(target).onchip_bytes if sram_bytes is None else sram_bytes
    try:
        plan = plan_from(
            result["chosen"],
            family,
            spec,
            target,
            onchip_bytes=limit,
            trail=(str(result["verdict"]),),
            sram_bytes=sram_bytes,
        )
    except (KeyError, TypeError) as error:
        logger.debug("a tuning result cannot be read (%s)", error)
        return None
    if plan is None:
        warn_once(
            f"A tuning record for {spec.summary} on {target} names a plan that {family.name} does not have any more; "
            "the default is used. Run flashgen autotune again."
        )
    return plan


def _tell_of_others(entries: Iterable[Entry], spec: AttentionSpec, here: Validity) -> None:
    for entry in entries:
        record = RecordFile(entry.path).conclusion()
        if record is None or record.result is None:
            continue
        reasons = "; ".join(differences(record.valid_for, here)[:3]) or "its name belongs to another machine"
        warn_once(
            f"A tuning record for {spec.summary} ({entry.bucket.summary}) is not valid here and is ignored: {reasons}. "
            "Run flashgen autotune on this machine, or flashgen tune clear."
        )
