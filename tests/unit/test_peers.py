"""Other libraries in the benchmark: that each computes attention, and says why where it cannot."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

from flashgen.dtypes import BF16, FP16, FP32, FP64, DType
from flashgen.errors import SpecError
from flashgen.measure import bench as bench_module
from flashgen.measure.bench import bench, turns
from flashgen.measure.clock import Comparison, Timing
from flashgen.measure.peers import PEERS, SDPA, Peer, named_peers
from flashgen.measure.picture import contenders, groups
from flashgen.measure.workload import Workload
from flashgen.reference import attention_reference
from flashgen.spec import Causal

BY_KEY = {peer.key: peer for peer in PEERS}
EPSILON = {FP64: 1e-13, FP32: 2e-6, FP16: 2.0**-11, BF16: 2.0**-8}


def workload(dtype: DType = FP32, causal: Causal = Causal.NONE, heads_kv: int = 4) -> Workload:
    return Workload(2, 4, heads_kv, 37, 37, 24, 24, dtype, causal)


def check(peer: Peer, work: Workload) -> None:
    """The peer's answer is the oracle's, to within roundings of P and of the result to the type."""
    q, k, v = work.inputs()
    call = peer.prepare(work, q, [(k, v)])
    weighted = np.concatenate([v.astype(np.float64), abs(v.astype(np.float64))], axis=-1)
    both, _ = attention_reference(q, k, weighted, causal=work.causal)
    expected, weight = both[..., : work.d_v], both[..., work.d_v :]
    for _ in range(2):  # what is timed is a later call
        got = peer.as_array(call(), work)
        assert got.shape == expected.shape
        # Logits may be rounded, too, where a library multiplies in the type: hence 4.
        assert (abs(got - expected) / (weight + abs(expected))).max() <= 4 * EPSILON[work.dtype]


CASES = [
    (peer, dtype, causal)
    for peer in PEERS
    if peer.key != "flex"  # ten seconds of compilation each
    for dtype in peer.dtypes
    for causal in (Causal.NONE, Causal.TOP_LEFT)
]


@pytest.mark.parametrize(("peer", "dtype", "causal"), CASES, ids=lambda value: getattr(value, "key", str(value)))
def test_a_peer_computes_attention(peer: Peer, dtype: DType, causal: Causal) -> None:
    if missing := peer.missing():
        pytest.skip(f"{peer.name} needs {missing}")
    work = workload(dtype, causal)
    assert peer.why_not(work) is None
    check(peer, work)


@pytest.mark.parametrize(
    ("dtype", "causal", "heads_kv"),
    [
        (FP32, Causal.BOTTOM_RIGHT, 2),
        pytest.param(FP16, Causal.NONE, 4, marks=pytest.mark.slow),
        pytest.param(BF16, Causal.TOP_LEFT, 4, marks=pytest.mark.slow),
    ],
    ids=str,
)
@pytest.mark.filterwarnings("default")  # torch's compiler warns of itself
def test_compiled_flex_attention_computes_attention(dtype: DType, causal: Causal, heads_kv: int) -> None:
    pytest.importorskip("torch")
    check(BY_KEY["flex"], workload(dtype, causal, heads_kv))


def test_torch_computes_grouped_heads() -> None:
    pytest.importorskip("torch")
    check(SDPA, workload(heads_kv=2))


def test_a_peer_says_what_it_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    assert all(peer.why_not(workload()) is None for peer in PEERS)
    assert BY_KEY["ort"].why_not(workload(BF16)) == "ONNX Runtime MHA has no bf16."
    assert BY_KEY["flex"].why_not(workload(FP64)) == "FlexAttention has no fp64."
    assert BY_KEY["openvino"].why_not(workload(heads_kv=2)) == "OpenVINO SDPA has no grouped heads."
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert BY_KEY["openvino"].why_not(workload(BF16)) == (
        "OpenVINO SDPA needs openvino: pip install 'flashgen[bench]'."
    )


def test_peers_are_named_by_a_list() -> None:
    assert named_peers("all") == PEERS
    assert [peer.key for peer in named_peers(" ort, SDPA,ort")] == ["sdpa", "ort"]
    with pytest.raises(SpecError, match=r"no peer 'mkl'\. Peers are sdpa, matmul, flex, ort, openvino, or all"):
        named_peers("ort,mkl")
    with pytest.raises(SpecError, match="empty"):
        named_peers(" , ")


class Stub(Peer):
    """A peer that needs nothing, or fails."""

    key, packages, dtypes = "stub", (), (FP32,)

    def __init__(self, name: str, error: Exception | None = None) -> None:
        self.name = name  # type: ignore[misc]
        self.error = error

    def prepare(self, work, q, caches):
        if self.error is not None:
            raise self.error
        return lambda: None

    def as_array(self, result, work):
        raise NotImplementedError


def test_ratios_are_to_the_sdpa_and_to_the_fastest_peer(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = {"flashgen fa2": 1.0, "torch SDPA": 4.0, "other": 2.0}
    timings = {name: Timing(median, 0.0, 1, 0) for name, median in seconds.items()}
    monkeypatch.setattr(bench_module, "compare", lambda *_, **__: Comparison(timings, 100.0))
    result = bench([workload()], ["fa2"], peers=[Stub("torch SDPA"), Stub("other")], rounds=1)
    assert {row.name: row.ratio_to_sdpa for row in result.rows} == {
        "flashgen fa2": 4.0,
        "torch SDPA": 1.0,
        "other": 2.0,
    }
    assert {row.name: row.ratio_to_best_peer for row in result.rows} == {
        "flashgen fa2": 2.0,
        "torch SDPA": 0.5,
        "other": 1.0,
    }


def test_a_peer_that_fails_costs_no_other_row() -> None:
    broken = Stub("broken", RuntimeError("first line\nsecond line"))
    peers, works = [broken, Stub("sound")], [workload(), workload(causal=Causal.TOP_LEFT), workload(FP64)]
    result = bench(works, ["fa1"], peers=peers, rounds=1)
    assert [row.name for row in result.rows] == ["flashgen fa1", "sound"] * 2 + ["flashgen fa1"]
    assert result.absent == ("broken failed: RuntimeError: first line", "broken has no fp64.", "sound has no fp64.")
    assert turns(works, ["fa1"], 3, peers) == 3 * (3 + 4)


def test_the_picture_keeps_a_contenders_colour_and_groups_by_workload() -> None:
    names = ("flashgen fa1", "flashgen fa2", "torch SDPA", "OpenVINO SDPA")
    rows = [
        {"name": name, "shape": [1, 8, n, 64], "causal": causal, "dtype": "fp32"}
        for n in (512, 1024)
        for causal in (False, "top_left")
        for name in names
    ]
    colours = contenders(rows)
    assert list(colours) == list(names)
    assert len(set(colours.values())) == 4
    assert contenders(rows[3:4]) == {"OpenVINO SDPA": colours["OpenVINO SDPA"]}
    assert list(groups(rows)) == [f"B1 H8 N{n} d64\n{mask}" for n in (512, 1024) for mask in ("full", "causal")]
    assert all([row["name"] for row in group] == list(names) for group in groups(rows).values())
