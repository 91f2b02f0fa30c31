"""Builds use what was tuned: at the right shapes, on the right machine, unless they are told not to."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import flashgen
from flashgen import log
from flashgen.api import _built, forget_built
from flashgen.families import family_named
from flashgen.reference import attention_reference
from flashgen.runtime.device import host_target
from flashgen.settings import read_settings
from flashgen.spec import make_spec
from flashgen.tuning.records import lookup
from flashgen.tuning.records.bucket import bucket_of
from flashgen.tuning.records.directory import record_path, tuning_directory
from flashgen.tuning.records.record import RecordFile
from flashgen.tuning.records.validity import validity_here

D = 24
SPEC, FAMILY = make_spec(D, "fp32"), family_named("cpu_fa2")
TUNED = (96, 48)
BUCKET = bucket_of(2, 100, 100)

Write = Callable[..., Path]


@pytest.fixture(autouse=True)
def own_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Records of this test alone; kernels stay in the cache of all tests."""
    monkeypatch.setattr("flashgen.tuning.records.directory.cache_directory", lambda: tmp_path)
    monkeypatch.delenv("FLASHGEN_TUNED", raising=False)
    log._said.clear()
    forget_built()
    yield
    forget_built()


@pytest.fixture
def write() -> Write:
    """Writes a record as a sweep would."""

    def made(
        tile: tuple[int, int] = TUNED,
        *,
        bucket: Any = BUCKET,
        sram_bytes: int | None = None,
        replaces_default: bool = True,
        changes: dict[str, str] | None = None,
        knobs: dict[str, int] | None = None,
        name_of_this_machine: bool = False,
    ) -> Path:
        here = dict(validity_here(host_target()))
        valid = here | (changes or {})
        path = record_path(
            host_target(), FAMILY.name, SPEC, bucket, sram_bytes, here if name_of_this_machine else valid
        )
        file = RecordFile(path)
        file.start({"family": FAMILY.name}, valid, "2026-01-01T00:00:00+00:00")
        own = FAMILY.knobs(SPEC, host_target(), *tile)
        plan = {"br": tile[0], "bc": tile[1], "knobs": knobs or {f: getattr(own, f) for f in own.__slots__}}
        file.append(
            {"result": {"chosen": plan, "replaces_default": replaces_default, "verdict": "tuned: 0.9 of the default"}}
        )
        return path

    return made


def build(**options: Any) -> flashgen.Attention:
    return flashgen.build(D, "fp32", target="cpu", **options)


def arrays(rows: int, heads: int = 2) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(rows)
    return tuple(rng.standard_normal((1, heads, rows, D), dtype=np.float32) for _ in range(3))


def tile_for(attn: flashgen.Attention, rows: int, heads: int = 2) -> tuple[int, int, str]:
    q, k, _ = arrays(rows, heads)
    plan = attn.plan_for(q, k)
    return plan.br, plan.bc, plan.origin


def test_a_tuned_plan_serves_its_bucket_and_no_other(write: Write) -> None:
    write()
    attn = build()
    default = (attn.plan.br, attn.plan.bc, "default")
    assert default[:2] != TUNED
    assert tile_for(attn, 100) == (*TUNED, "tuned")
    assert tile_for(attn, 65) == (*TUNED, "tuned")
    assert tile_for(attn, 128) == (*TUNED, "tuned")
    assert tile_for(attn, 129) == default
    assert tile_for(attn, 100, heads=3) == default
    assert tile_for(attn, 64)[2] == "default"
    assert attn.plan_for(*arrays(100)[:2]).trail == ("tuned: 0.9 of the default",)


def test_the_tuned_kernel_computes_attention_and_is_built_on_first_use(write: Write) -> None:
    write()
    attn = build()
    assert set(attn._kernels) == {"prefill"}
    q, k, v = arrays(100)
    np.testing.assert_allclose(attn(q, k, v), attention_reference(q, k, v)[0], atol=2e-6)
    assert set(attn._kernels) == {"prefill", f"tuned for {BUCKET.name}"}


def test_attention_uses_it_too(write: Write) -> None:
    write()
    q, k, v = arrays(100)
    flashgen.attention(q, k, v, target="cpu")
    (attn,) = _built.values()
    assert f"tuned for {BUCKET.name}" in attn._kernels


def test_buckets_with_the_same_plan_share_a_kernel(write: Write) -> None:
    write()
    write(bucket=bucket_of(2, 200, 200))
    attn = build()
    attn.warm([(2, 100, 100), (2, 200, 200)])
    assert len(attn._kernels) == 2


def test_warm_builds_the_tuned_kernel_ahead(write: Write) -> None:
    write()
    attn = build()
    attn.warm([(2, 100, 100)])
    assert f"tuned for {BUCKET.name}" in attn._kernels


def test_short_calls_can_be_tuned(write: Write) -> None:
    write(bucket=bucket_of(2, 16, 16))
    assert tile_for(build(), 16) == (*TUNED, "tuned")


