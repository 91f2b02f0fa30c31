"""The report of a sweep in a real browser."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from flashgen.families import family_named
from flashgen.spec import make_spec
from flashgen.target import parse_target
from flashgen.tile_plan import TilePlan
from flashgen.tuning.report.page import report_page
from flashgen.tuning.sweep.conclusion import Task, conclude
from flashgen.tuning.sweep.request import Request
from flashgen.tuning.sweep.result import TuneResult
from flashgen.tuning.sweep.shape import Shape
from flashgen.tuning.sweep.space import Candidate, Space, label_of
from flashgen.tuning.sweep.trial import FINAL, SCREENING, Failure, Trial


@dataclass(frozen=True)
class Report:
    path: Path
    plans: int


@pytest.fixture
def report(tmp_path: Path) -> Report:
    """A sweep of cpu_fa2, with knobs, of which one plan failed."""
    family, spec, target = family_named("cpu_fa2"), make_spec(64, "fp32"), parse_target("cpu:x86-64-v4")
    candidates = []
    for br, bc in [(64, 128), (64, 64), (128, 64), (128, 128), (32, 256)]:
        for knobs in family.knob_choices(spec, target, br, bc):
            plan = TilePlan(family.name, br, bc, knobs, family.footprint(spec, br, bc, knobs), "tuned")
            roles = ("default",) if not candidates else ("rule",) if len(candidates) == 1 else ()
            candidates.append(Candidate(plan, label_of(family, plan), roles))
    trials = [Trial(candidate) for candidate in candidates]
    for number, trial in enumerate(trials):
        trial.turns = {SCREENING if number > 3 else FINAL: [(1.0 + 0.05 * number, 1.0)] * 9}
    trials[-1].failure = Failure("crash", "its process was killed by SIGSEGV")
    request, shape = Request(spec, target, family), Shape(1, 8, 8, 1024, 1024)
    task = Task(request, shape, Space(tuple(candidates), ()), {"device": "a CPU"}, "a CPU", 1.0)
    result = conclude(task, trials, tmp_path / "record", "measured", "confidence", 1.0, 0)
    path = tmp_path / "page.html"
    path.write_text(report_page(TuneResult(request, (result,))), encoding="utf-8")
    return Report(path, len(candidates))


def test_choosing_knobs_shows_their_map_alone(report, page):
    page.open(report.path, 1440, 900)
    shown = "[...document.querySelectorAll('.map')].filter((map) => !map.hidden).length"
    options = page.js("document.querySelectorAll('select.knobs option').length")
    assert options > 1
    for index in range(options):
        page.js(f"""(() => {{ const s = document.querySelector('select.knobs'); s.value = '{index}';
                     s.dispatchEvent(new Event('change')); }})()""")
        assert page.js(shown) == 1
        assert page.js("document.querySelector('.map:not([hidden])').dataset.map") == str(index)
    assert page.js("document.querySelectorAll('.ranking tbody tr').length") == report.plans - 1
    assert page.complaints() == []


@pytest.mark.parametrize("size", [(1440, 900), (390, 844)], ids=["desktop", "phone"])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_the_page_does_not_scroll_sideways_and_its_numbers_can_be_read(report, page, size, dark):
    page.open(report.path, *size, dark=dark)
    assert page.js("document.documentElement.scrollWidth <= innerWidth")
    contrast = """(() => {
      const canvas = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
      const light = (colour) => {
        canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
        const [r, g, b] = [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3).map((x) => x / 255)
          .map((x) => x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4);
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
      };
      return Math.min(...[...document.querySelectorAll('.map td.measured')].map((cell) => {
        const style = getComputedStyle(cell), a = light(style.color), b = light(style.backgroundColor);
        return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
      }));
    })()"""
    assert page.js(contrast) >= 3.5
    assert page.complaints() == []
