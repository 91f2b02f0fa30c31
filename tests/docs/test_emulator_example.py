"""The program in docs/emulator.md runs as printed."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_example_works_as_printed(tmp_path):
    text = (ROOT / "docs" / "emulator.md").read_text(encoding="utf-8")
    program, *rest = re.findall(r"```python\n(import .*?)```", text, re.DOTALL)
    assert not rest
    checked = program + "assert y.tolist() == (x / 2).tolist() and report.ok\n"
    done = subprocess.run([sys.executable, "-c", checked], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "scale: grid (1, 1, 1), block (256, 1, 1)" in done.stdout and "0 finding(s)" in done.stdout
