"""The report: one self-contained page with the maps, the rankings, the failures, and how it was measured."""

from __future__ import annotations

from typing import Any

from flashgen.inspect.explain_texts import texts
from flashgen.render.environment import environment, templates_dir
from flashgen.tuning.report.heatmap import ALL_KNOBS, HeatMap, heat_maps
from flashgen.tuning.sweep.request import Request
from flashgen.tuning.sweep.result import ShapeResult, TuneResult
from flashgen.tuning.sweep.statistic import CONFIDENCE
from flashgen.tuning.sweep.table import Row, columns_of, regret_text, rows_of

SIGNS = {"chosen": "★", "default": "D", "rule": "R"}
# From here on a cell's colour asks for the other ink: in dark themes, and in all.
_WARM, _HOT = 0.65, 0.88


def report_page(result: TuneResult) -> str:
    """One self-contained HTML page for all shapes of a result."""
    request = result.request
    template = environment(templates_dir()).get_template("pages/autotune.html.j2")
    budget = "" if request.sram_bytes is None else f", at most {request.sram_bytes:,} bytes on chip"
    return template.render(
        ui=texts("en")["ui"],
        title=f"Autotune: {request.spec.summary}",
        subtitle=f"{', '.join(result.families)} on {request.target}{budget}",
        confidence=f"{CONFIDENCE:.0%}",
        difference=f"{request.difference:.0%}",
        signs=SIGNS,
        shapes=[_shape(shape, request) for shape in result.shapes],
    )


def _shape(result: ShapeResult, request: Request) -> dict[str, Any]:
    rows = rows_of(result, request)
    slowest = max((row.to_default or 1.0 for row in rows), default=1.0)
    return {
        "id": result.bucket.name,
        "label": result.shape.label,
        "bucket": result.bucket.summary,
        "how": result.how,
        "verdict": result.verdict[0].upper() + result.verdict[1:] + ".",
        "regret": regret_text(result),
        "counts": _counts(result),
        "maps": [_map(found) for found in heat_maps(result, request)],
        "columns": columns_of(result.how),
        "rows": [_row(row, slowest) for row in rows],
        "finalists": sum(row.trial.stage == "final" for row in rows),
        "failures": [
            {"label": trial.candidate.label, "kind": trial.failure.kind, "reason": trial.failure.reason}
            for trial in result.failures
            if trial.failure
        ],
        "pruned": [{"label": fallen.label, "reason": fallen.reason} for fallen in result.pruned],
        "facts": list(result.valid_for.items()),
        "discarded": result.discarded,
    }


def _counts(result: ShapeResult) -> list[tuple[str, str]]:
    timed = len(result.ranking)
    counts = [
        (result.how, f"{timed:,}"),
        ("failed", f"{len(result.failures):,}"),
        ("pruned", f"{len(result.pruned):,}"),
        ("not tried", f"{len(result.untried):,}"),
    ]
    return counts + ([("seconds", f"{result.seconds:.0f}")] if result.seconds else [])


def _map(found: HeatMap) -> dict[str, Any]:
    return {
        "name": found.name if found.name != ALL_KNOBS else f"best ({ALL_KNOBS})",
        "columns": found.bc,
        "low": f"{found.low:.2f}",
        "high": f"{found.high:.2f}",
        "rows": [
            {"br": br, "cells": [_cell(found, br, bc) for bc in found.bc]} for br in reversed(found.br)
        ],
    }  # fmt: skip


def _cell(found: HeatMap, br: int, bc: int) -> dict[str, Any]:
    cell = found.cells.get((br, bc))
    if cell is None:
        return {"state": "absent", "text": "", "title": "", "signs": "", "heat": 0, "ink": ""}
    heat = found.heat(cell) if cell.ratio is not None else 0.0
    text = f"{cell.ratio:.2f}" if cell.ratio is not None else {"failed": "×", "pruned": "–"}.get(cell.state, "")
    return {
        "state": cell.state.replace(" ", "-"),
        "text": text,
        "title": cell.title,
        "signs": "".join(SIGNS[mark] for mark in SIGNS if mark in cell.marks),
        "heat": round(heat, 3),
        "ink": "hot" if heat >= _HOT else "warm" if heat >= _WARM else "",
    }


def _row(row: Row, slowest: float) -> dict[str, Any]:
    interval = row.trial.ratio()
    sure = interval is not None and 0 < interval.low < interval.high < float("inf")
    return {
        "cells": row.cells,
        "marks": row.marks,
        "final": row.trial.stage == "final",
        "width": round(100 * (row.to_default or 0.0) / slowest, 1),
        "interval": f"{interval.low:.3f} to {interval.high:.3f}" if sure and interval else "",
    }
