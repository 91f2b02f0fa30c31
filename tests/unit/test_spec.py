from itertools import pairwise

import pytest

from flashgen import dtypes
from flashgen.errors import SpecError
from flashgen.spec import Causal, make_spec, parse_causal
from flashgen.target import PRESETS, X86_LEVELS, Target, parse_target, required_features


@pytest.mark.parametrize("d", [0, -1, 513, 64.0, "64", True, None])
def test_a_head_dim_outside_1_to_512_is_refused(d: object) -> None:
    with pytest.raises(SpecError, match="head dims are whole numbers from 1 to 512"):
        make_spec(d)  # type: ignore[arg-type]


def test_the_value_head_dim_follows_d_unless_given() -> None:
    assert make_spec(64).head_dim_v == 64
    assert make_spec(64, d_v=32).head_dim_v == 32
    with pytest.raises(SpecError, match="d_v=0"):
        make_spec(64, d_v=0)


@pytest.mark.parametrize(
    ("argument", "meaning"),
    [
        (False, Causal.NONE),
        (None, Causal.NONE),
        (True, Causal.BOTTOM_RIGHT),
        ("bottom_right", Causal.BOTTOM_RIGHT),
        ("top_left", Causal.TOP_LEFT),
    ],
)
def test_causal_true_means_bottom_right(argument: object, meaning: Causal) -> None:
    assert parse_causal(argument) is meaning  # type: ignore[arg-type]


def test_an_unknown_alignment_is_refused_with_the_known_ones() -> None:
    with pytest.raises(SpecError, match="'bottom_right' or 'top_left'"):
        parse_causal("centre")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("fp16", dtypes.FP16),
        ("float16", dtypes.FP16),
        ("half", dtypes.FP16),
        ("torch.bfloat16", dtypes.BF16),
        ("FP64", dtypes.FP64),
    ],
)
def test_dtypes_are_found_by_any_usual_name(name: str, dtype: dtypes.DType) -> None:
    assert dtypes.parse_dtype(name) is dtype


def test_an_unknown_dtype_is_refused_with_the_known_ones() -> None:
    with pytest.raises(SpecError, match="fp16, bf16, fp32 or fp64"):
        make_spec(64, dtype="fp8")


@pytest.mark.parametrize("dtype", dtypes.ALL)
def test_a_dtypes_numpy_type_has_its_size_and_name(dtype: dtypes.DType) -> None:
    assert dtype.numpy().itemsize == dtype.size
    assert dtype.numpy().name == dtype.numpy_name


@pytest.mark.parametrize("target", PRESETS)
def test_every_preset_is_read_back_from_its_name(target: Target) -> None:
    assert parse_target(str(target)) == target


@pytest.mark.parametrize(
    ("text", "guess"),
    [("sm80", "sm_80"), ("80", "sm_80"), ("8.0", "sm_80"), ("cuda:90a", "sm_90a"), ("compute_75", "sm_75")],
)
def test_a_near_miss_gets_a_suggestion(text: str, guess: str) -> None:
    with pytest.raises(SpecError, match=f"Did you mean {guess}"):
        parse_target(text)


@pytest.mark.parametrize("text", ["cpu:pentium", "sm_52", "gpu", "", "cpu:"])
def test_a_bad_target_lists_the_good_ones(text: str) -> None:
    with pytest.raises(SpecError, match=r"Targets: auto, cpu, cuda, cpu:x86-64-v2, .*sm_80.*"):
        parse_target(text)


def test_each_x86_level_requires_all_that_the_lower_ones_do() -> None:
    required = [required_features(Target("cpu", level)) for level in X86_LEVELS]
    assert all(lower < higher for lower, higher in pairwise(required))
    assert "avx2" in required[1]
    assert "avx512f" not in required[1]
