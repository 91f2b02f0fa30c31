"""The decode kernels' closed forms equal the executor's and the emulator's bytes; `flashgen io` prints them."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from flashgen.cli.main import main
from flashgen.compilation.toolchains.cuda import cuda_toolchain
from flashgen.errors import SpecError, ToolchainError
from flashgen.families import family_named
from flashgen.inspect.io_blocks import Blocks
from flashgen.inspect.io_counted import counted
from flashgen.inspect.io_kernel import Sizes, kernel_ledger, row_ranges
from flashgen.inspect.io_report import usual_algorithms
from flashgen.inspect.trace import Run
from flashgen.inspect.trace_run import execute
from flashgen.reference import attention_reference
from flashgen.spec import Causal, make_spec
from flashgen.target import PRESETS, parse_target
from flashgen.tiling import plan_tiles

from .plans import plan_of, target_of

NAMES = ("cpu_decode", "cuda_decode")
MASKS = [False, "bottom_right", "top_left"]
GPU = parse_target("sm_80")


def plan_with_short_splits(name, spec, br, bc, blocks):
    plan = plan_of(name, spec, br, bc)
    return replace(plan, knobs=replace(plan.knobs, split_keys=bc * blocks)) if name == "cpu_decode" else plan


def packed(x):
    """(heads, queries, d) as the kernels pack them: row r is query r // heads of head r % heads."""
    return x.transpose(1, 0, 2).reshape(-1, x.shape[2])


def run_and_ledger(name, spec, plan, sizes):
    rng = np.random.default_rng(7)
    q = rng.standard_normal((sizes.group, sizes.seqlen_q, spec.head_dim))
    k, v = (rng.standard_normal((sizes.seqlen_k, d)) for d in (spec.head_dim, spec.head_dim_v))
    run = Run(spec, plan, packed(q), k, v, lse=sizes.lse, packed=sizes.group)
    out = execute(run, row_ranges(spec, plan, sizes, 1) if target_of(name).kind == "cuda" else 1)
    return run, out, kernel_ledger(spec, plan, target_of(name), sizes)


@pytest.mark.parametrize("name", NAMES)
@given(
    seqlen_q=st.integers(0, 12),
    seqlen_k=st.integers(0, 40),
    group=st.integers(1, 4),
    br=st.integers(1, 17),
    bc=st.integers(1, 9),
    blocks=st.integers(1, 3),
    d_v=st.integers(1, 19),
    dtype=st.sampled_from(["fp16", "bf16", "fp32", "fp64"]),
    causal=st.sampled_from(MASKS),
    lse=st.booleans(),
)
def test_closed_forms_equal_the_executor_to_the_byte(
    name, seqlen_q, seqlen_k, group, br, bc, blocks, d_v, dtype, causal, lse
):
    spec = make_spec(5, dtype, causal, d_v)
    plan = plan_with_short_splits(name, spec, br, bc, blocks)
    sizes = Sizes(3, 2 * group, seqlen_q, seqlen_k, lse, heads_kv=2)
    run, _, ledger = run_and_ledger(name, spec, plan, sizes)
    assert {t.key: t.bytes_per_head for t in ledger.transfers} == run.bytes_by_key()
    assert (ledger.heads, ledger.unit) == (6, "head" if group == 1 else "kv head")


@pytest.mark.parametrize("group", [1, 3])
@pytest.mark.parametrize("causal", MASKS)
@pytest.mark.parametrize("name", NAMES)
def test_executors_compute_attention(name, causal, group):
    spec = make_spec(6, "fp64", causal, 3)
    for seqlen_q, seqlen_k in ((1, 40), (5, 33), (9, 4), (2, 3)):
        sizes = Sizes(1, group, seqlen_q, seqlen_k, lse=True, heads_kv=1)
        run, out, _ = run_and_ledger(name, spec, plan_with_short_splits(name, spec, 4, 2, 2), sizes)
        q = run.hbm["Q"].reshape(seqlen_q, group, 6).transpose(1, 0, 2)[None]
        k, v = (np.repeat(run.hbm[matrix][None, None], group, axis=1) for matrix in "KV")
        expected, expected_lse = attention_reference(q, k, v, causal=Causal(causal or "none"))
        np.testing.assert_allclose(out, packed(expected[0]), rtol=1e-13, atol=1e-14)
        np.testing.assert_allclose(run.hbm["L"][:, 0], packed(expected_lse[0][..., None])[:, 0], rtol=1e-13)


