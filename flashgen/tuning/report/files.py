"""The files that a sweep leaves for people: a page for all, a picture for each shape."""

from __future__ import annotations

from pathlib import Path

from flashgen.errors import ToolchainError
from flashgen.tuning.records.plans import spec_slug
from flashgen.tuning.report.heatmap import heat_maps
from flashgen.tuning.report.page import report_page
from flashgen.tuning.report.picture import write_picture
from flashgen.tuning.sweep.result import ShapeResult, TuneResult


def write_report(result: TuneResult, directory: Path) -> tuple[list[Path], str]:
    """Writes ``autotune_....html`` and, for each shape, ``autotune_..._<bucket>.png`` into a directory.

    Returns:
        The files, the page first; and why there are no pictures, or an empty text.

    Raises:
        OSError: the directory cannot be written.
    """
    directory.mkdir(parents=True, exist_ok=True)
    stem = _stem(result)
    files, excuse = [directory / f"{stem}.html"], ""
    files[0].write_text(report_page(result), encoding="utf-8")
    for shape in result.shapes:
        path = directory / f"{stem}_{shape.bucket.name}.png"
        try:
            write_picture(heat_maps(shape, result.request)[0], path, _title(result, shape), _note(shape))
            files.append(path)
        except ToolchainError as error:
            excuse = str(error)
    return files, excuse


def _stem(result: TuneResult) -> str:
    request = result.request
    budget = "" if request.sram_bytes is None else f"_sram{request.sram_bytes}"
    return f"autotune_{'_'.join(result.families)}_{spec_slug(request.spec)}{budget}_{request.target.arch}"


def _title(result: TuneResult, shape: ShapeResult) -> str:
    return f"{shape.family.name}, {result.request.spec.summary}, {shape.shape.label} ({shape.how})"


def _note(shape: ShapeResult) -> str:
    machine = shape.valid_for.get("device", "")
    chosen = shape.chosen.candidate.label
    return f"{machine} · ★ chosen: {chosen} · D default · R the M/4d rule's plan · × failed · – does not fit"
