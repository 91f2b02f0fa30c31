# ruff: noqa: E501 - lines of CUDA and of case tables read best whole
"""An attention kernel on tensor cores, and what becomes of it if one line of it is wrong."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest

from flashgen.compilation.toolchains.nvrtc_library import find_nvrtc
from flashgen.emulator import In, Module, Out, Report, Schedule
from flashgen.reference import attention_reference
from flashgen.spec import Causal

pytestmark = pytest.mark.usefixtures("each_executor")
_SOURCE = (Path(__file__).parent / "kernels" / "flash_mma.cu").read_text()
_ORDERS = ("round_robin", "reverse", "random")
_D, _TILE_BYTES = 64, 64 * 128


@cache
def compiled(source: str) -> bytes:
    found = find_nvrtc()
    if not found:
        pytest.skip("NVRTC is not installed")
    options = ("-arch=compute_80", "--std=c++17", "-lineinfo", "-default-device")
    program = found[0].compile(source, "flash_mma.cu", options)
    assert program.succeeded, program.log
    return program.ptx


def attend(
    source: str,
    seqlen_q: int,
    seqlen_k: int,
    causal: bool,
    order: str = "round_robin",
    *,
    heads: int = 2,
    tiles: int = 3,
) -> tuple[Report, float, float]:
    """The report, and how far out and LSE are from the float64 oracle."""
    rng = np.random.default_rng(seqlen_q)
    q, k, v = (rng.standard_normal((1, heads, n, _D)).astype(np.float16) for n in (seqlen_q, seqlen_k, seqlen_k))
    out, lse = np.zeros_like(q), np.zeros(q.shape[:3], np.float32)
    scale = _D**-0.5
    report = Module(compiled(source), source=source).launch(
        "flash_mma",
        (-(-seqlen_q // 64), heads),
        128,
        [In(q), In(k), In(v), Out(out), Out(lse), seqlen_q, seqlen_k, scale, int(causal)],
        shared=tiles * _TILE_BYTES,
        schedule=Schedule(warps=order, seed=seqlen_k),
    )
    wanted, wanted_lse = attention_reference(
        q, k, v, softmax_scale=scale, causal=Causal.TOP_LEFT if causal else Causal.NONE
    )
    return report, float(np.abs(out - wanted).max()), float(np.abs(lse - wanted_lse).max())


@pytest.mark.parametrize("order", _ORDERS)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("sizes", [(64, 64), (130, 200), (1, 65), (192, 33)])
def test_it_is_right_and_clean(sizes: tuple[int, int], causal: bool, order: str) -> None:
    report, error, lse_error = attend(_SOURCE, *sizes, causal, order)
    report.raise_for_findings()
    assert error < 2e-3 and lse_error < 2e-6


def test_its_tiles_have_no_bank_conflicts() -> None:
    """4 wavefronts for each ldmatrix.x4 and for each copy of 32 times 16 bytes."""
    report, *_ = attend(_SOURCE, 128, 128, causal=False)
    assert report.shared.conflicts == 0 and report.shared.wavefronts == 4 * report.shared.accesses
    straight = _SOURCE.replace("16 * (chunk ^ (row & 7))", "16 * chunk")
    report, error, _ = attend(straight, 128, 128, causal=False)
    loads = [line for line in report.lines if line.unit == "load.matrix"]
    assert error < 2e-3 and loads and all(line.wavefronts == 32 * line.executed for line in loads)


def test_it_counts_what_it_does() -> None:
    """Two blocks of rows of two heads, two tiles of keys each; 4 warps; 64 x 64 x 64 products."""
    report, *_ = attend(_SOURCE, 128, 128, causal=False)
    tiles, warps = 2 * 2 * 2, 4
    assert report.instructions["mma"] == tiles * warps * 2 * (64 // 16 // warps) * (64 // 8) * (64 // 16)
    assert report.instructions["load.matrix"] == tiles * warps * (4 * (1 + 4) + 4 * 4)
    copies = 4  # 16 bytes for each of 128 threads, 64 rows of 128 bytes
    q_loads, kv_loads, waits = 4, 2 * tiles, 2 * tiles
    assert report.instructions["copy.async"] == warps * ((copies + 1) * (q_loads + kv_loads) + waits)


_K_WAIT = "    wait_for_copies();  // K\n"
_V_WAIT = "    wait_for_copies();  // V\n"
_K_BARRIER = "    __syncthreads();    // of all threads; and nobody needs the last V any more\n"
_V_BARRIER = "    __syncthreads();    // of all threads; and nobody needs K any more\n"
_MUTANTS = {
    "does not wait for K": ((_K_WAIT, "\n"), "in-flight"),
    "does not wait for V": ((_V_WAIT, "\n"), "in-flight"),
    "lacks the barrier after K has come": ((_K_BARRIER, "\n"), "race"),
    "lacks the barrier after V has come": ((_V_BARRIER, "\n"), "race"),
    "waits for all but the newest group": (("wait_group 0", "wait_group 1"), "in-flight"),
    "never commits": (('asm volatile("cp.async.commit_group;")', "(void)0"), "in-flight"),
    "loads the next K before this one is used up": (
        (_K_BARRIER, _K_BARRIER + "    if (j + kBc < keys) load_tile(k_smem, k, j + kBc, seqlen_k);\n"),
        "in-flight",
    ),
    "copies rows that do not exist": (("(inside ? first + row : 0) * kD + 8 * chunk, inside ? 16 : 0", "(first + row) * kD + 8 * chunk, 16"), "out-of-bounds"),
    "misses the alignment of a row": (("2 * kk + lane / 16)", "2 * kk + lane / 16) + 8"), "misaligned"),
    "reads a tile that was never loaded": (("v_smem + place(16 * kk", "v_smem + kTileBytes + place(16 * kk"), "uninitialised-read"),
    "has too little shared memory": (("v_smem = k_smem + kTileBytes", "v_smem = k_smem + 2 * kTileBytes"), "out-of-bounds"),
}  # fmt: skip


@pytest.mark.parametrize("order", _ORDERS)
@pytest.mark.parametrize("name", _MUTANTS)
def test_each_mutant_is_found(name: str, order: str) -> None:
    (old, new), kind = _MUTANTS[name]
    assert _SOURCE.count(old) == 1, name
    tiles = 4 if kind == "uninitialised-read" else 3
    report, *_ = attend(_SOURCE.replace(old, new), 128, 130, causal=False, order=order, tiles=tiles)
    found = report.of_kind(kind)
    assert found and found[0].site.file == "flash_mma.cu", str(report)


def test_wrong_fragments_are_clean_but_wrong() -> None:
    """No check can tell that the wrong element is multiplied; the oracle does."""
    for old, new in (("b[0], b[1]);\n        multiply_add(s", "b[0], b[2]);\n        multiply_add(s"),
                     ("load_matrices_transposed(b", "load_matrices(b"), ('"f"(high), "f"(low)', '"f"(low), "f"(high)')):  # fmt: skip
        assert _SOURCE.count(old) == 1
        report, error, _ = attend(_SOURCE.replace(old, new), 64, 64, causal=False)
        assert report.ok and error > 0.05