@pytest.mark.parametrize("options", [{"tuned": False}, {"br": 64, "bc": 64}, {"br": 64}])
def test_a_build_that_asks_for_something_else_gets_it(write: Write, options: dict[str, Any]) -> None:
    write()
    assert tile_for(build(**options), 100)[2] != "tuned"


@pytest.mark.parametrize("value", ["0", "off", "No", "false "])
def test_the_environment_can_turn_it_off_and_the_keyword_on(
    write: Write, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    write()
    monkeypatch.setenv("FLASHGEN_TUNED", value)
    assert not read_settings().tuned
    assert tile_for(build(), 100)[2] == "default"
    assert tile_for(build(tuned=True), 100)[2] == "tuned"
    monkeypatch.setenv("FLASHGEN_TUNED", "1")
    assert tile_for(build(), 100)[2] == "tuned"


def test_a_record_counts_for_builds_with_its_own_budget(write: Write) -> None:
    write(sram_bytes=98304)
    assert tile_for(build(), 100)[2] == "default"
    assert tile_for(build(sram="96KB"), 100)[2] == "tuned"
    assert tile_for(build(sram="64KB"), 100)[2] == "rule"


def test_where_the_default_stood_it_stands(write: Write) -> None:
    write(replaces_default=False)
    assert tile_for(build(), 100)[2] == "default"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"device": "Another CPU", "cpu model": "1 2 3"}, "device 'Another CPU', here "),
        ({"threads": "77"}, "threads '77', here "),
        ({"templates": "0123"}, "templates '0123', here "),
        ({"flashgen": "0.0.1"}, "flashgen '0.0.1', here '0.1.0'"),
        ({"toolchain compiler": "gcc 1"}, "toolchain compiler 'gcc 1', here "),
        ({"nobody knows": "this"}, "nobody knows 'this', here unknown"),
    ],
)
@pytest.mark.parametrize("name_of_this_machine", [False, True])
def test_a_record_from_elsewhere_is_ignored_and_said_so_once(
    write: Write,
    caplog: pytest.LogCaptureFixture,
    changes: dict[str, str],
    words: str,
    name_of_this_machine: bool,
) -> None:
    write(changes=changes, name_of_this_machine=name_of_this_machine)
    with caplog.at_level(logging.WARNING, "flashgen"):
        assert tile_for(build(), 100)[2] == "default"
        forget_built()
        build()
    (message,) = [record.getMessage() for record in caplog.records]
    assert words in message
    assert "is not valid here and is ignored" in message


def test_records_of_other_machines_do_not_disturb_this_ones(write: Write, caplog: pytest.LogCaptureFixture) -> None:
    write((16, 16), changes={"device": "Another CPU"})
    write()
    with caplog.at_level(logging.WARNING, "flashgen"):
        assert tile_for(build(), 100) == (*TUNED, "tuned")
    assert not caplog.records


def test_a_plan_that_the_family_no_longer_has_is_not_used(write: Write, caplog: pytest.LogCaptureFixture) -> None:
    write(knobs={"lanes": 3})
    with caplog.at_level(logging.WARNING, "flashgen"):
        assert tile_for(build(), 100)[2] == "default"
    assert "does not have any more" in caplog.text


@pytest.mark.parametrize("damage", ["", "garbage", '{"record": 1}\n', "\0"])
def test_a_damaged_record_is_no_record(write: Write, damage: str) -> None:
    write().write_text(damage)
    assert tile_for(build(), 100)[2] == "default"


@pytest.mark.parametrize("result", [{}, {"chosen": 5, "replaces_default": True}, {"replaces_default": 1}])
def test_a_result_that_makes_no_sense_is_no_result(write: Write, result: dict[str, Any]) -> None:
    path = write()
    header = path.read_text().splitlines()[0]
    path.write_text(f"{header}\n{json.dumps({'result': result})}\n")
    assert tile_for(build(), 100)[2] == "default"


def test_a_sweep_under_way_changes_nothing(write: Write) -> None:
    path = write()
    path.write_text(path.read_text().splitlines()[0] + "\n")
    assert tile_for(build(), 100)[2] == "default"


def test_without_records_a_build_looks_into_two_directories_and_does_nothing_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked: list[Any] = []

    def entries_in(directory: Path) -> list[Any]:
        looked.append(directory)
        return []

    def never(*_: Any) -> Any:
        raise AssertionError("the machine was asked about")

    monkeypatch.setattr(lookup, "entries_in", entries_in)
    monkeypatch.setattr(lookup, "validity_here", never)
    build()
    build()
    here = tuning_directory() / str(host_target()).replace(":", "_")
    assert looked == [here / family / "d24_fp32" for family in ("cpu_fa2", "cpu_decode")]


def test_calls_of_a_known_signature_are_not_classified_again(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bucket is worked out once for each signature, so a call costs what it cost before."""
    write()
    attn = build()
    q, k, v = arrays(100)
    attn(q, k, v)
    monkeypatch.setattr(attn, "_classify", None)
    attn(q, k, v)
