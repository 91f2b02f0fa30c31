"""Rendering: deterministic, strict, and readable."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from flashgen.errors import RenderError
from flashgen.families import FAMILIES
from flashgen.families.base import Family
from flashgen.render import environment, renderer
from flashgen.render.renderer import render
from flashgen.source import KernelSource
from flashgen.spec import make_spec
from flashgen.target import PRESETS, parse_target
from flashgen.tiling import plan_tiles

CPU_FAMILIES = [family for family in FAMILIES if family.kind == "cpu"]
V3 = parse_target("cpu:x86-64-v3")


def rendered(family: Family, **spec: object) -> KernelSource:
    made = make_spec(**({"d": 64} | spec))  # type: ignore[arg-type]
    return render(family, made, plan_tiles(family, made, V3, PRESETS[V3], sram_bytes=98304), V3)


@pytest.mark.parametrize("family", CPU_FAMILIES, ids=lambda family: family.name)
def test_equal_requests_give_equal_bytes_in_every_process(family: Family) -> None:
    program = (
        "import sys; from flashgen.families import family_named; from flashgen.tiling import plan_tiles\n"
        "from flashgen.render.renderer import render; from flashgen.spec import make_spec\n"
        "from flashgen.target import PRESETS, parse_target\n"
        f"f, s, t = family_named('{family.name}'), make_spec(64), parse_target('cpu:x86-64-v3')\n"
        "print(render(f, s, plan_tiles(f, s, t, PRESETS[t], sram_bytes=98304), t).digest)"
    )
    digests = {
        subprocess.run(
            [sys.executable, "-c", program], env={"PYTHONHASHSEED": seed}, check=True, capture_output=True, text=True
        ).stdout
        for seed in ("1", "2")
    }
    assert digests == {rendered(family).digest + "\n"}


@pytest.mark.parametrize("family", CPU_FAMILIES, ids=lambda family: family.name)
def test_a_rendered_file_is_tidy(family: Family) -> None:
    text = rendered(family).text
    lines = text.splitlines()
    assert text.startswith("// SPDX-License-Identifier: MIT\n")
    assert text.endswith("}\n") or text.endswith(";\n")
    assert not [number for number, line in enumerate(lines, 1) if line != line.rstrip() or "\t" in line]
    assert not [number for number, line in enumerate(lines, 1) if len(line) > 120]
    assert "\n\n\n" not in text
    assert "{{" not in text
    assert "{%" not in text


@pytest.mark.parametrize("family", CPU_FAMILIES, ids=lambda family: family.name)
def test_a_rendered_file_restates_its_plan(family: Family) -> None:
    source = rendered(family, causal="top_left")
    assert f"== {source.plan.footprint.total}" in source.text
    assert f"kBr = {source.plan.br};" in source.text
    assert f"kBc = {source.plan.bc};" in source.text
    assert all(line in source.text for line in source.plan.trail)


def test_different_requests_have_different_names_and_bytes() -> None:
    requests = [
        {},
        {"d_v": 32},
        {"dtype": "bf16"},
        {"causal": "top_left"},
        {"causal": "bottom_right"},
        {"d": 32},
    ]
    sources = [rendered(family, **request) for family in CPU_FAMILIES for request in requests]
    assert len({source.filename for source in sources}) == len({source.digest for source in sources}) == len(sources)


def test_writing_a_source_leaves_only_the_file(tmp_path: Path) -> None:
    source = rendered(CPU_FAMILIES[0])
    path = source.write_to(tmp_path / "a b" / "ü")
    assert path.read_text() == source.text
    assert list(path.parent.iterdir()) == [path]
    assert source.write_to(path.parent) == path


def test_a_wrong_template_is_named_with_its_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    templates = tmp_path / "templates"
    shutil.copytree(environment.templates_dir(), templates)
    monkeypatch.setattr(renderer, "templates_dir", lambda: templates)
    target = templates / CPU_FAMILIES[0].template
    target.write_text("line one\n{% if %}\n")
    with pytest.raises(RenderError, match=r"cpu/.*line 2"):
        rendered(CPU_FAMILIES[0])
    target.write_text("{{ no_such_name }}\n")
    with pytest.raises(RenderError, match="no_such_name"):
        rendered(CPU_FAMILIES[0])
    target.unlink()
    with pytest.raises(RenderError, match="could not be rendered"):
        rendered(CPU_FAMILIES[0])


def test_a_template_that_was_edited_shows_in_the_next_render(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    templates = tmp_path / "templates"
    shutil.copytree(environment.templates_dir(), templates)
    monkeypatch.setattr(renderer, "templates_dir", lambda: templates)
    before = rendered(CPU_FAMILIES[0])
    part = templates / "cpu" / "parts" / "mask.hpp"
    part.write_text(part.read_text() + "// edited\n")
    assert "// edited" not in before.text
    assert "// edited" in rendered(CPU_FAMILIES[0]).text
