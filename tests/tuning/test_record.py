"""Records survive whatever may happen to a file."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from flashgen.tuning.records.record import RecordFile

REQUEST, VALID, PLAN = {"family": "cpu_fa2"}, {"device": "this"}, {"br": 64, "bc": 128, "knobs": {}}
KEY = "64x128 {}"


@pytest.fixture
def file(tmp_path: Path) -> RecordFile:
    made = RecordFile(tmp_path / "deep" / "h8_q1024_k1024.0123456789ab.jsonl")
    made.start(REQUEST, VALID, "2026-01-01T00:00:00+00:00")
    return made


def turn(seconds: float) -> dict[str, object]:
    return {"turns": {"plan": PLAN, "stage": "screening", "seconds": [seconds], "reference": [1.0]}}


def test_what_is_written_is_read(file: RecordFile) -> None:
    file.append(turn(0.5), turn(0.25))
    file.append({"failed": {"plan": PLAN | {"bc": 32}, "kind": "crash", "reason": "SIGSEGV"}})
    file.append({"result": {"chosen": PLAN}})
    record = file.read()
    assert record is not None
    assert (record.request, record.valid_for, record.created) == (REQUEST, VALID, "2026-01-01T00:00:00+00:00")
    assert record.turns == {KEY: {"screening": [(0.5, 1.0), (0.25, 1.0)]}}
    assert record.failures["64x32 {}"]["kind"] == "crash"
    assert record.result == {"chosen": PLAN}


def test_builds_read_the_header_and_the_last_result_only(file: RecordFile) -> None:
    file.append(turn(0.5), {"result": {"chosen": PLAN | {"br": 8}}}, turn(0.5), {"result": {"chosen": PLAN}})
    file.append(turn(0.25))
    concluded = file.conclusion()
    assert concluded is not None
    assert concluded.valid_for == VALID
    assert concluded.result == {"chosen": PLAN}
    assert len(concluded.turns.get(KEY, {}).get("screening", ())) <= 1


def test_without_a_result_the_conclusion_has_none(file: RecordFile) -> None:
    file.append(turn(0.5))
    concluded = file.conclusion()
    assert concluded is not None
    assert concluded.result is None


def test_a_line_that_a_killed_writer_left_half_is_skipped_and_the_next_one_is_not_glued_to_it(file: RecordFile) -> None:
    file.append(turn(0.5))
    with file.path.open("a") as stream:
        stream.write('{"turns": {"plan": {"br": 64, "bc"')
    file.append(turn(0.25))
    record = file.read()
    assert record is not None
    assert record.turns[KEY]["screening"] == [(0.5, 1.0), (0.25, 1.0)]


@pytest.mark.parametrize(
    "line", ["null", "[1]", "{}", '{"turns": 3}', '{"failed": {}}', '{"future": {"x": 1}}', "\0\0\0", "[" * 100_000]
)
def test_lines_that_make_no_sense_are_skipped(file: RecordFile, line: str) -> None:
    with file.path.open("a") as stream:
        stream.write(line + "\n")
    file.append(turn(0.5))
    record = file.read()
    assert record is not None
    assert record.turns[KEY]["screening"] == [(0.5, 1.0)]


@pytest.mark.parametrize("text", ["", "\n", "garbage\n", '{"record": 2}\n', '{"record": 1, "request": 5}\n'])
def test_without_a_header_there_is_no_record(file: RecordFile, text: str) -> None:
    file.path.write_text(text)
    assert file.read() is None


def test_there_is_no_record_in_a_file_that_does_not_exist(tmp_path: Path) -> None:
    assert RecordFile(tmp_path / "none.jsonl").read() is None


def test_a_restart_forgets_turns_but_no_failures(file: RecordFile) -> None:
    file.append(turn(0.5), {"failed": {"plan": PLAN, "kind": "hang", "reason": ""}})
    file.append({"restart": {"reason": "the reference failed"}})
    record = file.read()
    assert record is not None
    assert not record.turns
    assert record.failures


def test_lines_of_many_writers_stay_whole(file: RecordFile) -> None:
    writers = [
        threading.Thread(target=lambda n=n: [file.append(turn(n), turn(n)) for _ in range(25)]) for n in range(1, 5)
    ]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    record = file.read()
    assert record is not None
    seconds = [mine for mine, _ in record.turns[KEY]["screening"]]
    assert sorted(seconds) == sorted([float(n) for n in range(1, 5)] * 50)
    assert seconds[::2] == seconds[1::2]  # two lines of one append stand together
    assert all(json.loads(line) for line in file.path.read_text().splitlines())


def test_removing_leaves_nothing(file: RecordFile) -> None:
    file.append(turn(1.0))
    file.remove()
    assert list(file.path.parent.iterdir()) == []


def test_a_removed_record_is_not_brought_back_headless(file: RecordFile) -> None:
    file.remove()
    with pytest.raises(FileNotFoundError):
        file.append(turn(1.0))
    assert file.read() is None
