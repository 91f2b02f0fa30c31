"""The explain page in a real browser."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from flashgen.cli.main import main


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("algorithm", ["standard", "fa1", "fa2"])
def test_choosing_a_line_lights_its_code(algorithm, language, page, tmp_path):
    path = tmp_path / "page.html"
    arguments = ["explain", "--algorithm", algorithm, "--lang", language, "--target", "cpu:x86-64-v3"]
    assert CliRunner().invoke(main, [*arguments, "--out", str(path)]).exit_code == 0
    page.open(path, 1440, 900)
    lines = page.js("document.querySelectorAll('.line').length")
    for number in range(1, lines + 1):
        page.js(f"document.querySelector('#line-{number} .show').click()")
        lit = page.js("document.querySelectorAll('.row.live').length")
        spans = page.js(f"document.querySelector('#line-{number}').dataset.spans.trim().split(' ').filter(Boolean)")
        ranges = [range(int(a), int(b) + 1) for a, b in (span.split("-") for span in spans)]
        assert lit == len(set().union(*ranges)) > 0
    assert page.complaints() == []


@pytest.mark.parametrize("size", [(1440, 900), (390, 844)], ids=["desktop", "phone"])
def test_the_page_does_not_scroll_sideways(size, page, tmp_path):
    path = tmp_path / "page.html"
    arguments = ["explain", "--target", "sm_80", "--out", str(path)]
    assert CliRunner().invoke(main, arguments).exit_code == 0
    page.open(path, *size, dark=True)
    assert page.js("document.documentElement.scrollWidth <= innerWidth")
