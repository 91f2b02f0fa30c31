"""Plans as JSON, and back: what comes back is a plan that the family has today, or nothing."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, is_dataclass
from typing import Any

from flashgen.families.base import Family
from flashgen.spec import AttentionSpec, Causal, make_spec
from flashgen.target import Target
from flashgen.tile_plan import TilePlan


def plan_data(plan: TilePlan) -> dict[str, Any]:
    """The choices that make a plan: br, bc and the knobs."""
    return {"br": plan.br, "bc": plan.bc, "knobs": dict(plan.knobs_dict)}


def plan_key(data: Mapping[str, Any]) -> str:
    """Names a plan within its family: equal choices, equal keys."""
    return f"{data['br']}x{data['bc']} {json.dumps(data['knobs'], sort_keys=True)}"


def key_of(plan: TilePlan) -> str:
    """`plan_key` of a plan."""
    return plan_key(plan_data(plan))


def plan_from(
    data: Mapping[str, Any],
    family: Family,
    spec: AttentionSpec,
    target: Target,
    *,
    onchip_bytes: int,
    trail: tuple[str, ...] = (),
    sram_bytes: int | None = None,
) -> TilePlan | None:
    """The tuned plan of a record; None if the family no longer has it or it exceeds the bytes allowed."""
    br, bc = data["br"], data["bc"]
    if not isinstance(br, int) or not isinstance(bc, int) or family.tile_refusal(spec, target, br, bc):
        return None
    for knobs in family.knob_choices(spec, target, br, bc):
        if _as_dict(knobs) == data["knobs"]:
            footprint = family.footprint(spec, br, bc, knobs)
            if footprint.total > onchip_bytes:
                return None
            return TilePlan(family.name, br, bc, knobs, footprint, "tuned", trail, sram_bytes)
    return None


def spec_data(spec: AttentionSpec) -> dict[str, Any]:
    """A spec as JSON."""
    causal = spec.causal.as_json
    return {"d": spec.head_dim, "dv": spec.head_dim_v, "dtype": spec.dtype.name, "causal": causal}


def spec_from(data: Mapping[str, Any]) -> AttentionSpec:
    """The spec of a record.

    Raises:
        SpecError: it makes no sense.
    """
    return make_spec(data["d"], data["dtype"], data["causal"], data["dv"])


def spec_slug(spec: AttentionSpec) -> str:
    """A spec in a directory's name."""
    dims = f"d{spec.head_dim}" + (f"_dv{spec.head_dim_v}" if spec.head_dim_v != spec.head_dim else "")
    return f"{dims}_{spec.dtype.name}" + ("" if spec.causal is Causal.NONE else f"_causal_{spec.causal.value}")


def _as_dict(knobs: Any) -> dict[str, Any]:
    return asdict(knobs) if is_dataclass(knobs) and not isinstance(knobs, type) else {}
