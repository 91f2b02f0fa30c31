"""The decode benchmark's arithmetic. No test here depends on how fast anything is."""

from __future__ import annotations

import numpy as np
import pytest

from flashgen.dtypes import BF16, FP32
from flashgen.measure import decode
from flashgen.measure.decode import bench_decode, sets, turns
from flashgen.measure.memory import ReadProbe
from flashgen.measure.peers import PEERS, Peer
from flashgen.measure.workload import Workload
from flashgen.reference import attention_reference

WORK = Workload(2, 6, 3, 1, 40, 16, 16, FP32)


def test_bytes_are_those_of_k_and_v():
    assert WORK.kv_bytes == 2 * 2 * 3 * 40 * 16 * 4
    assert Workload(1, 32, 8, 1, 4096, 64, 64, BF16).kv_bytes == 8 << 20


def test_as_many_sets_take_turns_as_no_cache_holds_but_not_without_end():
    assert sets(WORK, 10 * WORK.kv_bytes) == 10
    assert sets(WORK, 10 * WORK.kv_bytes + 1) == 11
    assert sets(WORK, 1) == 1
    assert sets(WORK, 10**12) == 512


def test_every_set_is_read_in_turn_and_none_shares_memory_with_another():
    seen = []
    _, caches = decode._inputs(WORK, 3 * WORK.kv_bytes)
    call = decode.in_turn(lambda kv: seen.append(kv[0].ctypes.data), caches)
    for _ in range(6):
        call()
    assert seen == 2 * [k.ctypes.data for k, _ in caches]
    assert len(set(seen)) == 3


def test_packed_heads_are_the_same_attention():
    q, k, v = WORK.inputs()
    packed = WORK.packed()
    assert (packed.heads, packed.seqlen_q) == (3, 2)
    expected, _ = attention_reference(q, k, v)
    result, _ = attention_reference(q.reshape(packed.q_shape), k, v)
    np.testing.assert_allclose(result.reshape(expected.shape), expected, atol=1e-14)
    assert packed.packed() == packed


@pytest.mark.parametrize("heads_kv", [3, 6])
def test_sdpa_gets_the_heads_as_they_are_and_every_peer_gets_them_packed(heads_kv):
    able = [peer for peer in PEERS if peer.key in ("sdpa", "matmul") and not peer.missing()]
    work = Workload(2, 6, heads_kv, 1, 40, 16, 16, FP32)
    seen = []

    class Spy(Peer):
        key, name, packages, dtypes, grouped = "spy", "spy", (), (FP32,), False

        def prepare(self, work, q, caches):
            seen.append((work, q.shape))
            return lambda: None

        def as_array(self, result, work):
            raise NotImplementedError

    q, caches = decode._inputs(work, 2 * work.kv_bytes)
    calls, absent = decode._peers([*able, Spy()], work, q, caches)
    assert not absent
    suffix = "" if heads_kv == 6 else ", packed"
    assert "spy" + suffix in calls
    assert seen == [(work.packed(), (2, heads_kv, 6 // heads_kv, 16))]
    expected, _ = attention_reference(q, *caches[0])
    for peer in able:
        shapes = [(peer.name + suffix, work.packed())] + ([(peer.name, work)] if peer.key == "sdpa" else [])
        for name, variant in shapes:
            got = peer.as_array(calls[name](), variant)
            np.testing.assert_allclose(got.reshape(expected.shape), expected, atol=1e-5)
    assert len(calls) == len(able) + 1 + (suffix != "") * bool(able)


def test_the_read_probe_counts_whole_pieces_and_remembers_its_best(monkeypatch):
    probe = ReadProbe(1 << 20)
    assert probe.best > 0
    monkeypatch.setattr(probe, "best", 0.0)
    assert probe.measure() == probe.best > 0


def test_rates_follow_from_the_times(monkeypatch):
    monkeypatch.setattr(decode, "torch_is_here", lambda: False)
    told, how = [], {"peers": (), "rounds": 2}
    result = bench_decode([WORK], ["decode", "fa2"], cold_bytes=1 << 20, progress=lambda: told.append(1), **how)
    assert len(told) == turns([WORK], ["decode", "fa2"], **how) == 4
    assert [row.name for row in result.rows] == ["flashgen decode", "flashgen fa2"]
    for row in result.rows:
        assert row.gbytes_per_s == pytest.approx(WORK.kv_bytes / row.timing.median_s / 1e9)
        assert row.read_fraction == pytest.approx(row.gbytes_per_s / row.read_gbytes_per_s)
        assert row.ratio_to_sdpa is row.ratio_to_best_peer is None
        assert row.is_cold
