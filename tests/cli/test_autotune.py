"""`flashgen autotune` and `flashgen tune`, on a planted clock: what they print, and that builds follow."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from flashgen.cli.tune_tables import _used_here
from flashgen.families.cpu_fa1 import CpuFa1
from flashgen.tuning.records.archive import Kept
from flashgen.tuning.records.bucket import bucket_of
from flashgen.tuning.records.directory import Entry
from flashgen.tuning.records.record import Record
from flashgen.tuning.sweep.bench import Tools

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tuning"))
from planted_tools import MakeClock, PlantedLoader

FAST = (32, 16)
SCRIPT = {(16, 16): (1.2,), (64, 64): (1.0,), FAST: (0.8,), (16, 512): (1.5,)}
REQUEST = ("--d", 8, "--dtype", "fp32", "--heads", 2, "--algorithm", "fa1", "--target", "cpu")
TUNE = ("autotune", *REQUEST, "--seqlen", 80, "--jobs", 1)


@pytest.fixture(autouse=True)
def planted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A few tiles, kernels that are the oracle, and seconds from a script."""
    monkeypatch.setenv("FLASHGEN_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(CpuFa1, "candidates", lambda *_: ((16, 16), (32, 16), (2048, 512)))
    faults = {(16, 16): "wrong"}
    monkeypatch.setattr(
        "flashgen.tuning.api.Tools", lambda: Tools(loader=PlantedLoader(faults), clock=MakeClock(SCRIPT))
    )


def test_the_table_the_verdict_and_the_rules_regret_are_printed(flashgen: Any) -> None:
    result = flashgen(*TUNE)
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0].startswith("d=8, fp32, no mask on cpu:")
    assert lines[0].endswith("cpu_fa1, B1 H2 N80 (measured)")
    rows = [[cell.strip() for cell in line.strip("│").split("│")] for line in lines if line.startswith("│")]
    assert rows[0][0] == "32 x 16"
    assert rows[0][1] == "800.000"
    assert rows[0][5] == "0.800"
    assert rows[0][-1] == "chosen"
    assert ["default"] in [row[-1:] for row in rows]
    assert "wrong result: 16 x 16: " in result.stdout
    assert "1 pruned" in result.stdout
    assert "Tuned: 32 x 16 takes 0.800 of the time of the default 64 x 64" in result.stdout
    assert "Regret of the M/4d rule: its own plan, " in result.stdout


