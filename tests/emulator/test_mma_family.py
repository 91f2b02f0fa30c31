"""cuda_fa2_mma over head dims, dtypes, masks and lengths: right, clean in every warp order, free of bank conflicts.

Each test compiles one kernel and runs it on all shapes, the warp orders taking turns.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from flashgen.inspect.io_kernel import Sizes, kernel_ledger
from flashgen.spec import make_spec
from flashgen.target import parse_target

from .test_families import CAUSAL, ORDERS, Result, assert_right, attend, tensors

HEAD_DIMS = (32, 40, 64, 72, 80, 96, 128, 160, 192, 256)
# batch, heads, heads_kv, seqlen_q, seqlen_k
SHAPES = [
    (1, 1, 1, 1, 1), (1, 1, 1, 17, 17), (2, 1, 1, 64, 64), (1, 2, 1, 127, 127), (1, 1, 1, 200, 200),
    (1, 1, 1, 333, 333), (1, 4, 2, 17, 200), (1, 2, 2, 200, 64), (1, 3, 1, 1, 130),
]  # fmt: skip


def assert_moves_its_closed_form(result: Result, shape: tuple[int, ...]) -> None:
    b, h, _, sq, sk = shape
    source = result.source
    ledger = kernel_ledger(source.spec, source.plan, source.target, Sizes(b, h, sq, sk, lse=True))
    closed = {transfer.matrix: transfer.bytes_per_head * b * h for transfer in ledger.transfers}
    traffic = result.reports[0].traffic
    moved = {name: traffic[name.lower()].load_bytes for name in ("Q", "K", "V") if name.lower() in traffic}
    assert moved == {name: closed.get(name, 0) for name in moved}
    assert traffic["out"].store_bytes == closed["O"] and traffic["lse"].store_bytes == closed["L"]


@pytest.mark.parametrize("causal", CAUSAL)
@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
@pytest.mark.parametrize("d", HEAD_DIMS)
def test_every_head_dim_on_every_shape(d: int, dtype: str, causal: bool | str) -> None:
    for shape, order in zip(SHAPES, itertools.cycle(ORDERS), strict=False):
        q, k, v = tensors(dtype, *shape, d, d, seed=sum(shape))
        result = attend("cuda_fa2_mma", q, k, v, dtype, causal, order=order)
        result.raise_for_findings()
        assert_right(result, q, k, v, dtype, causal)
        assert result.reports[0].shared.conflicts == 0
        assert_moves_its_closed_form(result, shape)


@pytest.mark.parametrize("target", ["sm_75", "sm_86", "sm_90", "sm_120"])
@pytest.mark.parametrize("d,dv", [(64, 64), (72, 40), (128, 128), (192, 128), (256, 256)])
def test_the_tiles_of_other_architectures(d: int, dv: int, target: str) -> None:
    q, k, v = tensors("fp16", 1, 2, 1, 150, 210, d, dv)
    result = attend("cuda_fa2_mma", q, k, v, "fp16", True, target=target)
    result.raise_for_findings()
    assert_right(result, q, k, v, "fp16", True)
    assert result.reports[0].shared.conflicts == 0


@pytest.mark.parametrize("tile", [(16, 16), (16, 128), (32, 48), (64, 96), (128, 16), (128, 80)])
@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
def test_any_tile(dtype: str, tile: tuple[int, int]) -> None:
    q, k, v = tensors(dtype, 1, 2, 1, 140, 150, 48, 56)
    results = [attend("cuda_fa2_mma", q, k, v, dtype, True, tile=tile, order=order) for order in ORDERS]
    for result in results:
        result.raise_for_findings()
        np.testing.assert_array_equal(result.out.view(np.uint16), results[0].out.view(np.uint16))
    assert_right(results[0], q, k, v, dtype, True)


@pytest.mark.parametrize("scale_of_k", [2.0**10, 2.0**20, 2.0**28, 2.0**40, 2.0**60])
@pytest.mark.parametrize("sign", [1, -1])
def test_logits_of_any_size(scale_of_k: float, sign: int) -> None:
    """From where one FMA for each score will do to where c m leaves fp32's integers behind, and beyond."""
    q, k, v = tensors("bf16", 1, 1, 1, 70, 200, 64, 64)
    k *= sign * scale_of_k
    result = attend("cuda_fa2_mma", q, k, v, "bf16")
    result.raise_for_findings()
    assert_right_relative(result, q, k, v)


def test_logits_that_grow_past_the_bound_from_block_to_block() -> None:
    """Blocks are met from the last key to the first, so the weights of all but the first vanish in turn."""
    q, k, v = tensors("bf16", 1, 1, 1, 40, 400, 64, 64)
    q[...] = 1
    k *= (2.0 ** np.linspace(24, 8, 400)).astype(k.dtype)[None, None, :, None]
    result = attend("cuda_fa2_mma", q, k, v, "bf16")
    result.raise_for_findings()
    assert_right_relative(result, q, k, v)


def assert_right_relative(result: Result, q, k, v) -> None:
    from flashgen.reference import attention_reference

    out, lse = attention_reference(q, k, v, causal=result.source.spec.causal)
    np.testing.assert_allclose(result.out.astype(np.float64), out, rtol=0, atol=1.6e-2)
    np.testing.assert_allclose(result.lse, lse, rtol=1e-6, atol=1e-5)


def test_a_target_without_bf16_tensor_cores_is_served_by_fma() -> None:
    from flashgen.families import serving

    assert serving(make_spec(64, "bf16"), parse_target("sm_75"))[0].name == "cuda_fa2_simt"
    assert serving(make_spec(64, "fp16"), parse_target("sm_75"))[0].name == "cuda_fa2_mma"
    assert serving(make_spec(64, "fp32"), parse_target("sm_90"))[0].name == "cuda_fa2_simt"
