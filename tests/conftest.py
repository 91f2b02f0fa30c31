"""What all tests share: a cache directory of their own, repeatable examples, and --update-golden."""

from __future__ import annotations

import os
import shutil
import tempfile

import hypothesis
import pytest

# The oracle's matrix products are tiny: NumPy's own threads only get in the way of the kernels' (this must
# come before the first import of numpy).
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

_CACHE = "FLASHGEN_CACHE_DIR"
_made_here: list[str] = []

# Kernels are compiled inside examples, so their time says nothing; a red run must be red again elsewhere.
hypothesis.settings.register_profile("flashgen", deadline=None, derandomize=True, max_examples=50, database=None)
hypothesis.settings.register_profile("explore", deadline=None, max_examples=2000)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "flashgen"))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="render the committed reference kernels anew")


@pytest.fixture
def update_golden(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--update-golden"))


def pytest_configure(config: pytest.Config) -> None:
    """Gives this run an empty artifact cache, through the environment, so that workers and subprocesses share it.

    A FLASHGEN_CACHE_DIR that is set already is used as it is: repeated runs then skip the compiler.
    """
    if _CACHE not in os.environ:
        os.environ[_CACHE] = tempfile.mkdtemp(prefix="flashgen-tests-")
        _made_here.append(os.environ[_CACHE])


def pytest_unconfigure(config: pytest.Config) -> None:
    for directory in _made_here:
        os.environ.pop(_CACHE, None)
        shutil.rmtree(directory, ignore_errors=True)
    _made_here.clear()