@pytest.mark.parametrize("causal", [Causal.NONE, Causal.TOP_LEFT, Causal.BOTTOM_RIGHT])
@given(seqlen_q=st.integers(1, 9), seqlen_k=st.integers(0, 40), size=st.integers(1, 20), number=st.integers(1, 9))
def test_splits_are_the_keys_that_a_tile_sees_in_order(causal, seqlen_q, seqlen_k, size, number):
    blocks = Blocks(seqlen_q, seqlen_k, 4, 3, causal, packed=2)
    for row0, rows in blocks.row_blocks():
        seen = list(range(max(blocks.visible(row) for row in range(row0, row0 + rows))))
        for splits in (blocks.splits_of_size(row0, rows, size), blocks.splits_by_number(row0, rows, number)):
            assert [key for begin, end in splits for key in range(begin, end)] == seen
        assert len(blocks.splits_by_number(row0, rows, number)) == number
        assert len(blocks.splits_of_size(row0, rows, size)) == max(-(-len(seen) // size), 1)


@pytest.mark.parametrize("lse", [False, True], ids=["", "lse"])
@pytest.mark.parametrize("causal", MASKS)
@pytest.mark.parametrize("dtype,d,d_v", [("fp16", 40, 24), ("bf16", 64, 64), ("fp16", 37, 50)])
def test_the_emulator_counts_the_closed_form_to_the_byte(dtype, d, d_v, causal, lse):
    try:
        cuda_toolchain(GPU)
    except ToolchainError as error:
        pytest.skip(str(error))
    spec = make_spec(d, dtype, causal, d_v)
    plan = plan_tiles(family_named("cuda_decode"), spec, GPU, PRESETS[GPU], bc=32)
    launches = set()
    for batch, heads, heads_kv, seqlen_q, seqlen_k in (
        (1, 1, 1, 1, 300), (1, 8, 2, 1, 515), (2, 6, 2, 7, 400), (2, 2, 2, 5, 3), (30, 64, 16, 1, 129),
    ):  # fmt: skip
        sizes = Sizes(batch, heads, seqlen_q, seqlen_k, lse, heads_kv)
        ledger = kernel_ledger(spec, plan, GPU, sizes, PRESETS[GPU].cores)
        found = counted(spec, plan, GPU, sizes, ledger, method="emulator")
        closed = {transfer.key: transfer.bytes_per_head for transfer in ledger.transfers}
        assert {key for count in found.counts for key in count.keys} == set(closed)
        for count in found.counts:
            assert count.bytes_per_head == sum(closed[key] for key in count.keys), (sizes, count)
        launches.add(any(transfer.matrix == "O_s" for transfer in ledger.transfers))
    assert launches == {False, True}


def test_k_and_v_are_read_once_for_all_heads_that_share_them():
    spec, sizes = make_spec(64, "fp16"), Sizes(2, 8, 1, 4096, heads_kv=2)
    for name in NAMES:
        target = target_of(name)
        plan = plan_tiles(family_named(name), spec, target, PRESETS[target])
        ledger = kernel_ledger(spec, plan, target, sizes)
        assert ledger.of_matrix("K", "read") == ledger.of_matrix("V", "read") == 2 * 2 * 4096 * 64 * 2
        general = "cpu_fa2" if target.kind == "cpu" else "cuda_fa2_mma"
        fa2 = kernel_ledger(spec, plan_tiles(family_named(general), spec, target, PRESETS[target]), target, sizes)
        assert fa2.of_matrix("K", "read") == 4 * ledger.of_matrix("K", "read")
        assert fa2.flops == ledger.flops == 2 * 8 * 4 * 64 * 4096


@pytest.mark.parametrize(("target", "rows"), [("cpu:x86-64-v3", 16), ("sm_80", 16)])
def test_decode_is_compared_where_builds_take_it(target, rows):
    spec, where = make_spec(64), parse_target(target)
    few, many = (Sizes(1, 2, rows // 2 + more, 512, heads_kv=1) for more in (0, 1))
    assert usual_algorithms(spec, where, few, "kernel") == ("standard", "fa1", "fa2", "decode")
    assert usual_algorithms(spec, where, many, "kernel") == ("standard", "fa1", "fa2")
    assert usual_algorithms(spec, where, few, "paper") == ("standard", "fa1", "fa2")
    assert usual_algorithms(make_spec(64, "fp32"), parse_target("sm_80"), few, "kernel")[-1] == "fa2"


@pytest.mark.parametrize("target", ["cpu:x86-64-v3", "sm_80"])
def test_the_command_counts_what_it_says(target):
    arguments = ["io", "--n", "2", "--nk", "2100", "--heads", "4", "--heads-kv", "2", "--target", target]
    data = json.loads(CliRunner().invoke(main, [*arguments, "--count", "executor", "--json"]).stdout)
    assert (data["heads"], data["heads_kv"]) == (4, 2)
    assert [ledger["algorithm"] for ledger in data["ledgers"]] == ["standard", "fa1", "fa2", "decode"]
    decode = data["ledgers"][-1]
    assert (decode["unit"], decode["counted_by"] is not None) == ("kv head", True)
    for transfer in decode["transfers"]:
        assert transfer["counted_bytes"] == transfer["bytes"] > 0
    assert {t["step"] for t in decode["transfers"]} == {f"line {n}" for n in (4, 7, 12, 14, 15, 16, 18)}
    printed = CliRunner().invoke(main, [*arguments, "--algorithm", "decode", "--count", "none"]).stdout
    for text in (
        "H = 4, Hkv = 2",
        "per kv head",
        "each split, line 12",
        "join, line 14",
        "Ts G N d",
        "G = 2 heads share",
    ):
        assert text in printed, text


def test_symbols_of_uneven_splits_are_explained():
    spec = make_spec(5, "fp32", "top_left", 3)
    plan = plan_with_short_splits("cpu_decode", spec, 2, 4, 1)
    ledger = kernel_ledger(spec, plan, target_of("cpu_decode"), Sizes(1, 1, 9, 9))
    said = " ".join(ledger.remarks)
    for symbol in ("E = ", "F = ", "W = ", "U = ", "dp = 8", "Ts = 3 splits of up to 4 keys at most"):
        assert symbol in said, symbol


@pytest.mark.parametrize("arguments", [["--sram", "96KB"], ["--sweep", "sram"]])
def test_the_papers_have_no_ledger_of_decode(arguments):
    done = CliRunner().invoke(main, ["io", "--convention", "paper", "--algorithm", "decode", *arguments])
    assert done.exit_code == 2
    assert done.stderr == "Error: The papers have no block rule for decode. --convention kernel counts its kernel.\n"


def test_heads_that_cannot_be_shared_out_are_refused():
    with pytest.raises(SpecError, match="3 heads cannot share 2 heads of K and V"):
        Sizes(1, 3, 1, 1, heads_kv=2)
