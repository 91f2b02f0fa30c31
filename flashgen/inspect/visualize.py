"""The page of `flashgen visualize`: a real run of a plan, stepped through in the browser.

The run is the reference executor's (trace.py). What the page needs of it is embedded as JSON: the matrices,
and for each step what moved and, if the problem is small enough to show numbers, what was set.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np

from flashgen.errors import SpecError
from flashgen.families import FAMILIES, family_named
from flashgen.families.base import Family, snap
from flashgen.inspect.explain_texts import algorithms, formula_html, prose_html, texts
from flashgen.inspect.io_kernel import kernel_ledger
from flashgen.inspect.io_ledger import Sizes
from flashgen.inspect.trace import Move, Run, Step
from flashgen.inspect.trace_run import execute
from flashgen.inspect.visualize_plan import SHOWN
from flashgen.reference import Array, attention_reference
from flashgen.render.environment import environment, templates_dir
from flashgen.spec import AttentionSpec
from flashgen.target import Target
from flashgen.tile_plan import TilePlan

# Up to these sizes a page shows every number; beyond, it shows blocks.
MAX_ROWS_WITH_NUMBERS, MAX_COLUMNS_WITH_NUMBERS = 16, 8
MAX_STEPS = 30_000


def visualize_page(
    spec: AttentionSpec,
    plan: TilePlan,
    target: Target,
    seqlen_q: int,
    seqlen_k: int,
    *,
    language: str = "en",
    seed: int = 0,
) -> str:
    """One self-contained HTML page.

    Args:
        spec: what is computed.
        plan: the tile.
        target: whose kernel is followed.
        seqlen_q: queries.
        seqlen_k: keys.
        language: ``en`` or ``zh``.
        seed: of the random inputs.

    Raises:
        SpecError: the run has more steps than a browser should be given.
    """
    numbers = _shows_numbers(spec, seqlen_q, seqlen_k)
    run, out = trace(spec, plan, seqlen_q, seqlen_k, seed=seed, keep_values=numbers)
    algorithm = family_named(plan.family).algorithm
    words = texts(language)["ui"] | texts(language)["visualize"] | texts(language)["script"]
    facts = {"n": seqlen_q, "nk": seqlen_k, "d": spec.head_dim, "br": plan.br, "bc": plan.bc}
    subtitle = words["subtitle" if numbers else "subtitle_grid"].format(**facts, family=plan.family, target=target)
    if family_named(plan.family).tile_refusal(spec, target, plan.br, plan.bc):
        subtitle += " " + words["no_such_tile"].format(**facts, family=plan.family)
    data = {
        **facts,
        "algorithm": algorithm,
        "numbers": numbers,
        "scale": float(run.scale),
        "visible": [run.blocks.visible(row) for row in range(seqlen_q)],
        "hbm": [_matrix(run, name, numbers) for name in _in_hbm(run)],
        "tiles": [list(tile) for tile in plan.footprint.tiles],
        "footprint": plan.footprint.total,
        "budget": plan.sram_bytes,
        "steps": [_step(step, numbers) for step in run.steps],
        "expected": _expected_bytes(spec, plan, target, seqlen_q, seqlen_k),
        "compared": _compared(spec, plan, target, seqlen_q, seqlen_k),
        "output": "out" if "out" in run.hbm else "O",
        **_verdict(run, out, numbers),
        "words": texts(language)["script"],
    }
    template = environment(templates_dir()).get_template("pages/visualize.html.j2")
    return template.render(
        language=language,
        title=texts(language)[algorithm]["title"],
        subtitle=subtitle,
        ui=words,
        lines=_lines(algorithm, language),
        data=_embedded(data),
        made_by=words["made_by"].format(filename=f"{plan.family}, {spec.summary}"),
    )


def trace(
    spec: AttentionSpec, plan: TilePlan, seqlen_q: int, seqlen_k: int, *, seed: int = 0, keep_values: bool = True
) -> tuple[Run, Array]:
    """The run that a page shows, and its output. Inputs are N(0, 1) with one decimal, to be read and checked.

    Raises:
        SpecError: it would have more than MAX_STEPS steps.
    """
    run = _new_run(spec, plan, seqlen_q, seqlen_k, seed, keep_values)
    per_visit = {"standard": 2, "fa1": 6, "fa2": 4}[family_named(plan.family).algorithm]
    expected = per_visit * run.blocks.tr * run.blocks.tc + (seqlen_q if per_visit == 2 else 0)
    if expected > MAX_STEPS:
        raise SpecError(
            f"{seqlen_q:,} x {seqlen_k:,} in {plan.br} x {plan.bc} tiles takes about {expected:,} steps, more than "
            f"a page can hold ({MAX_STEPS:,}). Use larger --br and --bc, or a smaller --n."
        )
    return run, execute(run)


def _new_run(spec: AttentionSpec, plan: TilePlan, seqlen_q: int, seqlen_k: int, seed: int, keep_values: bool) -> Run:
    rng = np.random.default_rng(seed)
    shapes = ((seqlen_q, spec.head_dim), (seqlen_k, spec.head_dim), (seqlen_k, spec.head_dim_v))
    q, k, v = (np.round(rng.standard_normal(shape), 1) for shape in shapes)
    return Run(spec, plan, q, k, v, keep_values=keep_values)


def _shows_numbers(spec: AttentionSpec, seqlen_q: int, seqlen_k: int) -> bool:
    rows, columns = max(seqlen_q, seqlen_k), max(spec.head_dim, spec.head_dim_v)
    return rows <= MAX_ROWS_WITH_NUMBERS and columns <= MAX_COLUMNS_WITH_NUMBERS


def _in_hbm(run: Run) -> list[str]:
    """Matrices that the run touches, Q, K and V first."""
    touched = {move.matrix for step in run.steps for move in step.moves}
    return [name for name in run.hbm if name in touched]


def _matrix(run: Run, name: str, numbers: bool) -> dict[str, Any]:
    values = run.hbm[name]
    axes = {"K": "k", "V": "k", "S": "qk", "P": "qk", "out": "none", "LSE": "none"}
    return {
        "name": name,
        "rows": values.shape[0],
        "columns": values.shape[1],
        "size": run.sizes[name],
        "blocks": axes.get(name, "q"),
        "values": _numbers(values) if numbers and name in ("Q", "K", "V") else None,
    }


def _step(step: Step, numbers: bool) -> dict[str, Any]:
    encoded: dict[str, Any] = {"line": step.number}
    for key, value in (("i", step.i), ("j", step.j), ("row", step.row)):
        if value is not None:
            encoded[key] = value
    if step.moves:
        encoded["moves"] = [_move(move, numbers) for move in step.moves]
    if numbers and step.chip:
        encoded["chip"] = {name: _numbers(value) for name, value in step.chip.items()}
    return encoded


def _move(move: Move, numbers: bool) -> list[Any]:
    where = [move.row0, move.rows, move.column0, move.columns]
    encoded = [move.matrix, move.direction, *where, move.elements * move.size]
    if numbers and move.values is not None:
        encoded.append(_numbers(move.values))
    return encoded


def _numbers(values: Array) -> list[list[float | str | None]]:
    """Numbers for JSON, which has no infinities: "-inf" for those, null for NaN."""
    return [[_number(float(x)) for x in row] for row in values]


def _number(x: float) -> float | str | None:
    if np.isnan(x):
        return None
    return float(f"{x:.9g}") if np.isfinite(x) else ("inf" if x > 0 else "-inf")


def _verdict(run: Run, out: Array, numbers: bool) -> dict[str, Any]:
    """The float64 output for the page to compare with, and the comparison itself where it has no numbers."""
    q, k, v = (run.hbm[name][None, None] for name in "QKV")
    exact, _ = attention_reference(q, k, v, causal=run.spec.causal)
    largest = float(np.max(np.abs(v), initial=1.0))
    return {
        "reference": [[float(x) for x in row] for row in exact[0, 0]] if numbers else None,
        "error": float(np.max(np.abs(out - exact[0, 0]), initial=0.0)),
        "tolerance": 16 * 2.0**-run.spec.dtype.mantissa_bits * largest,
    }


def _expected_bytes(spec: AttentionSpec, plan: TilePlan, target: Target, n: int, nk: int) -> dict[str, int]:
    ledger = kernel_ledger(spec, plan, target, Sizes(1, 1, n, nk))
    return {"read": ledger.read, "written": ledger.written}


def _compared(spec: AttentionSpec, plan: TilePlan, target: Target, n: int, nk: int) -> list[dict[str, Any]]:
    """Bytes of each algorithm that the target has, with this plan's tile."""
    rows = []
    for family in FAMILIES:
        if family.kind != target.kind or family.algorithm not in SHOWN or family.refusal(spec, target):
            continue
        same = replace(plan, family=family.name, knobs=_knobs(family, spec, target, plan))
        ledger = kernel_ledger(spec, same, target, Sizes(1, 1, n, nk))
        rows.append({"algorithm": family.algorithm, "bytes": ledger.total, "this": family.name == plan.family})
    return rows


def _knobs(family: Family, spec: AttentionSpec, target: Target, plan: TilePlan) -> Any:
    """The plan's knobs, or those that another family has for the nearest tile that it has."""
    if family.name == plan.family:
        return plan.knobs
    grid = family.grid(spec, target)
    return family.knobs(spec, target, snap(plan.br, grid.br), snap(plan.bc, grid.bc))


def _lines(algorithm: str, language: str) -> list[dict[str, Any]]:
    words = texts(language)[algorithm]
    return [
        {
            "number": entry["number"],
            "label": words["pass"].format(number=entry["number"]),
            "formula": formula_html(entry["formula"]),
            "meaning": prose_html(words[str(entry["number"])]),
        }
        for entry in algorithms()[algorithm]["lines"]
    ]


def _embedded(data: dict[str, Any]) -> str:
    """JSON that may stand inside a script element."""
    return json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
