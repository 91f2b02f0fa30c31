"""explain: every line of an algorithm has code, every tag has a line, in both languages."""

from __future__ import annotations

import json
import re

import pytest
from click.testing import CliRunner

from flashgen.cli.main import main
from flashgen.errors import SpecError
from flashgen.families import FAMILIES, family_named
from flashgen.inspect.explain import CodeSpan, complaints, explain
from flashgen.inspect.explain_page import calls_label, explain_page
from flashgen.inspect.explain_tags import TAGS, Span, call_sites, numbers_in, tagged_spans
from flashgen.inspect.explain_texts import LANGUAGES, algorithms, formula_html, formula_text, texts
from flashgen.render.environment import templates_dir
from flashgen.render.renderer import render
from flashgen.source import KernelSource
from flashgen.spec import make_spec
from flashgen.target import PRESETS, parse_target
from flashgen.tiling import plan_tiles

from .plans import takes

EXPLAINED = [family.name for family in FAMILIES if family.algorithm in algorithms()]


def source_of(name: str, dtype: str | None = None, causal: bool = False) -> KernelSource:
    dtype = dtype or ("fp32" if takes(name, "fp32") else "fp16")
    family, spec = family_named(name), make_spec(64, dtype, causal)
    target = parse_target("cpu:x86-64-v3" if family.kind == "cpu" else "sm_80")
    return render(family, spec, plan_tiles(family, spec, target, PRESETS[target]), target)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    "name,dtype",
    [(name, dtype) for name in EXPLAINED for dtype in ("fp16", "bf16", "fp32", "fp64") if takes(name, dtype)],
)
def test_every_line_has_code_and_every_tag_has_a_line(name: str, dtype: str, causal: bool) -> None:
    assert complaints(source_of(name, dtype, causal)) == ()


def test_every_family_of_a_known_algorithm_is_explained() -> None:
    assert set(EXPLAINED) == {family.name for family in FAMILIES}


def test_up_to_the_end_of_a_split_decode_s_lines_are_those_of_fa2() -> None:
    """The two share parts of templates, and so the tags in them."""
    of_split, of_fa2 = ({e["number"]: e["formula"] for e in algorithms()[name]["lines"]} for name in ("decode", "fa2"))
    assert all(of_split[number] == of_fa2[number] for number in (4, 7, 8, 11))
    for number in (9, 10):
        assert re.sub(r"([mlO])_s", r"\1_i", of_split[number]) == of_fa2[number]


@pytest.mark.parametrize("name", ["cpu_decode", "cuda_decode"])
def test_decode_s_own_parts_tag_every_line(name: str) -> None:
    """So fa2's parts may change their tags."""
    kind = name.partition("_")[0]
    files = sorted(templates_dir().glob(f"{kind}/{name}.*")) + sorted(templates_dir().glob(f"{kind}/parts/decode_*"))
    tagged = {number for file in files for number in tagged_spans(file.read_text(encoding="utf-8"), "decode")}
    assert tagged == set(range(1, 20))


@pytest.mark.parametrize(
    ("cut", "put", "complaint"),
    [
        ("  // line 13: l_i", "  // l_i", None),  # line 13 is still done by store_state
        ("Algorithm 1, line 9:", "Scores:", "fa1 line 9 has no code"),
        ("// line 11: m_new", "// line 17: m_new", "a tag names fa1 line 17, which is none"),
    ],
)
def test_a_lost_or_wrong_tag_is_noticed(cut: str, put: str, complaint: str | None) -> None:
    source = source_of("cpu_fa1")
    assert cut in source.text
    changed = KernelSource(
        source.text.replace(cut, put), source.language, source.entry, source.spec, source.plan, source.target
    )
    found = complaints(changed)
    assert found == () if complaint is None else complaint in found


@pytest.mark.parametrize(
    ("comment", "numbers"),
    [
        ("// Algorithm 1, line 6: load K_j", (6,)),
        ("// Algorithm 1, lines 10 to 13, one row", (10, 11, 12, 13)),
        ("// lines 12 and 13: write", (12, 13)),
        ("// lines 3, 4 and 7: for each block", (3, 4, 7)),
        ("// Algorithm 1, line 8: load. At the first j, line 2: O_i = 0", (8, 2)),
        ("// see the licence line above", ()),
    ],
)
def test_tags_are_read_as_they_are_written(comment: str, numbers: tuple[int, ...]) -> None:
    assert numbers_in(comment, TAGS["fa1"]) == numbers


