"""Calls with few query rows go to a decode kernel: that is what a sweep tunes for them, and its record serves them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from planted_tools import MakeClock

import flashgen
from flashgen import log
from flashgen.api import forget_built
from flashgen.choice import choose
from flashgen.compilation.toolchains.nvrtc_library import find_nvrtc
from flashgen.families import family_named
from flashgen.families.cpu_decode import CpuDecode
from flashgen.families.cuda_decode import CudaDecode
from flashgen.reference import attention_reference
from flashgen.runtime.device import host_target, runs_here
from flashgen.spec import make_spec
from flashgen.target import parse_target
from flashgen.tuning.api import make_request, make_shape, space_for
from flashgen.tuning.records.archive import kept_records
from flashgen.tuning.records.bucket import Bucket, bucket_for, bucket_of
from flashgen.tuning.records.directory import record_path
from flashgen.tuning.records.plans import plan_data
from flashgen.tuning.records.record import RecordFile
from flashgen.tuning.records.validity import validity_here
from flashgen.tuning.sweep.bench import Tools
from flashgen.tuning.sweep.shape import Shape

D = 24
OPTIONS: dict[str, Any] = {"d": D, "dtype": "fp32", "target": "cpu"}


@pytest.fixture(autouse=True)
def own_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr("flashgen.tuning.records.directory.cache_directory", lambda: tmp_path)
    monkeypatch.delenv("FLASHGEN_TUNED", raising=False)
    log._said.clear()
    forget_built()
    yield
    forget_built()


def plan_for(heads: int, heads_kv: int, rows: int, keys: int = 200, **options: Any) -> Any:
    q, k = np.zeros((1, heads, rows, D), np.float32), np.zeros((1, heads_kv, keys, D), np.float32)
    return flashgen.build(**OPTIONS, **options).plan_for(q, k)


CALLS = {  # heads, heads_kv, rows
    "cpu:x86-64-v3": {(8, 8, 1): True, (8, 8, 8): True, (8, 8, 9): False, (8, 2, 8): True, (8, 2, 9): False,
                      (64, 2, 8): True},
    "sm_80": {(8, 8, 1): True, (8, 8, 16): True, (8, 8, 17): False, (8, 2, 4): True, (8, 2, 5): False,
              (64, 2, 1): True, (64, 2, 2): False},
}  # fmt: skip


@pytest.mark.parametrize("target", CALLS)
def test_a_sweep_tunes_the_family_that_a_build_uses_for_the_shape(target: str) -> None:
    """On CUDA, what counts is the rows of all heads that share a K and V; on the CPU, the queries of each head."""
    request = make_request(64, "fp16", False, None, target, "auto", None)
    kind = "cpu" if target.startswith("cpu") else "cuda"
    for (heads, heads_kv, rows), decodes in CALLS[target].items():
        shape = Shape(1, heads, heads_kv, rows, 4096)
        own, space = space_for(request, "auto", shape)
        choice = choose(request.spec, request.target, "auto", None)
        assert space.default.plan == choice.plans[choice.classify(shape.problem)]
        assert own.family.name == space.default.plan.family == space.candidates[-1].plan.family
        assert (own.family.name == f"{kind}_decode") is decodes, (heads, heads_kv, rows)
    own, _ = space_for(request, "fa2", Shape(1, 8, 8, 1, 4096))
    assert own.family.algorithm == "fa2"


def test_what_a_sweep_found_for_decoding_serves_decoding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CpuDecode, "candidates", lambda *_: ((32, 64), (32, 128)))
    monkeypatch.setattr(CpuDecode, "knob_choices", lambda self, *tile: (self.knobs(*tile),))
    before = plan_for(4, 2, 3)
    assert (before.family, before.br, before.bc, before.origin) == ("cpu_decode", 32, 64, "default")
    tools = Tools(clock=MakeClock({(32, 128): (0.5,), (32, 64): (1.0,)}))
    found = flashgen.autotune(seqlens=[(3, 200)], heads=4, heads_kv=2, tools=tools, **OPTIONS)
    assert (found.shapes[0].family.name, found.families) == ("cpu_decode", ("cpu_decode",))
    assert found.shapes[0].bucket.name == "kv2_rows8_k256"
    assert (found.best["B1 H4/2 3x200"].family, found.best["B1 H4/2 3x200"].bc) == ("cpu_decode", 128)
    tuned = plan_for(4, 2, 3)
    assert (tuned.family, tuned.br, tuned.bc, tuned.origin) == ("cpu_decode", 32, 128, "tuned")
    q = np.random.default_rng(0).standard_normal((1, 4, 3, D), np.float32)
    k = np.random.default_rng(1).standard_normal((1, 2, 200, D), np.float32)
    attn = flashgen.build(**OPTIONS)
    expected = attention_reference(q, k, k)[0]
    np.testing.assert_allclose(attn(q, k, k), expected, atol=2e-6)
    assert "decode" not in attn._kernels, "the tuned kernel did it"
    # As many rows to each K and V: two heads of three queries, or six of one, or one of six.
    for heads, rows, origin in ((6, 3, "default"), (12, 1, "tuned"), (2, 6, "tuned"), (2, 9, "default")):
        assert plan_for(heads, 2, rows).origin == origin, (heads, rows)
    assert plan_for(4, 4, 3).origin == "default", "four K and V are another bucket"
    assert plan_for(4, 2, 3, tuned=False).origin == "default"
    assert plan_for(4, 2, 3, algorithm="decode").origin == "tuned"
    (kept,) = kept_records()
    assert kept.entry.bucket.summary == "B*Hkv 2, packed rows 5-8, Sk 129-256"


def write(family: str, bucket: Bucket, tile: tuple[int, int]) -> None:
    spec, kind, here = make_spec(D, "fp32"), family_named(family), host_target()
    knobs = kind.knobs(spec, here, *tile)
    valid = validity_here(here)
    file = RecordFile(record_path(here, family, spec, bucket, None, valid))
    file.start({"family": family}, valid, "2026-01-01T00:00:00+00:00")
    plan = flashgen.plan(D, "fp32", target="cpu", algorithm=kind.algorithm, br=tile[0], bc=tile[1])
    assert plan.knobs == knobs
    file.append({"result": {"chosen": plan_data(plan), "replaces_default": True, "verdict": "tuned"}})


def test_plans_of_both_families_serve_their_own_calls_in_one_build() -> None:
    write("cpu_fa2", bucket_of(4, 9, 200), (96, 48))
    write("cpu_decode", bucket_for(family_named("cpu_decode"), 1, 4, 4, 8, 200), (32, 128))
    plans = [plan_for(4, 4, 8), plan_for(4, 1, 9), plan_for(4, 4, 7)]
    assert [(plan.family, plan.bc, plan.origin) for plan in plans] == [
        ("cpu_decode", 128, "tuned"), ("cpu_fa2", 48, "tuned"), ("cpu_decode", 128, "tuned"),
    ]  # fmt: skip


def test_warm_builds_what_calls_of_grouped_heads_run() -> None:
    attn = flashgen.build(**OPTIONS | {"d": D + 1})
    attn.warm([(32, 8, 1, 300)])
    assert set(attn._kernels) == {"prefill", "decode"}
    attn.warm([(32, 1, 9, 300)])
    assert set(attn._kernels) == {"prefill", "decode", "small"}


def test_many_shapes_of_one_sweep_may_have_several_families() -> None:
    request = make_request(64, "fp32", False, None, "cpu", "auto", None)
    names = [space_for(request, "auto", make_shape(length, 1, 8, None))[0].family.name for length in (64, (1, 64))]
    assert names == ["cpu_fa2", "cpu_decode"]


def test_the_knobs_of_decode_kernels_are_part_of_the_space() -> None:
    spec = make_spec(64, "fp16")
    for family, target, names in (
        (CpuDecode(), parse_target("cpu:x86-64-v3"), {"split_keys", "most_rows"}),
        (CudaDecode(), parse_target("sm_80"), {"warps", "stages", "ctas"}),
    ):
        choices = family.knob_choices(spec, target, *family.default_tile(spec, target))
        assert choices[0] == family.knobs(spec, target, *family.default_tile(spec, target))
        assert {name for name in names if len({getattr(knobs, name) for knobs in choices}) > 1} == names


@pytest.mark.skipif(not find_nvrtc(), reason="no NVRTC: pip install 'flashgen[cuda]'")
@pytest.mark.skipif(runs_here(parse_target("sm_80")), reason="there is a GPU here, so nothing is predicted")
def test_predictions_for_decoding_serve_decoding_where_nothing_can_be_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CudaDecode, "candidates", lambda *_: ((16, 64), (16, 32)))
    found = flashgen.autotune(16, "fp16", [(1, 600)], heads=8, heads_kv=2, target="sm_80", difference=1e-6).shapes[0]
    assert (found.how, found.family.name, found.bucket.name) == ("predicted", "cuda_decode", "kv2_rows4_k1024")
    steps = {trial.candidate.label: len(trial.details["steps"]) for trial in found.ranking}
    assert set(steps.values()) == {2}, "the splits are joined in a launch of its own"
    attn = flashgen.build(16, "fp16", target="sm_80", loader="emulator")
    q, k = np.zeros((1, 8, 1, 16), np.float16), np.zeros((1, 2, 600, 16), np.float16)
    plan = attn.plan_for(q, k)
    assert (plan.br, plan.bc, plan.knobs) == (found.best.br, found.best.bc, found.best.knobs)
    assert plan.origin == ("tuned" if found.replaces_default else "default")
