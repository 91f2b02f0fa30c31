"""The closed forms equal what the step-by-step executors load and store, to the byte."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flashgen.families import FAMILIES
from flashgen.inspect.io_blocks import Blocks
from flashgen.inspect.io_kernel import Sizes, kernel_ledger, row_ranges
from flashgen.inspect.trace import Run
from flashgen.inspect.trace_run import execute
from flashgen.reference import attention_reference
from flashgen.spec import Causal, make_spec
from flashgen.target import PRESETS

from .plans import plan_of, target_of

NAMES = [family.name for family in FAMILIES if family.algorithm in ("standard", "fa1", "fa2")]
MASKS = [False, "bottom_right", "top_left"]


def run_and_ledger(name, spec, seqlen_q, seqlen_k, br, bc, lse=False, cores=1):
    rng = np.random.default_rng(7)
    shapes = ((seqlen_q, spec.head_dim), (seqlen_k, spec.head_dim), (seqlen_k, spec.head_dim_v))
    plan, sizes = plan_of(name, spec, br, bc), Sizes(1, 1, seqlen_q, seqlen_k, lse)
    run = Run(spec, plan, *(rng.standard_normal(shape) for shape in shapes), lse=lse)
    out = execute(run, row_ranges(spec, plan, sizes, cores) if target_of(name).kind == "cuda" else 1)
    return run, out, kernel_ledger(spec, plan, target_of(name), sizes, cores)


@pytest.mark.parametrize("name", NAMES)
@given(
    seqlen_q=st.integers(0, 40),
    seqlen_k=st.integers(0, 40),
    br=st.integers(1, 17),
    bc=st.integers(1, 17),
    d=st.integers(1, 5),
    d_v=st.integers(1, 5),
    dtype=st.sampled_from(["fp16", "fp32", "fp64"]),
    causal=st.sampled_from(MASKS),
    lse=st.booleans(),
    cores=st.integers(1, 9),
)
def test_closed_forms_equal_the_executor_to_the_byte(
    name, seqlen_q, seqlen_k, br, bc, d, d_v, dtype, causal, lse, cores
):
    run, _, ledger = run_and_ledger(name, make_spec(d, dtype, causal, d_v), seqlen_q, seqlen_k, br, bc, lse, cores)
    assert {t.key: t.bytes_per_head for t in ledger.transfers} == run.bytes_by_key()


@pytest.mark.parametrize("lse", [False, True])
@pytest.mark.parametrize("causal", MASKS)
@pytest.mark.parametrize("name", NAMES)
def test_executors_compute_attention(name, causal, lse):
    spec = make_spec(6, "fp64", causal, 3)
    for seqlen_q, seqlen_k in ((11, 17), (17, 11), (1, 5), (8, 8)):
        run, out, _ = run_and_ledger(name, spec, seqlen_q, seqlen_k, br=4, bc=5, lse=lse)
        q, k, v = (run.hbm[matrix][None, None] for matrix in "QKV")
        expected, expected_lse = attention_reference(q, k, v, causal=Causal(causal or "none"))
        np.testing.assert_allclose(out, expected[0, 0], rtol=1e-13, atol=1e-14)
        if lse:
            stored = run.hbm["L" if "fa2" in name else "LSE"][:, 0]
            np.testing.assert_allclose(stored, expected_lse[0, 0], rtol=1e-13)


@given(
    seqlen_q=st.integers(0, 30),
    seqlen_k=st.integers(0, 30),
    causal=st.sampled_from([Causal.NONE, Causal.TOP_LEFT, Causal.BOTTOM_RIGHT]),
)
def test_visible_pairs_are_the_sum_over_rows(seqlen_q, seqlen_k, causal):
    blocks = Blocks(seqlen_q, seqlen_k, 4, 4, causal)
    assert blocks.visible_pairs() == sum(blocks.visible(row) for row in range(seqlen_q))


def test_the_document_s_eight_transfers_are_there_by_name():
    spec = make_spec(64, "fp16")
    for name in ("cpu_standard", "cuda_standard"):
        ledger = kernel_ledger(spec, plan_of(name, spec, 64, 64), target_of(name), Sizes(1, 1, 256, 256))
        named = {(t.step, t.matrix, t.direction) for t in ledger.transfers}
        assert named >= {
            ("pass 1", "Q", "read"),
            ("pass 1", "K", "read"),
            ("pass 1", "S", "write"),
            ("pass 2", "S", "read"),
            ("pass 2", "P", "write"),
            ("pass 3", "P", "read"),
            ("pass 3", "V", "read"),
            ("pass 3", "O", "write"),
        }


def test_formulas_say_what_the_numbers_are():
    spec = make_spec(8, "fp32")
    plan = plan_of("cuda_fa1", spec, 16, 32)
    ledger = kernel_ledger(spec, plan, target_of("cuda_fa1"), Sizes(2, 3, 128, 128), cores=6)
    values = {"N": 128, "d": 8, "Tc": 4, "Tr": 8, "C": 1}
    for transfer in ledger.transfers:
        product = 1
        for factor in transfer.formula.replace("(Tc - 1)", str(values["Tc"] - 1)).split(" "):
            product *= values.get(factor) or int(factor)
        assert product == transfer.elements, transfer
    assert ledger.heads == 6
    assert ledger.total == 6 * sum(t.bytes_per_head for t in ledger.transfers)


def test_few_heads_on_many_cores_share_the_rows_and_each_cta_loads_k_and_v():
    spec = make_spec(8, "fp32")
    plan, cores = plan_of("cuda_fa1", spec, 16, 32), PRESETS[target_of("cuda_fa1")].cores
    alone = kernel_ledger(spec, plan, target_of("cuda_fa1"), Sizes(1, 1, 128, 128), cores)
    many = kernel_ledger(spec, plan, target_of("cuda_fa1"), Sizes(64, 64, 128, 128), cores)
    assert alone.of_matrix("K", "read") == 8 * 128 * 8 * 4
    assert many.of_matrix("K", "read") == 64 * 64 * 128 * 8 * 4