def test_a_tag_covers_what_it_stands_above() -> None:
    source = """\
// Algorithm 1, line 9: scores.
inline void scores(int a,
                   int b) {
  multiply();
}

// Algorithm 1, lines 10 and 11.
inline void update() {
  // line 10: maximum
  maximum();
#pragma unroll
  sum();

  // line 11: join
  join();
}

int head() {
  for (;;) {    // line 7: for i
    scores(1, 2);
    update();
  }             // line 14
}
"""
    assert tagged_spans(source, "fa1") == {
        7: (Span(19, 19),),
        9: (Span(1, 5),),
        10: (Span(9, 12),),
        11: (Span(14, 15),),
        14: (Span(22, 22),),
    }
    assert call_sites(source, Span(1, 5)) == (20,)
    assert call_sites(source, Span(9, 12)) == ()


@pytest.mark.parametrize("algorithm", sorted(algorithms()))
def test_both_languages_say_something_about_every_line(algorithm: str) -> None:
    numbers = {str(entry["number"]) for entry in algorithms()[algorithm]["lines"]}
    for language in LANGUAGES:
        section = texts(language)[algorithm]
        assert set(section) == numbers | {"title", "pass"}
        assert all(section.values())


def test_both_languages_have_the_same_keys() -> None:
    assert _keys(texts("en")) == _keys(texts("zh"))


def test_chinese_is_chinese() -> None:
    sentences = [text for section in algorithms() for text in texts("zh")[section].values()]
    assert all(any("\u4e00" <= letter <= "\u9fff" for letter in sentence) for sentence in sentences)


def _keys(section: dict[str, object], prefix: str = "") -> set[str]:
    keys: set[str] = set()
    for key, value in section.items():
        keys |= _keys(value, f"{prefix}{key}.") if isinstance(value, dict) else {prefix + key}
    return keys


def test_operands_have_the_plan_s_sizes_and_the_target_s_places() -> None:
    on_cpu = explain(source_of("cpu_fa1"), line=9)
    (scores,) = (operand for operand in on_cpu.lines[0].operands if operand.name == "S_ij")
    plan = on_cpu.source.plan
    assert scores.sizes == (str(plan.br), str(plan.bc))
    assert on_cpu.place_names[scores.places[0]] == "tile (L1/L2 cache)"
    on_gpu = explain(source_of("cuda_fa1"), line=6)
    assert [on_gpu.place_names[place] for place in on_gpu.lines[0].operands[0].places] == ["HBM", "shared memory"]


def test_a_line_that_is_none_is_refused() -> None:
    with pytest.raises(SpecError, match="fa1 has no line 17; it has 1 to 16"):
        explain(source_of("cpu_fa1"), line=17)


def test_formulas_are_set() -> None:
    assert formula_text("l_i^{new} = e^{m_i - m_i^new} l_i, S_{ij} <- 1") == "l_i^new = e^(m_i - m_i^new) l_i, S_ij ← 1"
    assert formula_html("e^{m_i - m~_{ij}} < 1") == (
        "<i>e</i><sup><i>m</i><sub><i>i</i></sub> − <i>m̃</i><sub><i>ij</i></sub></sup> &lt; 1"
    )


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("name", EXPLAINED)
def test_the_page_holds_every_line_of_both(name: str, language: str) -> None:
    source = source_of(name)
    page = explain_page(explain(source, language))
    assert page.count('class="row"') == source.text.count("\n")
    assert page.count('class="line"') == len(explain(source, language).lines)
    assert f'<html lang="{language}">' in page
    assert "http://" not in page and "https://" not in page


@pytest.mark.parametrize(
    ("calls", "label"), [((), ""), ((7,), "called from line 7"), ((7, 9), "called from lines 7, 9")]
)
def test_the_lines_that_call_are_named(calls: tuple[int, ...], label: str) -> None:
    assert calls_label(CodeSpan(1, 2, "text", calls), explain(source_of("cpu_fa1"))) == label


def test_the_command_explains_a_line_in_chinese() -> None:
    done = CliRunner().invoke(main, ["explain", "--line", "12", "--lang", "zh", "--target", "cpu:x86-64-v3"])
    assert done.exit_code == 0
    assert "第 12 行" in done.stdout and "式 (36, 37)" in done.stdout
    assert "tile.o[r][x] = inverse" in done.stdout


def test_the_command_s_json_and_page_agree_with_the_source(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    arguments = ["explain", "--algorithm", "standard", "--target", "sm_80", "--out", "page.html", "--json"]
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 0, done.output
    data = json.loads(done.stdout)
    assert [line["line"] for line in data["lines"]] == [1, 2, 3]
    text = source_of("cuda_standard", "fp16").text.split("\n")
    for line in data["lines"]:
        for span in line["code"]:
            assert span["text"] == "\n".join(text[span["first"] - 1 : span["last"]])
    assert (tmp_path / "page.html").read_text().startswith("<!DOCTYPE html>")
