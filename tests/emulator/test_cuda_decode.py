"""cuda_decode: packed heads, split keys, joined parts; right, clean, and with bits that follow from the sizes alone."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from flashgen.families import family_named
from flashgen.launch_plan import resolve
from flashgen.spec import make_spec
from flashgen.target import PRESETS, parse_target
from flashgen.tiling import plan_tiles

from .test_families import CAUSAL, ORDERS, assert_right, attend, tensors

# batch, heads, heads_kv, seqlen_q, seqlen_k: one split and several, one tile of packed rows and several
SHAPES = [
    (1, 8, 2, 1, 300),
    (1, 1, 1, 1, 1000),
    (2, 8, 8, 1, 130),
    (1, 4, 1, 3, 700),
    (2, 6, 2, 7, 520),
    (1, 2, 2, 5, 3),
]


@pytest.mark.parametrize("causal", CAUSAL)
@pytest.mark.parametrize("dtype,d,dv", [("fp16", 64, 64), ("bf16", 128, 128), ("fp16", 80, 72), ("bf16", 256, 40)])
def test_right_and_clean(dtype: str, d: int, dv: int, causal: bool | str) -> None:
    for shape, order in zip(SHAPES, itertools.cycle(ORDERS), strict=False):
        q, k, v = tensors(dtype, *shape, d, dv, seed=sum(shape))
        result = attend("cuda_decode", q, k, v, dtype, causal, order=order)
        result.raise_for_findings()
        assert_right(result, q, k, v, dtype, causal)
        assert sum(report.shared.conflicts for report in result.reports) == 0


def test_keys_and_values_are_read_once_for_all_heads_of_a_group() -> None:
    q, k, v = tensors("fp16", 2, 8, 2, 2, 600, 64, 64)
    reports = attend("cuda_decode", q, k, v, "fp16").reports
    assert reports[0].traffic["k"].load_bytes == k.nbytes
    assert reports[0].traffic["v"].load_bytes == v.nbytes
    assert reports[0].traffic["q"].load_bytes == q.nbytes * 3  # once for each split


def test_one_split_needs_no_second_launch() -> None:
    q, k, v = tensors("fp16", 1, 4, 1, 2, 200, 64, 64)
    result = attend("cuda_decode", q, k, v, "fp16", True)
    result.raise_for_findings()
    assert len(result.reports) == 1
    assert_right(result, q, k, v, "fp16", True)


def test_splits_follow_from_the_sizes_and_not_from_the_device() -> None:
    family, spec, target = family_named("cuda_decode"), make_spec(64, "fp16"), parse_target("sm_80")
    plan = family.launch_plan(spec, plan_tiles(family, spec, target, PRESETS[target]))
    strides = ((0, 0, 0),) * 4
    grids = {resolve(plan, (1, 32, 8, 1, 8192), strides, sm_count).grids for sm_count in (1, 40, 132)}
    assert grids == {((8, 27, 1), (8, 1, 1))}


@pytest.mark.parametrize("splits", [1, 3])
def test_large_logits_in_one_part_leave_nothing_of_the_others(splits: int) -> None:
    q, k, v = tensors("bf16", 1, 2, 1, 1, 256 * splits, 64, 64)
    q[...] = 1
    k[:, :, 5] = 2.0**60
    result = attend("cuda_decode", q, k, v, "bf16")
    result.raise_for_findings()
    np.testing.assert_allclose(result.out.astype(float), np.broadcast_to(v[:, :, 5:6], q.shape), atol=1e-2)
    assert np.all(result.lse > 1e18)


def test_parts_with_equal_large_logits_weigh_alike() -> None:
    """Two keys of 2^70 in different splits: LSE alone could not tell their sums apart."""
    q, k, v = tensors("bf16", 1, 1, 1, 1, 600, 64, 64)
    q[...] = 1
    k[:, :, 5] = k[:, :, 555] = 2.0**64
    result = attend("cuda_decode", q, k, v, "bf16")
    result.raise_for_findings()
    want = (v[0, 0, 5].astype(float) + v[0, 0, 555].astype(float)) / 2
    np.testing.assert_allclose(result.out[0, 0, 0].astype(float), want, atol=2e-2)


@pytest.mark.parametrize("target", ["sm_75", "sm_86", "sm_90", "sm_120"])
def test_other_architectures(target: str) -> None:
    q, k, v = tensors("fp16", 1, 4, 2, 2, 400, 256, 256)
    result = attend("cuda_decode", q, k, v, "fp16", True, target=target)
    result.raise_for_findings()
    assert_right(result, q, k, v, "fp16", True)
