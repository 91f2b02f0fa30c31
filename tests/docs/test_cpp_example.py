"""The C++ program in docs/generated_file.md compiles, runs and computes attention."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from click.testing import CliRunner

from flashgen.cli.main import main
from flashgen.compilation.toolchains.host import find_compiler

ROOT = Path(__file__).resolve().parents[2]


def test_the_cpp_example_works_as_printed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "docs" / "generated_file.md").read_text(encoding="utf-8")
    command = re.search(r"^    flashgen (build .*)$", text, re.MULTILINE)
    program = re.search(r"```cpp\n(.*?)```", text, re.DOTALL)
    assert command and program
    assert CliRunner().invoke(main, command[1].split(), prog_name="flashgen").exit_code == 0
    source = next((tmp_path / "generated").glob("*.cpp"))
    assert f"generated/{source.name}" in program[1]
    generated = source.read_text(encoding="utf-8")
    shared = generated[generated.index("using GompParallel") : generated.index("constexpr int64_t kAbiVersion")]
    here = "// Here: GompParallel and struct AttentionArgs, copied from the generated file."
    checked = program[1].replace(here, shared)
    assert shared in checked
    # Equal keys weigh equally, so every output is the mean of equal values.
    judged = (
        "const int64_t status = flashgen_cpu_fa1(&args);\n"
        "  for (float x : out) if (std::fabs(x - 0.1f) > 1e-6f) return 9;\n"
        "  return int(status);"
    )
    checked = checked.replace("return int(flashgen_cpu_fa1(&args));", judged)
    assert "return 9" in checked
    (tmp_path / "main.cpp").write_text(checked, encoding="utf-8")
    flags = ["-std=c++17", "-O2", "-march=x86-64-v3", "-Wall", "-Werror"]
    build = [*find_compiler().command, *flags, "main.cpp", str(source), "-fopenmp", "-o", "main"]
    done = subprocess.run(build, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert subprocess.run(["./main"], cwd=tmp_path).returncode == 0
