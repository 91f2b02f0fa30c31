"""What importing flashgen, and building with it, loads."""

from __future__ import annotations

import json
from typing import Any

LOADED = "import json, sys; print(json.dumps(sorted({name.partition('.')[0] for name in sys.modules})))"
HEAVY = {
    "torch",
    "cupy",
    "jinja2",
    "numpy",
    "ml_dtypes",
    "rich",
    "click",
    "safetensors",
    "subprocess",
    "logging",
    "ctypes",
}


def loaded(children: Any, code: str) -> set[str]:
    done = children.python(f"{code}\n{LOADED}")
    assert (done.returncode, done.stderr) == (0, "")
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_importing_flashgen_loads_flashgen_and_nothing_heavy(children: Any) -> None:
    assert not HEAVY & loaded(children, "import flashgen")
    done = children.python(
        "import flashgen, sys; print(*[name for name in sys.modules if name.startswith('flashgen')])"
    )
    assert done.stdout.split() == ["flashgen"]


def test_planning_loads_no_template_engine_compiler_or_tensor_library(children: Any) -> None:
    unwanted = {"torch", "cupy", "rich", "click", "safetensors"}
    assert not unwanted & loaded(children, "import flashgen; flashgen.plan(64, sram='96KB')")


def test_building_and_calling_on_arrays_loads_no_torch(children: Any) -> None:
    code = "import kernel_child; kernel_child.check(kernel_child.build())"
    assert not {"torch", "cupy", "rich", "click", "safetensors", "ml_dtypes"} & loaded(children, code)


def test_public_names_load_on_first_use(children: Any) -> None:
    code = """
import flashgen
for name in flashgen.__all__:
    assert getattr(flashgen, name).__name__ == name, name
try:
    flashgen.nonsense
except AttributeError as error:
    print(error)
"""
    done = children.python(code)
    assert (done.returncode, done.stderr) == (0, "")
    assert "nonsense" in done.stdout
