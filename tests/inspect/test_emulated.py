"""Closed forms, reference executors and compiled CUDA kernels say the same: to the byte, and step by step."""

from __future__ import annotations

import json

import numpy as np
import pytest
from click.testing import CliRunner

from flashgen.cli.main import main
from flashgen.compilation.toolchains.cuda import cuda_toolchain
from flashgen.errors import ToolchainError
from flashgen.families import FAMILIES, family_named
from flashgen.inspect.io_counted import counted
from flashgen.inspect.io_emulated import emulate_head, random_head
from flashgen.inspect.io_kernel import Sizes, kernel_ledger
from flashgen.inspect.trace import Run
from flashgen.inspect.trace_run import execute
from flashgen.spec import make_spec
from flashgen.target import PRESETS, parse_target
from flashgen.tiling import plan_tiles

from .plans import takes

TARGET = parse_target("sm_80")
NAMES = [f.name for f in FAMILIES if f.kind == "cuda" and f.algorithm in ("standard", "fa1", "fa2")]
SHAPES = [(100, 77), (64, 128), (33, 1), (1, 90)]


@pytest.fixture(autouse=True)
def _compiler():
    try:
        cuda_toolchain(TARGET)
    except ToolchainError as error:
        pytest.skip(str(error))


def plan_for(name, spec, br=32, bc=32):
    return plan_tiles(family_named(name), spec, TARGET, PRESETS[TARGET], br=br, bc=bc)


@pytest.mark.parametrize("lse", [False, True], ids=["", "lse"])
@pytest.mark.parametrize("causal", [False, "bottom_right", "top_left"])
@pytest.mark.parametrize(
    "name,dtype", [(name, dtype) for name in NAMES for dtype in ("fp16", "fp32") if takes(name, dtype)]
)
def test_the_emulator_counts_the_closed_form_to_the_byte(name, dtype, causal, lse):
    spec = make_spec(40, dtype, causal, 24)
    plan = plan_for(name, spec)
    for seqlen_q, seqlen_k in SHAPES:
        sizes = Sizes(1, 1, seqlen_q, seqlen_k, lse)
        for cores in (1, 3):
            ledger = kernel_ledger(spec, plan, TARGET, sizes, cores)
            found = counted(spec, plan, TARGET, sizes, ledger, cores=cores, method="emulator")
            closed = {transfer.key: transfer.bytes_per_head for transfer in ledger.transfers}
            assert found.by.startswith("the emulator")
            assert {key for count in found.counts for key in count.keys} == set(closed)
            for count in found.counts:
                assert count.bytes_per_head == sum(closed[key] for key in count.keys), (sizes, cores, count)


@pytest.mark.parametrize("causal", [False, "top_left"])
def test_fa1_writes_to_hbm_what_the_executor_writes_step_by_step(causal):
    """After every block j of keys: O, l and m as they lie in HBM, and the output so far, which Algorithm 1 keeps exact.

    The kernel is run on the first 1, 2, 3, ... blocks of keys; its last stores are then those of the step before. It
    keeps m before scaling, the executor after.
    """
    spec, n, bc = make_spec(32, "fp32", causal), 80, 32
    plan = plan_for("cuda_fa1", spec, br=16, bc=bc)
    q, k, v = random_head(spec, Sizes(1, 1, n, 4 * bc - 5))
    for keys in (*range(bc, len(k), bc), len(k)):
        kernel = emulate_head(spec, plan, TARGET, q, k[:keys], v[:keys], lse=True)
        run = Run(spec, plan, q, k[:keys], v[:keys], lse=True)
        out = execute(run)
        o, ell, m = np.split(kernel.workspace, [n * 32, n * 33])
        for name, stored in (("O", o.reshape(n, 32)), ("l", ell[:, None]), ("m", m[:, None] * run.scale)):
            np.testing.assert_allclose(stored, run.hbm[name], rtol=2e-5, atol=2e-6, err_msg=f"{name}, {keys} keys")
        np.testing.assert_allclose(kernel.out, out, rtol=2e-5, atol=2e-6)
        np.testing.assert_allclose(kernel.lse, run.hbm["LSE"][:, 0], rtol=1e-5)
    assert np.isfinite(run.hbm["O"]).any() and np.isfinite(run.hbm["m"]).any()


def test_the_command_s_counted_column_is_the_emulator_s():
    arguments = ["io", "--n", "128", "--heads", "2", "--target", "sm_80", "--algorithm", "standard,fa1", "--json"]
    data = json.loads(CliRunner().invoke(main, arguments).stdout)
    for ledger in data["ledgers"]:
        assert ledger["counted_by"].startswith("the emulator")
        assert sum(count["bytes"] for count in ledger["counted"]) == ledger["total_bytes"]
    grouped = [count for count in data["ledgers"][1]["counted"] if len(count["transfers"]) > 1]
    assert [[t["matrix"] for t in count["transfers"]] for count in grouped] == [["O", "l", "m"]] * 2
    printed = CliRunner().invoke(main, arguments[:-1]).stdout
    assert "O+l+m" in printed and "counted: by the emulator" in printed


def test_what_is_too_large_for_the_emulator_is_left_to_the_executor(monkeypatch):
    spec, sizes = make_spec(16, "fp16"), Sizes(1, 1, 40, 40)
    monkeypatch.setattr("flashgen.inspect.io_counted.MAX_EMULATOR_WORK", 40 * 40 * 32 - 1)
    plan = plan_for("cuda_fa1", spec)
    ledger = kernel_ledger(spec, plan, TARGET, sizes)
    refused = counted(spec, plan, TARGET, sizes, ledger, method="emulator")
    assert refused.counts is None and "too large for the emulator" in refused.reason
    instead = counted(spec, plan, TARGET, sizes, ledger, method="auto")
    assert instead.by.startswith("the reference executor") and "too large for the emulator" in instead.reason


def test_without_a_compiler_the_executor_counts_and_says_why(monkeypatch):
    def missing(*_, **__):
        raise ToolchainError("No CUDA compiler was found.")

    monkeypatch.setattr("flashgen.inspect.io_emulated.build_kernel", missing)
    spec, sizes = make_spec(16, "fp16"), Sizes(1, 1, 40, 40)
    plan = plan_for("cuda_fa1", spec)
    ledger = kernel_ledger(spec, plan, TARGET, sizes)
    found = counted(spec, plan, TARGET, sizes, ledger)
    assert found.by.startswith("the reference executor")
    assert found.reason == "the emulator was not to be had: No CUDA compiler was found."
    with pytest.raises(ToolchainError):
        counted(spec, plan, TARGET, sizes, ledger, method="emulator")


def test_the_extra_that_brings_a_compiler_is_printed_as_it_is_written(monkeypatch):
    def missing(*_, **__):
        raise ToolchainError("There is no NVRTC: pip install 'flashgen[cuda12]'.")

    monkeypatch.setattr("flashgen.inspect.io_emulated.build_kernel", missing)
    printed = (
        CliRunner().invoke(main, ["io", "--n", "16", "--d", "8", "--algorithm", "fa1", "--target", "sm_80"]).stdout
    )
    assert "pip install 'flashgen[cuda12]'" in printed
