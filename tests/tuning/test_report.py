"""The map, the page and the picture of a replayed sweep."""

from __future__ import annotations

import builtins
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, ClassVar

import pytest
from tuning_stage import DEFAULT, FAMILY, OTHERS, RULE, SPEC, TARGET, key, make_book, run, small_space

from flashgen.tuning.report.files import write_report
from flashgen.tuning.report.heatmap import ALL_KNOBS, FAILED, MEASURED, PRUNED, UNTRIED, heat_maps
from flashgen.tuning.report.page import report_page
from flashgen.tuning.sweep.replay import ReplayRunner
from flashgen.tuning.sweep.request import Request
from flashgen.tuning.sweep.result import ShapeResult, TuneResult
from flashgen.tuning.sweep.space import Pruned, Space
from flashgen.tuning.sweep.trial import CRASH, Failure

REQUEST = Request(SPEC, TARGET, FAMILY)
NASTY = '<script>alert("x")</script> & SIGSEGV'


@pytest.fixture
def result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ShapeResult:
    """All kinds of trials: chosen, default, rule, failed, pruned, not tried."""
    outcomes: dict[str, Any] = {key(*tile): [1.1] for tile in OTHERS}
    outcomes |= {key(*DEFAULT): [1.0], key(*RULE): [2.0], key(64, 32): [0.5], key(32, 32): Failure(CRASH, NASTY)}
    plain = small_space()
    pruned = Pruned({"br": 128, "bc": 128, "knobs": {}}, "128 x 128", "it takes 9 bytes on chip of 8")
    space = Space(plain.candidates, (pruned,))
    return run(ReplayRunner(outcomes), make_book(tmp_path, monkeypatch), space=space)


def test_the_map_holds_every_tile_with_its_ratio_or_its_fate(result: ShapeResult) -> None:
    (found,) = heat_maps(result, REQUEST)
    assert found.name == ALL_KNOBS
    assert (found.br, found.bc) == ((8, 16, 32, 64, 128), (16, 32, 64, 128))
    assert found.cells[64, 32].ratio == 0.5
    assert found.cells[64, 32].marks == ("chosen",)
    assert found.cells[DEFAULT].ratio == 1.0
    assert found.cells[RULE].marks == ("rule",)
    assert found.cells[32, 32].state == FAILED
    assert found.cells[128, 128].state == PRUNED
    assert (16, 128) not in found.cells
    assert found.heat(found.cells[64, 32]) == 1.0
    assert 0 <= found.heat(found.cells[RULE]) < 0.5


def test_small_differences_do_not_take_the_whole_scale(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outcomes: dict[str, Any] = {candidate.key: [1.0] for candidate in small_space().candidates}
    result = run(ReplayRunner(outcomes | {key(64, 64): [1.01]}), make_book(tmp_path, monkeypatch))
    (found,) = heat_maps(result, REQUEST)
    assert (found.low, found.high) == (1.0, pytest.approx(1.1))


def test_plans_that_were_not_tried_are_on_the_map(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outcomes: dict[str, Any] = {candidate.key: [1.0] for candidate in small_space().candidates}
    runner = ReplayRunner(outcomes, compile_seconds=1.0)
    result = run(runner, make_book(tmp_path, monkeypatch), seconds=0.0)
    states = [cell.state for cell in heat_maps(result, REQUEST)[0].cells.values()]
    assert states.count(MEASURED) == 1
    assert states.count(UNTRIED) == 7


class Tags(HTMLParser):
    """Checks that every element is closed, and collects texts and references."""

    VOID: ClassVar = {"meta", "link", "br", "option"}

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.texts: list[str] = []
        self.references: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.references += [value or "" for name, value in attributes if name in ("src", "href")]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_the_page_is_whole_self_contained_and_escapes_what_it_quotes(result: ShapeResult) -> None:
    page = report_page(TuneResult(REQUEST, (result,)))
    tags = Tags()
    tags.feed(page)
    text = " ".join(" ".join(tags.texts).split())
    assert tags.open == []
    assert tags.references == ["data:,"]
    assert NASTY not in page
    assert NASTY in text
    assert result.verdict[1:] in text
    assert "Regret of the M/4d rule: its own plan, 8 x 64, takes 300.0% more time." in text
    assert "test bench" in text
    assert ">measured</span>" in page
    assert page.count('class="ranking"') == 1


def test_a_predicted_result_never_says_measured(result: ShapeResult) -> None:
    from dataclasses import replace

    page = report_page(TuneResult(REQUEST, (replace(result, how="predicted"),)))
    assert ">predicted</span>" in page
    assert ">measured</span>" not in page
    assert "Nothing here was measured" in page


def test_the_files_are_a_page_and_a_picture_for_each_shape(result: ShapeResult, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    files, excuse = write_report(TuneResult(REQUEST, (result,)), tmp_path / "deep" / "out")
    assert excuse == ""
    assert [path.name for path in files] == [
        "autotune_cpu_fa1_d8_fp32_x86-64-v3.html",
        "autotune_cpu_fa1_d8_fp32_x86-64-v3_h2_q64_k64.png",
    ]
    assert files[1].read_bytes().startswith(b"\x89PNG")


def test_without_matplotlib_there_is_a_page_and_a_hint(
    result: ShapeResult, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = builtins.__import__

    def refuse(name: str, *arguments: Any) -> Any:
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return original(name, *arguments)

    monkeypatch.setattr(builtins, "__import__", refuse)
    files, excuse = write_report(TuneResult(REQUEST, (result,)), tmp_path)
    assert [path.suffix for path in files] == [".html"]
    assert "pip install 'flashgen[plot]'" in excuse
