from __future__ import annotations

from collections.abc import Callable

import pytest
from click.testing import CliRunner, Result

from flashgen.cli.main import main

Invoke = Callable[..., Result]


@pytest.fixture
def flashgen(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> Invoke:
    """Runs a command in an empty directory; `flashgen("plan", "--d", "64").stdout`."""
    monkeypatch.chdir(str(tmp_path))

    def invoke(*arguments: object) -> Result:
        return CliRunner().invoke(main, [str(argument) for argument in arguments], prog_name="flashgen")

    return invoke