def test_a_long_plan_wraps_and_no_number_is_cut(flashgen: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    knobs = "4 warps of 32 rows, Q in shared memory, 2 stages"
    monkeypatch.setattr(CpuFa1, "describe_knobs", lambda *_: knobs)
    printed = flashgen(*TUNE).stdout
    table = [line for line in printed.splitlines() if line.startswith(("┃", "│"))]
    assert all(len(line) <= 120 and "…" not in line for line in table)
    assert "of default" in table[0] and "chosen" in printed
    assert " 2 stages" in " ".join(line.split("│")[1].strip() for line in table[1:])


def test_json_has_the_documented_keys(flashgen: Any) -> None:
    result = flashgen(*TUNE, "--json")
    assert result.exit_code == 0, result.output
    data = json.loads(result.stdout)
    assert set(data) >= {"spec", "target", "sram_bytes", "shapes"}
    (shape,) = data["shapes"]
    assert set(shape) >= {
        "shape", "family", "bucket", "how", "best", "replaces_default", "ratio_to_default", "rule_regret", "verdict",
        "stopped_by", "seconds", "discarded", "record", "valid_for", "trials", "pruned",
    }  # fmt: skip
    assert (shape["how"], shape["bucket"], shape["best"]["br"]) == ("measured", "h2_q128_k128", 32)
    trials = {(trial["br"], trial["bc"]): trial for trial in shape["trials"]}
    assert trials[16, 16]["failure"]["kind"] == "wrong result"
    assert trials[FAST]["seconds"] == 0.8
    assert trials[FAST]["gflops"] == pytest.approx(4 * 2 * 80 * 80 * 8 / 0.8 / 1e9)
    assert shape["pruned"][0]["reason"].startswith("it takes ")


def test_dry_run_lists_the_space_and_why_plans_fell_and_measures_nothing(flashgen: Any, tmp_path: Path) -> None:
    result = flashgen(*TUNE, "--dry-run")
    assert result.exit_code == 0, result.output
    assert "default" in result.stdout
    assert "rule" in result.stdout
    assert "pruned  2048 x 512: it takes " in result.stdout
    assert "4 plans to measure, 1 pruned." in result.stdout
    assert not list(tmp_path.glob("cache/tuning/**/*.jsonl"))
    data = json.loads(flashgen(*TUNE, "--dry-run", "--json").stdout)
    assert [candidate["roles"] for candidate in data["shapes"][0]["candidates"][:2]] == [["default"], ["rule"]]


def test_builds_tell_of_the_tuned_plan_unless_told_not_to(flashgen: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert flashgen(*TUNE).exit_code == 0
    build = ("build", "--d", 8, "--dtype", "fp32", "--algorithm", "fa1", "--target", "cpu")
    told = flashgen(*build)
    assert told.exit_code == 0, told.output
    assert "tuned     B*H 2, Sq 65-128, Sk 65-128: cpu_fa1, 32 x 16, built on first use" in told.stdout
    tuned = json.loads(flashgen(*build, "--json").stdout)["tuned"]
    assert tuned == [{"bucket": "h2_q128_k128", "family": "cpu_fa1", "br": 32, "bc": 16, "knobs": {}}]
    assert "tuned" not in flashgen(*build, "--no-tuned").stdout
    assert "tuned" not in flashgen(*build, "--br", 64).stdout
    monkeypatch.setenv("FLASHGEN_TUNED", "0")
    assert "tuned" not in json.loads(flashgen(*build, "--json").stdout)


def test_a_second_run_measures_nothing_and_fresh_does(flashgen: Any) -> None:
    flashgen(*TUNE)
    assert "an earlier sweep is complete" in flashgen(*TUNE).stdout
    assert "an earlier sweep is complete" not in flashgen(*TUNE, "--fresh").stdout


def test_several_lengths_have_a_table_each(flashgen: Any) -> None:
    result = flashgen("autotune", *REQUEST, "--seqlen", "80,1x100")
    assert result.exit_code == 0, result.output
    assert "B1 H2 N80 (measured)" in result.stdout
    assert "B1 H2 1x100 (measured)" in result.stdout


@pytest.mark.parametrize(
    ("option", "words"),
    [(("--seqlen", "0"), "is no length"), (("--seqlen", "1x"), "is no length"), (("--seqlen", ","), "empty"),
     (("--time-limit", "soon"), "is no time"), (("--time-limit", "0s"), "is no time"),
     (("--heads", "8", "--heads-kv", "3"), "must divide"), (("--target", "cpu:aarch64"), "cannot run cpu:aarch64")],
)  # fmt: skip
def test_bad_options_are_refused(flashgen: Any, option: tuple[str, ...], words: str) -> None:
    result = flashgen("autotune", *REQUEST, *option)
    assert result.exit_code == 2
    assert words in result.stderr


@pytest.mark.parametrize(("text", "seconds"), [("60s", 60), ("90", 90), ("2min", 120), ("1.5m", 90), ("1h", 3600)])
def test_times_are_read_as_people_write_them(text: str, seconds: float) -> None:
    from flashgen.cli.autotune import Seconds

    assert Seconds().convert(text, None, None) == seconds


def test_if_every_plan_fails_the_exit_code_is_5_and_the_reasons_are_told(
    flashgen: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    every = dict.fromkeys([(16, 16), (32, 16), (64, 64), *((8, bc) for bc in range(2049))], "segfault")
    monkeypatch.setattr(
        "flashgen.tuning.api.Tools", lambda: Tools(loader=PlantedLoader(every), clock=MakeClock(SCRIPT))
    )
    result = flashgen(*TUNE)
    assert result.exit_code == 5
    assert result.stderr.startswith("Error: No plan of cpu_fa1 works for d=8, fp32, no mask at B1 H2 N80")
    assert "crash (4), for instance 64 x 64: its process was killed by SIGSEGV." in result.stderr


def test_records_are_listed_shown_carried_and_dropped(flashgen: Any, tmp_path: Path) -> None:
    assert "There are no tuning records" in flashgen("tune", "list").stdout
    flashgen(*TUNE)
    (record,) = json.loads(flashgen("tune", "list", "--json").stdout)["records"]
    name = record["name"]
    assert record["valid_here"]
    listed = flashgen("tune", "list").stdout
    assert name in listed
    assert "0.800 of the default" in listed

    shown = flashgen("tune", "show", name[:5])
    assert shown.exit_code == 0, shown.output
    assert "Tuned: 32 x 16 takes 0.800" in shown.stdout
    assert "toolchain compiler" in shown.stdout
    data = json.loads(flashgen("tune", "show", name, "--json").stdout)["records"][0]
    assert data["shapes"][0]["best"]["br"] == 32

    file = tmp_path / "records.json"
    assert "1 tuning record." in flashgen("tune", "export", file).stdout
    assert "Removed 1 tuning record (" in flashgen("tune", "clear", name).stdout
    assert json.loads(flashgen("tune", "list", "--json").stdout)["records"] == []
    assert not list(tmp_path.glob("cache/tuning/*/*"))
    assert "Added 1 tuning record, replaced 0." in flashgen("tune", "import", file).stdout
    (again,) = json.loads(flashgen("tune", "list", "--json").stdout)["records"]
    assert again == record
    assert "1 were here already" in flashgen("tune", "import", file).stdout
    assert "replaced 1" in flashgen("tune", "import", file, "--replace").stdout


def test_an_imported_record_of_another_machine_is_kept_and_not_used(flashgen: Any, tmp_path: Path) -> None:
    flashgen(*TUNE)
    file = tmp_path / "records.json"
    flashgen("tune", "export", file)
    flashgen("tune", "clear")
    bundle = json.loads(file.read_text())
    bundle["records"][0][0]["valid_for"]["device"] = "Another CPU"
    file.write_text(json.dumps(bundle))
    result = flashgen("tune", "import", file)
    assert "is not valid on this machine: device 'Another CPU', here " in result.stdout
    (record,) = json.loads(flashgen("tune", "list", "--json").stdout)["records"]
    assert not record["valid_here"]
    assert "Tuned: 32 x 16" in flashgen("tune", "show", record["name"]).stdout


@pytest.mark.parametrize(
    "change",
    [[], "text", {"flashgen_tuning_export": 2}, {"records": [[{}]]}, {"records": [[]]}, {"records": 5},
     {"records": [5]}, {"records": [[5]]}],
)  # fmt: skip
def test_files_that_are_no_exports_are_refused(flashgen: Any, tmp_path: Path, change: Any) -> None:
    flashgen(*TUNE)
    file = tmp_path / "records.json"
    flashgen("tune", "export", file)
    data = json.loads(file.read_text())
    file.write_text(json.dumps(data | change if isinstance(change, dict) else change))
    result = flashgen("tune", "import", file)
    assert result.exit_code == 2
    assert result.stderr.startswith("Error: ")
    assert len(json.loads(flashgen("tune", "list", "--json").stdout)["records"]) == 1


def test_an_import_cannot_write_outside_the_records(flashgen: Any, tmp_path: Path) -> None:
    flashgen(*TUNE)
    file = tmp_path / "records.json"
    flashgen("tune", "export", file)
    for key, value in (("family", "../../evil"), ("bucket", "../h1_q1_k1"), ("target", "../sm_80")):
        bundle = json.loads(file.read_text())
        bundle["records"][0][0]["request"][key] = value
        (tmp_path / "evil.json").write_text(json.dumps(bundle))
        assert flashgen("tune", "import", tmp_path / "evil.json").exit_code == 2


def test_a_name_must_be_one_records(flashgen: Any) -> None:
    flashgen(*TUNE)
    result = flashgen("tune", "show", "zzzz")
    assert result.exit_code == 2
    assert "No tuning record is called 'zzzz'" in result.stderr


@pytest.mark.parametrize(
    ("result", "reasons", "words"),
    [
        ({"verdict": "tuned"}, (), "yes"),
        (None, (), "no: unfinished"),
        ({"verdict": "tuned"}, ("templates 'a1', here 'b2'", "threads '2', here '4'"), "no: other templates"),
        (None, ("no compiler for the target is here",), "no: no compiler for the target is here"),
    ],
)
def test_the_list_says_in_few_words_whether_builds_use_a_record(
    result: dict[str, str] | None, reasons: tuple[str, ...], words: str
) -> None:
    record = Record({}, {}, "2026-01-01", result=result)
    entry = Entry(Path("none"), bucket_of(1, 1, 1), None, "0")
    assert _used_here(Kept("name", entry, record, reasons)) == words


def test_ctrl_c_says_that_what_was_measured_is_kept(flashgen: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("flashgen.tuning.api.tune_shape", interrupted)
    done = flashgen(*TUNE)
    assert done.exit_code == 130
    assert "the same command goes on from there.\nInterrupted." in done.output
