"""The visualisation in a real browser: no console error, plays to the end, ends at the right numbers."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from flashgen.cli.main import main

DESKTOP, PHONE = (1440, 900), (390, 844)
ARGUMENTS = {
    "standard": ["--algorithm", "standard", "--br", "4", "--bc", "4"],
    "fa1": ["--br", "2", "--bc", "4"],
    "fa1 causal": ["--br", "3", "--bc", "2", "--n", "7", "--causal"],
    "fa1 on a GPU": ["--target", "sm_80", "--br", "8", "--bc", "8", "--n", "16"],
    "fa2": ["--algorithm", "fa2", "--br", "2", "--bc", "4", "--causal"],
    "fa1, large": ["--n", "200", "--nk", "150", "--d", "64", "--br", "64", "--bc", "64", "--causal"],
}


def make_page(directory: Path, *arguments: str) -> Path:
    path = directory / "page.html"
    asked = list(arguments) if "--target" in arguments else ["--target", "cpu:x86-64-v3", *arguments]
    done = CliRunner().invoke(main, ["visualize", "--out", str(path), *asked])
    assert done.exit_code == 0, done.output
    return path


def embedded(path: Path) -> dict:
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', path.read_text())[1])


@pytest.mark.parametrize("name", ARGUMENTS)
def test_a_run_plays_to_the_end_and_ends_at_attention(name, page, tmp_path):
    path = make_page(tmp_path, *ARGUMENTS[name])
    data = embedded(path)
    page.open(path, *DESKTOP)
    page.js("document.getElementById('speed').value = '64'")
    page.click("#play")
    page.wait_until(f"document.getElementById('slider').value === '{len(data['steps'])}'")
    assert page.complaints() == []
    assert page.js("document.getElementById('result').className") == "good"
    error = float(re.search(r"([\d.]+e[+-]?\d+)", page.text("#result"))[1])
    assert error <= data["tolerance"]
    total = data["expected"]["read"] + data["expected"]["written"]
    assert page.text("#total-bytes") == f"{total:,}"
    assert "equal, to the byte" in page.text("#traffic")


def test_the_output_on_the_page_is_the_float64_attention(page, tmp_path):
    path = make_page(tmp_path, *ARGUMENTS["fa1"])
    data = embedded(path)
    page.open(path, *DESKTOP, fragment=f"#step={len(data['steps'])}")
    table = page.js(
        "[...document.querySelectorAll('#hbm table')].find((t) => t.caption.textContent.startsWith('out')).innerText"
    )
    numbers = [float(x.replace("−", "-")) for x in re.findall(r"−?\d+\.\d\d", table)]
    np.testing.assert_allclose(np.reshape(numbers, (8, 4)), data["reference"], atol=0.0051)


def test_steps_go_forth_and_back_by_buttons_keys_and_slider(page, tmp_path):
    page.open(make_page(tmp_path, *ARGUMENTS["fa1"]), *DESKTOP)
    position = "Number(document.getElementById('slider').value)"
    assert page.js(position) == 0
    assert page.text("#now-title") == "Before the first step"
    page.click("#forward")
    page.press("\ue014", "\ue014", "\ue012")  # right, right, left
    assert page.js(position) == 2
    assert page.js("document.querySelector('.algorithm li[aria-current]').id") == "line-6"
    page.press("\ue010")  # End
    last = page.js("steps_count = Number(document.getElementById('slider').max)")
    assert page.js(position) == last
    page.press("\ue011")  # Home
    assert page.js(position) == 0
    page.press(" ")
    page.wait_until(f"{position} >= 1")
    page.press(" ")
    stopped = page.js(position)
    assert page.text("#play") == "Play"
    page.press("+", "-", "-")
    assert page.js("document.getElementById('speed').value") == "0.5"
    page.js(
        "(document.getElementById('slider').value = 5, "
        "document.getElementById('slider').dispatchEvent(new Event('input')))"
    )
    assert page.js("document.getElementById('position').textContent") == f"5 of {last}"
    assert stopped < last


def test_a_step_shows_the_update_formula_with_its_numbers(page, tmp_path):
    path = make_page(tmp_path, *ARGUMENTS["fa1"])
    steps = embedded(path)["steps"]
    at = 1 + next(k for k, step in enumerate(steps) if step["line"] == 11 and step["j"] == 1)
    page.open(path, *DESKTOP, fragment=f"#step={at}")
    chip = {}
    for step in steps[:at]:
        chip |= step.get("chip", {})
    old_m, old_l, m, ell = (chip[name][0][0] for name in ("m_i", "l_i", "m_tilde", "l_tilde"))
    new_m = max(old_m, m)
    new_l = np.exp(old_m - new_m) * old_l + np.exp(m - new_m) * ell
    shown = page.text("#filled").replace("−", "-")
    for value in (old_m, old_l, m, ell, new_m, new_l):
        assert f"{value:.3f}" in shown
    page.click("#rows input[value='1']")
    assert page.text("#filled").replace("−", "-") != shown


def test_the_page_is_usable_without_seeing_it(page, tmp_path):
    page.open(make_page(tmp_path, *ARGUMENTS["fa1"]), *DESKTOP, fragment="#step=4")
    unnamed = page.js(
        "[...document.querySelectorAll('button, select, input')].filter((x) => "
        "!(x.textContent.trim() || x.ariaLabel || x.labels?.[0]?.textContent.trim())).length"
    )
    assert unnamed == 0
    assert page.js("document.getElementById('now').getAttribute('aria-live')") == "polite"
    assert page.js("document.getElementById('slider').getAttribute('aria-valuetext')").startswith("4 of")
    assert page.js("[...document.querySelectorAll('table.matrix:not(.map)')].every((t) => t.caption.textContent)")
    assert page.js("document.documentElement.lang") == "en"


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_it_can_be_read_in_light_and_dark_on_desktop_and_phone(size, dark, page, tmp_path):
    page.open(make_page(tmp_path, *ARGUMENTS["fa1"]), *size, dark=dark, fragment="#step=32")
    assert page.screenshot(tmp_path / "page.png").stat().st_size > 20_000
    assert page.js("document.documentElement.scrollWidth <= innerWidth"), "the page scrolls sideways"
    ground = page.js("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, re.findall(r"\d+", ground))) < 200) == dark
    assert _contrast(page, "#now-text") >= 7
    assert _contrast(page, "#moves li") >= 4.5
    assert _contrast(page, ".matrix td.live") >= 4.5
    assert page.complaints() == []


def test_the_reader_can_overrule_the_system_s_colours(page, tmp_path):
    page.open(make_page(tmp_path, *ARGUMENTS["fa1"]), *DESKTOP)
    light = page.js("getComputedStyle(document.body).backgroundColor")
    page.js(
        "(document.getElementById('theme').value = 'dark', "
        "document.getElementById('theme').dispatchEvent(new Event('change')))"
    )
    assert page.js("getComputedStyle(document.body).backgroundColor") != light
    page.js(
        "(document.getElementById('theme').value = 'auto', "
        "document.getElementById('theme').dispatchEvent(new Event('change')))"
    )


def test_chinese(page, tmp_path):
    page.open(make_page(tmp_path, *ARGUMENTS["fa1"], "--lang", "zh"), *DESKTOP, fragment="#step=4")
    assert page.js("document.documentElement.lang") == "zh"
    assert page.text("#play") == "播放"
    assert "第 9 行" in page.text("#now-title")
    assert page.complaints() == []


def _contrast(page, selector: str) -> float:
    """WCAG contrast of an element's text against the nearest background that is painted."""
    colours = page.js(
        f"((x) => {{ const ink = getComputedStyle(x).color; "
        "while (x && getComputedStyle(x).backgroundColor === 'rgba(0, 0, 0, 0)') x = x.parentElement; "
        "return [ink, getComputedStyle(x ?? document.body).backgroundColor]; })"
        f"(document.querySelector({selector!r}))"
    )
    a, b = sorted(_luminance(colour) for colour in colours)
    return (b + 0.05) / (a + 0.05)


def _luminance(colour: str) -> float:
    channels = [int(x) / 255 for x in re.findall(r"\d+", colour)[:3]]
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
