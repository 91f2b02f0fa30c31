"""How results are printed: tables for people, JSON for machines."""

from __future__ import annotations

import json
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from flashgen.families import family_named
from flashgen.spec import AttentionSpec
from flashgen.target import Target
from flashgen.tile_plan import TilePlan


def console() -> Console:
    """A console on today's stdout; when piped, lines are not broken."""
    made = Console(highlight=False)
    if not made.is_terminal:
        made.width = 120
    return made


def print_json(data: dict[str, Any]) -> None:
    """Prints one JSON object."""
    click.echo(json.dumps(data, indent=2))


def plan_json(spec: AttentionSpec, target: Target, plan: TilePlan) -> dict[str, Any]:
    """A plan as JSON; the keys are stable and documented in docs/cli.md."""
    rule = plan.rule
    return {
        "target": str(target),
        "algorithm": family_named(plan.family).algorithm,
        "family": plan.family,
        "dtype": spec.dtype.name,
        "d": spec.head_dim,
        "dv": spec.head_dim_v,
        "causal": spec.causal.as_json,
        "sram_bytes": plan.sram_bytes,
        "m_elements": rule.m_elements if rule else None,
        "rule": {"br": rule.br, "bc": rule.bc} if rule else None,
        "br": plan.br,
        "bc": plan.bc,
        "knobs": dict(plan.knobs_dict),
        "origin": plan.origin,
        "footprint_bytes": plan.footprint.as_dict(),
        "trail": list(plan.trail),
    }


def print_plan(spec: AttentionSpec, target: Target, plan: TilePlan, asked_target: str) -> None:
    """Prints what was planned, how it came about, and the on-chip bytes against the budget."""
    out = console()
    family = family_named(plan.family)
    how = " (this machine; --target names another)" if asked_target in ("auto", "cpu") else ""
    out.print(f"[bold]{spec.summary}[/] on [bold]{target}[/]{how}")
    tile = f"tile [bold]Br {plan.br} x Bc {plan.bc}[/] ({plan.origin})"
    out.print(f"family {plan.family} (algorithm {family.algorithm}), {tile}")
    for line in plan.trail:
        out.print(f"  {line}")
    knobs = family.describe_knobs(plan.knobs)
    if knobs:
        out.print(f"  knobs: {knobs}")
    out.print(_footprint_table(plan))


def _footprint_table(plan: TilePlan) -> Table:
    budget = plan.sram_bytes
    table = Table()
    table.add_column("on chip")
    table.add_column("bytes", justify="right")
    table.add_column("of budget" if budget else "of total", justify="right")
    whole = budget or plan.footprint.total
    for name, size in plan.footprint.tiles:
        table.add_row(name, f"{size:,}", f"{size / whole:.1%}")
    table.add_section()
    table.add_row("total", f"{plan.footprint.total:,}", f"{plan.footprint.total / whole:.1%}")
    if budget:
        table.add_row("budget", f"{budget:,}", "")
    return table
