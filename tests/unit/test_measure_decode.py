"""The decode benchmark's arithmetic. No test here depends on how fast anything is."""

from __future__ import annotations

import numpy as np
import pytest

from flashgen.dtypes import BF16, FP32
from flashgen.measure import decode
from flashgen.measure.decode import DecodeWorkload, bench_decode, turns
from flashgen.measure.memory import ReadProbe

WORK = DecodeWorkload(2, 6, 3, 1, 40, 16, FP32)


def test_bytes_are_those_of_k_and_v():
    assert WORK.kv_bytes == 2 * 2 * 3 * 40 * 16 * 4
    assert DecodeWorkload(1, 32, 8, 1, 4096, 64, BF16).kv_bytes == 8 << 20


def test_as_many_sets_take_turns_as_no_cache_holds_but_not_without_end():
    assert WORK.sets(10 * WORK.kv_bytes) == 10
    assert WORK.sets(10 * WORK.kv_bytes + 1) == 11
    assert WORK.sets(1) == 1
    assert WORK.sets(10**12) == 512


def test_every_set_is_read_in_turn_and_none_shares_memory_with_another():
    seen = []
    cache = [(np.zeros(3), np.ones(3)) for _ in range(3)]
    call = decode._in_turn(lambda q, k, v: seen.append(k.ctypes.data), None, cache)
    for _ in range(6):
        call()
    assert seen == 2 * [k.ctypes.data for k, _ in cache]
    assert len(set(seen)) == 3


def test_the_read_probe_counts_whole_pieces_and_remembers_its_best(monkeypatch):
    probe = ReadProbe(1 << 20)
    assert probe.best > 0
    monkeypatch.setattr(probe, "best", 0.0)
    assert probe.measure() == probe.best > 0


def test_rates_follow_from_the_times(monkeypatch):
    monkeypatch.setattr(decode, "torch_is_here", lambda: False)
    told = []
    result = bench_decode([WORK], ["decode", "fa2"], rounds=2, cold_bytes=1 << 20, progress=lambda: told.append(1))
    assert len(told) == turns([WORK], ["decode", "fa2"], 2) == 4
    assert [row.name for row in result.rows] == ["flashgen decode", "flashgen fa2"]
    for row in result.rows:
        assert row.gbytes_per_s == pytest.approx(WORK.kv_bytes / row.timing.median_s / 1e9)
        assert row.read_fraction == pytest.approx(row.gbytes_per_s / row.read_gbytes_per_s)
        assert row.ratio_to_sdpa is None
        assert row.is_cold
