"""Runs the commands that the tutorials show, and writes what they print into them.

    python docs/refresh_tutorial.py              renews the outputs
    python docs/refresh_tutorial.py --pictures   docs/images too; needs Chromium, chromedriver, selenium and Pillow

A line of "..." in an output stands for lines left out; as many lines as stood before and after it are kept.
tests/docs compares the tutorials with what the commands print.
"""

from __future__ import annotations

import io
import re
import shlex
import shutil
import sys
import tempfile
from contextlib import chdir
from pathlib import Path

from click.testing import CliRunner

from flashgen.cli.main import main

DOCS = Path(__file__).resolve().parent
TUTORIALS = sorted(DOCS.glob("tutorial.*.md"))
VISUALIZE = ["visualize", "--n", "8", "--d", "4", "--br", "2", "--bc", "4", "--target", "cpu:x86-64-v3"]
# name, width, height, dark, arguments, step
PICTURES = [
    ("visualize_fa1.png", 1440, 1075, False, [], 32),
    ("visualize_fa2_phone.png", 390, 844, True, ["--algorithm", "fa2", "--causal", "--lang", "zh"], 28),
]


def refresh(text: str) -> str:
    """A tutorial with every output renewed."""
    return re.sub(r"^```console\n(.*?)^```", _renew_block, text, flags=re.DOTALL | re.MULTILINE)


def _renew_block(block: re.Match[str]) -> str:
    parts = re.split(r"^\$ ", block[1], flags=re.MULTILINE)[1:]
    return "```console\n" + "".join(_renew(*part.partition("\n")) for part in parts) + "```"


def _renew(command: str, _: str, old: str) -> str:
    if not command.startswith("flashgen "):
        return f"$ {command}\n{old}"
    with tempfile.TemporaryDirectory() as directory, chdir(directory):
        done = CliRunner().invoke(main, shlex.split(command)[1:], prog_name="flashgen")
    lines = [line.rstrip() for line in (done.stdout + done.stderr).rstrip("\n").split("\n")]
    shown = old.rstrip("\n").split("\n")
    if "..." in shown:
        before, after = shown.index("..."), len(shown) - shown.index("...") - 1
        lines = [*lines[:before], "...", *lines[len(lines) - after :]]
    return f"$ {command}\n" + "\n".join(lines) + "\n"


def draw(name: str, width: int, height: int, dark: bool, arguments: list[str], step: int) -> None:
    """Takes one picture of a page."""
    from PIL import Image
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    with tempfile.TemporaryDirectory() as directory:
        page = Path(directory) / "page.html"
        CliRunner().invoke(main, [*VISUALIZE, *arguments, "--out", str(page)])
        for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"):
            options.add_argument(flag)
        driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
        driver.get(f"{page.as_uri()}#step={step}")
        picture = Image.open(io.BytesIO(driver.get_screenshot_as_png())).convert("RGB")
        driver.quit()
    picture.quantize(96, dither=Image.Dither.NONE).save(DOCS / "images" / name, optimize=True)


if __name__ == "__main__":
    for tutorial in TUTORIALS:
        tutorial.write_text(refresh(tutorial.read_text(encoding="utf-8")), encoding="utf-8")
    if "--pictures" in sys.argv[1:]:
        for picture in PICTURES:
            draw(*picture)
