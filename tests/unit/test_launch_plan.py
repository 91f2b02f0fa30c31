"""Launch plans: formulas, the argument struct, and geometry."""

import re
import struct
from pathlib import Path

import pytest

import flashgen
from flashgen.families import FAMILIES, family_named
from flashgen.launch_plan import ARGUMENT_BYTES, ARGUMENTS, LaunchPlan, evaluate, resolve
from flashgen.spec import make_spec
from flashgen.target import PRESETS, parse_target
from flashgen.tiling import plan_tiles

ABI = Path(flashgen.__file__).parents[1] / "templates" / "cuda" / "parts" / "abi.cuh"
SIZES = (2, 6, 3, 100, 200)
STRIDES = ((1, 2, 3), (4, 5, 6), (7, 8, 9), (10, 11, 12))


def launch_plan_of(family: str, d: int = 64, dtype: str = "fp16") -> LaunchPlan:
    chosen, target = family_named(family), parse_target("sm_80")
    spec = make_spec(d, dtype)
    return chosen.launch_plan(spec, plan_tiles(chosen, spec, target, PRESETS[target], sram_bytes=98304))


@pytest.mark.parametrize(
    ("formula", "value"),
    [
        ("1", 1),
        ("batch * num_heads", 12),
        ("ceil_div(seqlen_q, 64)", 2),
        ("min(ceil_div(seqlen_q, 64), ceil_div(sm_count, batch * num_heads))", 2),
        ("max(seqlen_q - seqlen_k, 0) + 3", 3),
        ("batch * (num_heads + 1)", 14),
    ],
)
def test_formulas_are_whole_number_arithmetic(formula: str, value: int) -> None:
    names = {"batch": 2, "num_heads": 6, "seqlen_q": 100, "seqlen_k": 200, "sm_count": 108}
    assert evaluate(formula, names) == value


@pytest.mark.parametrize("formula", ["__import__('os')", "batch / 2", "batch.real", "1.5", "pow(2, 3)"])
def test_a_formula_cannot_be_anything_else(formula: str) -> None:
    with pytest.raises(ValueError, match="not a launch formula"):
        evaluate(formula, {"batch": 2})


def test_the_argument_table_is_the_struct_of_the_templates() -> None:
    body = ABI.read_text().split("struct AttentionArgs {")[1].split("};")[0]
    declared = []
    for line in body.splitlines():
        code = line.split("//")[0].strip().rstrip(";")
        if code:
            kind, names = re.match(r"((?:const )?(?:void|int64|double)\*?) (.*)", code).groups()
            for name in names.split(", "):
                plain, bracket, _ = name.partition("[3]")
                declared.append((plain, "pointer" if "*" in kind else kind + bracket))
    assert declared == [(field.name, field.type) for field in ARGUMENTS]


def test_offsets_are_those_of_c() -> None:
    offset = 0
    for field in ARGUMENTS:
        assert field.offset == offset
        offset += 24 if field.type.endswith("[3]") else 8
    assert offset == ARGUMENT_BYTES == 208


def test_arguments_are_packed_where_the_table_says() -> None:
    geometry = resolve(launch_plan_of("cuda_fa1"), SIZES, STRIDES, sm_count=108)
    packed = geometry.pack((11, 12, 13, 14, 15, 16), 0.125, 17)
    found = {}
    for field in ARGUMENTS:
        code = {"pointer": "=Q", "int64": "=q", "int64[3]": "=3q", "double": "=d"}[field.type]
        values = struct.unpack_from(code, packed, field.offset)
        found[field.name] = values if len(values) > 1 else values[0]
    assert [found[name] for name in ("q", "k", "v", "out", "lse", "seqlens_k")] == [11, 12, 13, 14, 15, 16]
    assert [found[n] for n in ("batch", "num_heads", "num_heads_kv", "seqlen_q", "seqlen_k")] == list(SIZES)
    assert [found[n] for n in ("q_stride", "k_stride", "v_stride", "out_stride")] == list(STRIDES)
    assert (found["softmax_scale"], found["workspace"]) == (0.125, 17)
    assert found["row_ranges"] == geometry.row_ranges


def test_fa1_fills_the_machine_with_row_ranges_but_never_splits_a_tile() -> None:
    plan = launch_plan_of("cuda_fa1")
    few = resolve(plan, (1, 2, 2, 4096, 4096), STRIDES, sm_count=108)
    assert (few.row_ranges, few.grids) == (54, ((108, 1, 1),))
    many = resolve(plan, (64, 16, 16, 4096, 4096), STRIDES, sm_count=108)
    assert (many.row_ranges, many.grids) == (1, ((1024, 1, 1),))
    short = resolve(plan, (1, 1, 1, 65, 4096), STRIDES, sm_count=108)
    assert short.row_ranges == 2
    paper = resolve(plan, (1, 2, 2, 4096, 4096), STRIDES, sm_count=108, row_ranges=1)
    assert paper.grids == ((2, 1, 1),)


def test_more_than_65535_heads_lie_in_the_dimension_that_holds_them() -> None:
    for family in ("cuda_fa1", "cuda_standard"):
        geometry = resolve(launch_plan_of(family), (70_000, 2, 2, 16, 16), STRIDES, sm_count=1)
        assert all(grid[1] <= 65_535 and grid[2] <= 65_535 for grid in geometry.grids)
        assert max(grid[0] for grid in geometry.grids) >= 140_000


def test_workspaces_hold_what_the_document_keeps_in_hbm() -> None:
    fa1 = resolve(launch_plan_of("cuda_fa1"), SIZES, STRIDES, sm_count=1)
    assert fa1.workspace_bytes == 2 * 6 * 100 * (64 + 2) * 4  # O, l, m
    standard = resolve(launch_plan_of("cuda_standard"), SIZES, STRIDES, sm_count=1)
    assert standard.workspace_bytes == 2 * 2 * 6 * 100 * 200 * 4  # S and P


def test_cpu_families_are_not_launched() -> None:
    spec = make_spec(64)
    for family in FAMILIES:
        if family.kind == "cpu":
            with pytest.raises(NotImplementedError):
                family.launch_plan(spec, launch_plan_of)  # type: ignore[arg-type]
