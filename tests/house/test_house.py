"""The house rules, checked: style, types, imports, file sizes, and what must not be in the repository."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MAX_LINES = 300


def tracked(*patterns: str) -> list[Path]:
    listed = subprocess.run(["git", "ls-files", *patterns], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode != 0:
        pytest.skip("not a git checkout")
    return [ROOT / name for name in listed.stdout.splitlines() if (ROOT / name).is_file()]


@pytest.mark.parametrize(
    "tool",
    [("ruff", "check", "--quiet", "."), ("ruff", "format", "--check", "--quiet", "."), ("mypy",)],
    ids=["ruff check", "ruff format", "mypy"],
)
def test_the_code_is_clean(tool: tuple[str, ...]) -> None:
    done = subprocess.run([sys.executable, "-m", *tool], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_imports_run_downwards() -> None:
    program = "import sys; from importlinter.cli import lint_imports_command; sys.exit(lint_imports_command())"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_files_have_one_job_and_stay_short() -> None:
    files = [path for path in tracked("flashgen", "templates") if path.suffix in {".py", ".hpp", ".cuh", ".j2", ".cpp"}]
    long = {
        str(path.relative_to(ROOT)): lines
        for path in files
        if (lines := len(path.read_text().splitlines())) > MAX_LINES
    }
    assert files
    assert not long


def test_no_file_names_a_path_of_one_machine_or_a_registry() -> None:
    unwanted = re.compile(
        r"""(?:^|[\s"'=(])/(?:home|root|work)/|pypi\.org|pythonhosted|registry\.npmjs|--index-url""", re.MULTILINE
    )
    found = [
        str(path.relative_to(ROOT))
        for path in tracked()
        if path != Path(__file__) and path.suffix != ".png" and unwanted.search(path.read_text(errors="replace"))
    ]
    assert not found


def test_build_products_are_not_tracked() -> None:
    products = {".so", ".o", ".cubin", ".ptx", ".pyc", ".whl", ".npy", ".npz", ".safetensors"}
    assert not [path for path in tracked() if path.suffix in products]
