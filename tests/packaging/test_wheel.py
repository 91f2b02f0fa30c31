"""A wheel, installed in a new environment outside the checkout, builds and runs kernels."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def run(command: list[str], cwd: Path, **env: str) -> str:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(command, cwd=cwd, env=clean | env, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def make_environment(directory: Path, *packages: str) -> Path:
    """A virtual environment that holds the given packages; what they need is taken from this one."""
    venv.create(directory, with_pip=False)
    site = next(directory.glob("lib/python*/site-packages"))
    ours = [path for path in sys.path if path.endswith("site-packages")]
    # The dependencies only: this environment's own editable flashgen must not be found.
    (site / "dependencies.pth").write_text("\n".join(f"import sys; sys.path.append({path!r})" for path in ours))
    python = directory / "bin" / "python"
    installer = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        str(python),
        "install",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
    ]
    run([*installer, *packages], directory)
    return python


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("dist")
    run([sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), str(ROOT)], out)
    return next(out.glob("*.whl"))


def test_the_wheel_holds_the_package_and_its_templates_and_nothing_else(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert "flashgen/templates/cpu/cpu_fa1.cpp.j2" in names
    assert "flashgen/templates/shared/banner.j2" in names
    assert "flashgen/py.typed" in names
    assert {name.split("/")[0] for name in names if ".dist-info/" not in name} == {"flashgen"}
    here = {f"flashgen/{path.relative_to(ROOT)}" for path in (ROOT / "templates").rglob("*") if path.is_file()}
    assert here <= set(names)


def test_an_installed_wheel_builds_a_kernel_outside_the_checkout(wheel: Path, tmp_path: Path) -> None:
    python = make_environment(tmp_path / "a new venv", str(wheel))
    where = run([str(python), "-c", "import flashgen; print(flashgen.__file__)"], tmp_path)
    assert str(tmp_path) in where
    flashgen = python.with_name("flashgen")
    out = run(
        [str(flashgen), "build", "--d", "64", "--sram", "96KB"], tmp_path, FLASHGEN_CACHE_DIR=str(tmp_path / "cache")
    )
    assert "compiled now" in out
    assert list((tmp_path / "generated").glob("*.cpp"))


def test_an_edited_template_shows_in_the_next_render_of_an_editable_install(tmp_path: Path) -> None:
    checkout = tmp_path / "check out"
    names = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    if names.returncode != 0:
        pytest.skip("not a git checkout")
    for name in names.stdout.splitlines():
        if name.startswith(("flashgen/", "templates/")) or name in (
            "pyproject.toml",
            "hatch_build.py",
            "README.md",
            "LICENSE",
        ):
            (checkout / name).parent.mkdir(parents=True, exist_ok=True)
            (checkout / name).write_bytes((ROOT / name).read_bytes())
    python = make_environment(tmp_path / "venv", "--editable", str(checkout))
    show = [str(python), "-m", "flashgen", "show", "--d", "64", "--algorithm", "fa1", "--source"]
    assert "// edited" not in run(show, tmp_path)
    part = checkout / "templates" / "cpu" / "parts" / "mask.hpp"
    part.write_text(part.read_text() + "// edited\n")
    assert "// edited" in run(show, tmp_path)
    assert not list((tmp_path / "venv").glob("lib/python*/site-packages/flashgen/templates"))
