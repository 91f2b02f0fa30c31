"""Verification finds faults: a kernel in NumPy passes, and every way of breaking it is caught.

Every fault is found by the case that was made for it, and every case finds some fault.
"""

from __future__ import annotations

import numpy as np
import pytest

from flashgen.spec import make_spec
from flashgen.verification import cases_for, make_inputs, run_case, verify

from .broken_kernels import FAULTS
from .tiled_kernel import TiledKernel

# Fault, a case that must find it, and where it is planted (fp32 without a mask unless said otherwise).
FOUND_BY = [
    ("FoldedScale", "logits near 2^18", {}),
    ("FoldedScale", "logits near 2^32", {}),
    ("FoldedScale", "logits near -2^99", {"dtype": "bf16"}),
    ("FoldedScale", "logits near 2^32", {"dtype": "fp16"}),
    ("ScaledFirst", "scaled logits beyond fp32", {}),
    ("FiniteMaximum", "logits near -2^99", {}),
    ("FiniteMask", "logits near -2^99", {"causal": "top_left"}),
    ("FiniteMask", "Sq=333 Sk=17", {"causal": "bottom_right"}),
    ("AddedMask", "NaN in a key", {"causal": "top_left"}),
    ("PaddingLoaded", "padded", {}),
    ("PaddingCounted", "Sq=65 Sk=65", {}),
    ("PaddingCounted", "Sq=65 Sk=65", {"dtype": "bf16"}),
    ("LastKeyDropped", "Sq=333 Sk=333", {}),
    ("LastKeyDropped", "Sq=333 Sk=333", {"dtype": "bf16"}),
    ("LastKeyDropped", "Sq=333 Sk=333", {"dtype": "fp16", "causal": "bottom_right"}),
    ("TileDropped", "Sq=1 Sk=333", {"dtype": "bf16"}),
    ("NoRescale", "rising logits", {}),
    ("ForgetfulMaximum", "maximum in the first keys", {}),
    ("ForgetfulMaximum", "maximum in the first keys", {"dtype": "fp16"}),
    ("ClampedLogits", "maximum in the last keys", {}),
    ("WrongDefaultScale", "Sq=17 Sk=17", {}),
    ("ZeroScaleIgnored", "scale 0", {}),
    ("SignOfScaleLost", "negative scale", {}),
    ("TinyScaleRaised", "tiny scale", {}),
    ("OffByOne", "Sq=2 Sk=200", {"causal": "bottom_right"}),
    ("OffByOne", "Sq=17 Sk=17", {"causal": "top_left"}),
    ("OtherAlignment", "Sq=17 Sk=333", {"causal": "bottom_right"}),
    ("OtherAlignment", "Sq=65 Sk=63", {"causal": "top_left"}),
    ("PaddingInAlignment", "padded", {"causal": "bottom_right"}),
    ("LengthsIgnored", "padded", {}),
    ("LengthsOfFirstEntry", "padded", {}),
    ("HeadsInterleaved", "H=4/2", {}),
    ("OneHeadOfKeys", "H=8/2", {}),
    ("EmptyRowsAreNaN", "padded", {}),
    ("EmptyRowsAreNaN", "Sq=333 Sk=17", {"causal": "bottom_right"}),
    ("EmptyRowsAreNaN", "no keys", {}),
    ("EmptyRowsHaveFiniteLse", "padded", {}),
    ("LseOfBaseTwo", "Sq=17 Sk=17", {}),
    ("LseWithoutMaximum", "Sq=17 Sk=17", {}),
    ("UnscaledLse", "Sq=17 Sk=17", {}),
    ("RoundedScores", "logits near 2^16", {"dtype": "bf16"}),
    ("RoundedScores", "Sq=17 Sk=17", {"dtype": "fp16"}),
    ("TensorFloat32", "Sq=17 Sk=17", {}),
    ("RoundedOutput", "Sq=17 Sk=17", {"dtype": "fp16"}),
    ("ApproximateReciprocal", "equal values", {}),
    ("FlushedSubnormals", "subnormal values", {}),
    ("FlushedSubnormals", "subnormal queries", {}),
    ("FlushedSubnormals", "subnormal queries", {"dtype": "fp16"}),
    ("FlushedSubnormals", "subnormal values", {"dtype": "fp64"}),
    ("NaNSwallowed", "NaN in a query", {}),
    ("NaNSwallowed", "NaN in a key", {}),
    ("NaNSwallowed", "NaN in a value", {}),
    ("NaNSpreads", "NaN in a query", {}),
    ("LayoutIgnored", "bshd", {}),
    ("WritesToInputs", "Sq=17 Sk=17", {}),
    ("WrongType", "no queries", {}),
    ("WrongLseShape", "no batch", {}),
]


def spec_of(dtype="fp32", causal=False):
    return make_spec(40, dtype, causal, 24)


def verified(spec, kernel=TiledKernel, **options):
    return verify(kernel(spec), spec, **options)


# ---- The kernel as it should be ----


