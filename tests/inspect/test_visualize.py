"""The page's run is the kernel's: same numbers, same bytes; and the page holds what it should."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from click.testing import CliRunner

import flashgen
from flashgen.cli.main import main
from flashgen.errors import BudgetError, SpecError
from flashgen.inspect.explain_texts import LANGUAGES
from flashgen.inspect.visualize import MAX_STEPS, trace, visualize_page
from flashgen.inspect.visualize_plan import plan_to_show
from flashgen.spec import make_spec
from flashgen.target import parse_target

CPU, GPU = parse_target("cpu:x86-64-v3"), parse_target("sm_80")


def page_of(algorithm="fa1", n=8, nk=8, br=2, bc=4, target=CPU, budget=None, d=4, language="en", **spec):
    what = make_spec(d, spec.pop("dtype", "fp32"), spec.pop("causal", False))
    plan = plan_to_show(what, target, algorithm, budget, br, bc)
    return visualize_page(what, plan, target, n, nk, language=language)


def data_of(page):
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page)[1])


@pytest.mark.parametrize("causal", [False, "bottom_right"])
@pytest.mark.parametrize("algorithm", ["standard", "fa1", "fa2"])
def test_the_run_gives_what_the_compiled_kernel_gives(algorithm, causal):
    kernel = flashgen.build(d=16, dtype="fp32", causal=causal, algorithm=algorithm, br=16, bc=16)
    run, out = trace(kernel.spec, kernel.plan, 50, 50)
    q, k, v = (run.hbm[name][None, None] for name in "QKV")
    np.testing.assert_allclose(out, kernel(q, k, v)[0, 0], rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize("algorithm", ["standard", "fa1", "fa2"])
@pytest.mark.parametrize("causal", [False, "top_left"])
def test_the_steps_on_the_page_move_the_closed_form_s_bytes(algorithm, causal):
    data = data_of(page_of(algorithm, n=7, nk=9, causal=causal))
    moved = {"read": 0, "write": 0}
    for step in data["steps"]:
        for _, direction, *_, size in (move[:7] for move in step.get("moves", [])):
            moved[direction] += size
    assert (moved["read"], moved["write"]) == (data["expected"]["read"], data["expected"]["written"])
    assert data["error"] <= data["tolerance"]


@pytest.mark.parametrize("target", ["cpu:x86-64-v3", "sm_80"])
def test_decode_is_refused_in_one_sentence(target, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(main, ["visualize", "--algorithm", "decode", "--target", target], prog_name="flashgen")
    assert done.exit_code == 2
    assert done.stderr.startswith("Error: There is no page of decode, only of standard, fa1, fa2;")
    assert done.stderr.count(".") == 1 and not list(tmp_path.iterdir())


def test_pages_compare_only_algorithms_that_have_one():
    for target in (CPU, GPU):
        assert [row["algorithm"] for row in data_of(page_of(target=target))["compared"]] == ["standard", "fa1", "fa2"]


def test_fa1_s_steps_are_algorithm_1():
    data = data_of(page_of(n=4, nk=8))
    block = [8, 9, 10, 11, 12, 13]
    assert [step["line"] for step in data["steps"]] == [2, *([6] + 2 * block) * 2, 16]
    assert [(step.get("j"), step.get("i")) for step in data["steps"] if step["line"] == 9] == [
        (0, 0), (0, 1), (1, 0), (1, 1),
    ]  # fmt: skip
    on_a_gpu = data_of(page_of(n=16, nk=16, br=8, bc=8, target=GPU))
    assert on_a_gpu["steps"][0]["line"] == 6  # O, l and m begin on chip there


def test_hidden_blocks_are_skipped_and_hidden_scores_are_minus_infinity():
    data = data_of(page_of(n=8, nk=8, br=4, bc=4, causal="top_left"))
    assert {(s["i"], s["j"]) for s in data["steps"] if s["line"] == 9} == {(0, 0), (1, 0), (1, 1)}
    scores = next(step["chip"]["S_ij"] for step in data["steps"] if step["line"] == 9)
    assert [row.count("-inf") for row in scores] == [3, 2, 1, 0]
    assert data["visible"] == [1, 2, 3, 4, 5, 6, 7, 8]


def test_a_page_holds_its_numbers_only_where_they_can_be_read():
    small, large = page_of(), page_of(n=512, nk=512, br=64, bc=64, d=64)
    assert data_of(small)["numbers"] and not data_of(large)["numbers"]
    assert "chip" not in json.dumps(data_of(large)["steps"])
    assert data_of(large)["reference"] is None
    assert len(large) < 200_000


def test_the_inputs_can_be_checked_by_hand():
    for matrix in data_of(page_of())["hbm"][:3]:
        assert all(round(x, 1) == pytest.approx(x, abs=1e-7) for row in matrix["values"] for x in row)


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("algorithm", ["standard", "fa1", "fa2"])
def test_a_page_is_self_contained_and_speaks_one_language(algorithm, language):
    page = page_of(algorithm, language=language)
    assert not re.search(r"https?://|src=|@import|fetch\(|XMLHttpRequest", page)
    assert page.count("</script>") == 2
    assert f'<html lang="{language}">' in page
    assert not re.search(r"\{\{|\{%", page)
    visible = re.sub(r"<script.*?</script>|<style.*?</style>", "", page, flags=re.DOTALL)
    assert bool(re.search(r"[\u4e00-\u9fff]", visible)) == (language == "zh")


def test_every_word_that_the_scripts_ask_for_is_there():
    page = page_of()
    asked = set(re.findall(r'\bwords\.(\w+)|\bsay\((?:good \? )?"(\w+)"(?: : "(\w+)")?', page))
    names = {name for group in asked for name in group if name}
    assert len(names) > 15
    assert names == set(data_of(page)["words"])


def test_a_tile_that_the_kernel_lacks_is_shown_and_owned_up_to():
    assert "cpu_fa2 itself has no 2 x 4 tile" in page_of("fa2")
    assert "itself has no" not in page_of("fa1")
    assert "cuda_fa1 itself has no 2 x 4 tile" in page_of("fa1", target=GPU)


@pytest.mark.parametrize(
    ("language", "executor"), [("en", "run by the reference executor"), ("zh", "由参考执行器逐步执行")]
)
def test_the_page_says_who_took_the_steps(language, executor):
    for target in (CPU, GPU):  # no kernel ran, and a GPU need not be there
        page = page_of("fa1", target=target, language=language)
        assert executor in page and str(target) in page


def test_the_budget_is_kept_also_for_such_a_tile():
    assert data_of(page_of("fa2", budget=512))["budget"] == 512
    with pytest.raises(BudgetError, match="needs 240 bytes on chip, but 100 are available"):
        page_of("fa2", budget=100)
    with pytest.raises(BudgetError):
        page_of("fa1", budget=100)


def test_a_run_with_too_many_steps_is_refused():
    with pytest.raises(SpecError, match=f"more than a page can hold .{MAX_STEPS:,}."):
        page_of(n=1024, nk=1024, br=4, bc=4)


def test_the_command_writes_the_page(tmp_path):
    path = tmp_path / "page.html"
    arguments = ["visualize", "--n", "8", "--d", "4", "--br", "2", "--bc", "4", "--target", "cpu:x86-64-v3"]
    done = CliRunner().invoke(main, [*arguments, "--out", str(path)])
    assert done.exit_code == 0, done.output
    assert "cpu_fa1, d=4, fp32, no mask, 8 x 8 in 2 x 4 tiles" in done.stdout
    assert path.read_text() == page_of()
    data = json.loads(CliRunner().invoke(main, [*arguments, "--out", str(path), "--json"]).stdout)
    assert (data["page"], data["plan"]["br"], data["plan"]["bc"]) == (str(path), 2, 4)
