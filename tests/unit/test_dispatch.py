"""Attention picks the kernel for a call's shape, and remembers what it checked."""

from __future__ import annotations

import numpy as np
import pytest

import flashgen
from flashgen.compilation.toolchains.nvrtc_library import find_nvrtc
from flashgen.errors import ArgumentError
from flashgen.reference import attention_reference


def arrays(rows: int, keys: int, d: int = 24) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(rows + keys)
    q = rng.standard_normal((1, 2, rows, d), dtype=np.float32)
    k, v = (rng.standard_normal((1, 2, keys, d), dtype=np.float32) for _ in range(2))
    return q, k, v


def test_short_sequences_have_a_kernel_of_their_own_that_is_built_on_first_use() -> None:
    attn = flashgen.build(d=24, dtype="fp32", target="cpu")
    assert set(attn._kernels) == {"prefill"}
    long, short = arrays(65, 70), arrays(64, 70)
    assert attn.plan_for(*long[:2]) == attn.plan
    assert set(attn._kernels) == {"prefill"}
    small = attn.plan_for(*short[:2])
    assert set(attn._kernels) == {"prefill", "small"}
    assert small.footprint.total < attn.plan.footprint.total
    assert small.trail[0].startswith("small: cpu_fa2 uses a")
    for q, k, v in (long, short):
        np.testing.assert_allclose(attn(q, k, v), attention_reference(q, k, v)[0], atol=2e-6)


def test_a_tile_that_the_user_named_serves_every_length() -> None:
    attn = flashgen.build(d=24, dtype="fp32", target="cpu", br=64, bc=64)
    assert attn.plan_for(*arrays(8, 8)[:2]) is attn.plan


def test_the_small_kernel_keeps_to_the_budget() -> None:
    attn = flashgen.build(d=24, dtype="fp32", target="cpu", sram="16KB")
    assert attn.plan_for(*arrays(8, 8)[:2]).footprint.total <= 16384


def test_warm_builds_ahead() -> None:
    attn = flashgen.build(d=25, dtype="fp32", target="cpu")
    attn.warm([(128, 128), (16, 512), (1, 512)])
    assert set(attn._kernels) == {"prefill", "small", "decode"}


def test_the_same_request_is_the_same_object_and_others_are_not() -> None:
    assert flashgen.build(d=24, dtype="fp32") is flashgen.build(d=24, dtype="fp32")
    assert flashgen.build(d=24, dtype="fp32") is not flashgen.build(d=24, dtype="fp32", causal=True)


def test_a_signature_is_checked_once_and_forgotten_before_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flashgen.runtime.dispatch._MAX_REMEMBERED", 3)
    attn = flashgen.build(d=26, dtype="fp32")
    for rows in (3, 4, 5, 6, 3):
        attn(*arrays(rows, 7, d=26))
    assert len(attn._bound) <= 3


def test_a_masked_array_is_refused_even_after_a_plain_one_of_its_shape() -> None:
    attn = flashgen.build(d=24, dtype="fp32")
    q, k, v = arrays(9, 9)
    attn(q, k, v)
    with pytest.raises(ArgumentError, match="masked"):
        attn(np.ma.masked_array(q), k, v)


def test_the_callable_says_what_it_is() -> None:
    attn = flashgen.build(d=24, dtype="fp32", target="cpu:x86-64-v3", algorithm="fa1")
    assert repr(attn) == "<flashgen.Attention d=24, fp32, no mask on cpu:x86-64-v3: cpu_fa1, tile 64 x 64>"


@pytest.mark.skipif(not find_nvrtc(), reason="no NVRTC: pip install 'flashgen[cuda]'")
def test_few_rows_of_a_kv_head_go_to_the_decode_kernel() -> None:
    """What counts is the rows of all heads that share it: 4 heads of 4 rows fill the tile, of 5 are too many for it.

    A single row of each head goes there however many heads there are.
    """
    attn = flashgen.build(d=64, dtype="fp16", target="sm_80", loader="emulator")

    def family_for(rows: int, heads: int, heads_kv: int) -> str:
        q = np.zeros((1, heads, rows, 64), np.float16)
        return attn.plan_for(q, np.zeros((1, heads_kv, 300, 64), np.float16)).family

    assert family_for(1, 40, 1) == family_for(4, 8, 2) == family_for(16, 3, 3) == "cuda_decode"
    assert family_for(2, 17, 1) == family_for(5, 8, 2) == family_for(17, 3, 3) == "cuda_fa2_mma"
    rng = np.random.default_rng(0)
    q, k, v = (
        rng.standard_normal((1, heads, rows, 64)).astype(np.float16) for heads, rows in ((8, 1), (2, 300), (2, 300))
    )
    np.testing.assert_allclose(attn(q, k, v).astype(float), attention_reference(q, k, v)[0], atol=1e-3)


@pytest.mark.skipif(not find_nvrtc(), reason="no NVRTC: pip install 'flashgen[cuda]'")
def test_another_algorithm_is_used_for_every_shape() -> None:
    attn = flashgen.build(d=64, dtype="fp16", target="sm_80", algorithm="fa1", loader="emulator")
    assert attn.plan_for(np.zeros((1, 2, 1, 64), np.float16), np.zeros((1, 2, 9, 64), np.float16)).family == "cuda_fa1"