@pytest.mark.parametrize("causal", [False, "top_left", "bottom_right"])
@pytest.mark.parametrize("dtype", ["fp16", "bf16", "fp32", "fp64"])
def test_a_right_kernel_passes(dtype, causal):
    report = verified(spec_of(dtype, causal))
    assert report.passed, report.summary()


@pytest.mark.parametrize(
    ("d", "d_v", "dtype", "causal"),
    [
        (1, 1, "fp32", False),
        (1, 5, "fp16", "top_left"),
        (2, 1, "bf16", "bottom_right"),
        (7, 1, "fp64", "top_left"),
        (256, 8, "fp32", "bottom_right"),
        (512, 256, "fp32", False),
        (512, 3, "bf16", False),
        (512, 3, "fp16", "bottom_right"),
    ],
)
def test_a_right_kernel_passes_at_any_head_dim(d, d_v, dtype, causal):
    report = verified(make_spec(d, dtype, causal, d_v))
    assert report.passed, report.summary()


@pytest.mark.parametrize(
    ("seed", "dtype"), [(1, "fp16"), (2, "bf16"), (3, "fp32"), (4, "fp16"), (5, "bf16"), (6, "fp32")]
)
def test_a_right_kernel_passes_with_any_seed(seed, dtype):
    report = verified(spec_of(dtype), seed=seed)
    assert report.passed, report.summary()


# ---- Broken kernels ----


@pytest.mark.parametrize(("fault", "case", "where"), FOUND_BY, ids=lambda x: x if isinstance(x, str) else None)
def test_a_fault_is_found_by_the_case_made_for_it(fault, case, where):
    spec = spec_of(**where)
    cases = [known for known in cases_for(spec) if case in known.name]
    report = verified(spec, FAULTS[fault], cases=cases)
    assert report.failures, f"{fault} passed {report.summary()}"


def test_every_fault_is_tried():
    assert {fault for fault, _, _ in FOUND_BY} == set(FAULTS)


# Faults of values, those that most cases find first.
SUBTLE = [
    "LastKeyDropped",
    "LseWithoutMaximum",
    "RoundedScores",
    "FoldedScale",
    "ZeroScaleIgnored",
    "SignOfScaleLost",
    "TinyScaleRaised",
    "FlushedSubnormals",
    "NaNSwallowed",
    "ScaledFirst",
    "FiniteMaximum",
    "EmptyRowsAreNaN",
    "LengthsIgnored",
    "OffByOne",
    "HeadsInterleaved",
    "ApproximateReciprocal",
    "PaddingCounted",
    "NoRescale",
    "ForgetfulMaximum",
    "UnscaledLse",
]


@pytest.mark.parametrize(
    "where", [{}, {"causal": "bottom_right"}, {"dtype": "bf16"}, {"dtype": "fp16", "causal": "top_left"}]
)
def test_every_case_finds_a_fault(where):
    spec = spec_of(**where)
    cases = [case for case in cases_for(spec) if case.batch and case.seqlen_q]
    blind = [case.name for case in cases if all(run_case(FAULTS[fault](spec), spec, case).passed for fault in SUBTLE)]
    assert not blind


@pytest.mark.parametrize("fault", ["WrongType", "WrongLseShape"])
def test_calls_that_return_nothing_still_check_what_they_return(fault):
    cases = [case for case in cases_for(spec_of()) if not case.batch * case.seqlen_q]
    assert len(cases) == 2
    assert len(verified(spec_of(), FAULTS[fault], cases=cases).failures) == 2


# ---- Running ----


def test_progress_is_told_case_by_case():
    spec, seen = spec_of(), []
    cases = cases_for(spec)[:3]
    report = verified(spec, cases=cases, progress=seen.append)
    assert seen == list(report.rows)
    assert [row.name for row in seen] == [case.name for case in cases]


def test_equal_seeds_give_equal_inputs_and_others_do_not():
    spec = spec_of()
    case = cases_for(spec)[2]
    first, again, other = (make_inputs(case, spec, seed).q.tobytes() for seed in (0, 0, 1))
    assert first == again != other


def test_names_of_cases_are_unique():
    for causal in (False, "top_left", "bottom_right"):
        for dtype in ("fp16", "bf16", "fp32", "fp64"):
            names = [case.name for case in cases_for(spec_of(dtype, causal))]
            assert len(set(names)) == len(names)


def test_dot_products_of_hostile_cases_are_exact_in_fp32():
    """Otherwise rounding q.k could decide which key wins, and no answer would be the right one."""
    for d in (1, 2, 64, 512):
        for dtype in ("fp16", "bf16", "fp32"):
            spec = make_spec(d, dtype, False, 1)
            for case in cases_for(spec):
                if case.values in ("lattice", "rising", "falling"):
                    inputs = make_inputs(case, spec, 0)
                    q, k = inputs.q[0, 0, :7], inputs.k[0, 0]
                    exact = q.astype(np.float64) @ k.astype(np.float64).T
                    rough = q[:, ::-1].astype(np.float32) @ k[:, ::-1].astype(np.float32).T
                    np.testing.assert_array_equal(rough, exact, err_msg=case.name)
