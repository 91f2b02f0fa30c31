"""The emulator's tests share a harness and oracles, which lie beside them, and run on both executors."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from flashgen.emulator import module

sys.path.append(str(Path(__file__).parent))


@pytest.fixture(params=module.EXECUTORS)
def each_executor(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Lets a test run once with each executor as the default."""
    monkeypatch.setattr(module, "DEFAULT_EXECUTOR", request.param)
    return str(request.param)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The NumPy executor has no orders of warps: one of them will do."""
    items[:] = [item for item in items if not _is_repetition(item)]


def _is_repetition(item: pytest.Item) -> bool:
    params = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
    return params.get("each_executor") == "numpy" and params.get("order", "round_robin") != "round_robin"
