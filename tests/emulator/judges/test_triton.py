"""Triton's compiler as an outside judge: its PTX must run here as it would on a GPU, without a finding."""

from __future__ import annotations

from functools import cache

import ml_dtypes
import numpy as np
import pytest

from flashgen.emulator import In, InOut, Module, Out, Report, Schedule
from flashgen.reference import attention_reference
from flashgen.spec import Causal

pytest.importorskip("triton", reason="the judges extra installs Triton")
import judge_kernels

from flashgen.inspect import triton_attention, triton_compile

_ORDERS = ("round_robin", "reverse", "random")
_TYPES = {
    "fp16": np.float16, "bf16": ml_dtypes.bfloat16, "fp32": np.float32, "i8": np.int8,
    "fp8e5": ml_dtypes.float8_e5m2, "fp8e4nv": ml_dtypes.float8_e4m3fn,
}  # fmt: skip
# tl.dot of fp32 is TF32: 10 bits of mantissa.
_TOLERANCES = {"fp16": 2e-3, "bf16": 1.6e-2, "fp32": 1e-2}
_LSE_TOLERANCES = {"fp16": 3e-6, "bf16": 3e-6, "fp32": 5e-3}


@cache
def compiled(
    kernel: str, types: tuple[tuple[str, str], ...], constants: tuple[tuple[str, object], ...], arch: int = 80
):
    home = triton_attention if kernel == "attention" else judge_kernels
    built = triton_compile.compile_for(getattr(home, kernel), dict(types), dict(constants), arch=arch)
    return built, Module(built.ptx)


def launch(
    kernel: str, types: dict[str, str], constants: dict[str, object], grid, args, arch: int = 80, **schedule
) -> Report:
    """Runs it; Triton's own scratch pointers, which these kernels do not use, are null."""
    built, module = compiled(kernel, tuple(types.items()), tuple(constants.items()), arch)
    spare = [None] * (len(module.ptx.functions[kernel].params) - len(args))
    return module.launch(
        kernel, grid, built.threads, [*args, *spare], shared=built.shared, schedule=Schedule(**schedule)
    )


def attend(
    dtype: str,
    d: int,
    causal: bool,
    sizes: tuple[int, int],
    *,
    stages: int = 3,
    arch: int = 80,
    order: str = "round_robin",
):
    seqlen_q, seqlen_k = sizes
    rng = np.random.default_rng(d)
    q, k, v = (rng.standard_normal((1, 2, n, d)).astype(_TYPES[dtype]) for n in (seqlen_q, seqlen_k, seqlen_k))
    out, lse = np.zeros_like(q), np.zeros(q.shape[:3], np.float32)
    types = dict.fromkeys(("q", "k", "v", "out"), f"*{dtype}")
    types |= {"lse": "*fp32"} | dict.fromkeys(("q_row", "k_row", "v_row", "out_row", "seqlen_q", "seqlen_k"), "i32")
    types |= {"scale": "fp32"}
    constants = {"BR": 64, "BC": 64, "D": d, "DV": d, "CAUSAL": causal, "STAGES": stages}
    args = [In(q), In(k), In(v), Out(out), Out(lse), d, d, d, d, seqlen_q, seqlen_k, d**-0.5]
    report = launch("attention", types, constants, (-(-seqlen_q // 64), 2), args, arch, warps=order, seed=d)
    wanted, wanted_lse = attention_reference(q, k, v, causal=Causal.TOP_LEFT if causal else Causal.NONE)
    assert np.abs(out.astype(np.float64) - wanted).max() < _TOLERANCES[dtype]
    assert np.abs(lse - wanted_lse).max() < _LSE_TOLERANCES[dtype]
    return report


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("d", [64, 128])
@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
def test_attention(dtype: str, d: int, causal: bool) -> None:
    report = attend(dtype, d, causal, (150, 200))
    report.raise_for_findings()
    assert report.instructions["mma"] and report.instructions["load.matrix"] and report.instructions["copy.async"]
    assert all(line.wavefronts == 4 * line.executed for line in report.lines if line.unit == "load.matrix")


@pytest.mark.parametrize("order", _ORDERS)
@pytest.mark.parametrize("stages", [1, 2, 4])
def test_pipelines_of_every_depth(stages: int, order: str) -> None:
    attend("fp16", 64, True, (100, 300), stages=stages, order=order).raise_for_findings()


def test_attention_in_tf32() -> None:
    attend("fp32", 64, False, (70, 130)).raise_for_findings()


@pytest.mark.parametrize("arch", [75, 86, 89, 120])
def test_attention_for_other_architectures(arch: int) -> None:
    attend("fp16", 64, True, (100, 100), arch=arch).raise_for_findings()


@pytest.mark.parametrize(
    ("dtype", "arch"), [("fp16", 80), ("bf16", 80), ("fp32", 80), ("i8", 80), ("fp8e5", 89), ("fp8e4nv", 89)]
)
def test_matrix_product(dtype: str, arch: int) -> None:
    """Within the bound of a sum in fp32, term after term; integers exactly; TF32 cuts 2^-10 of each factor, at most."""
    rng = np.random.default_rng(0)
    m, n, k = 100, 144, 160
    a, b = (rng.standard_normal(shape) for shape in ((m, k), (k, n)))
    a, b = ((40 * x if dtype == "i8" else x).astype(_TYPES[dtype]) for x in (a, b))
    total = "i32" if dtype == "i8" else "fp32"
    c = np.zeros((m, n), np.int32 if dtype == "i8" else np.float32)
    types = {"a": f"*{dtype}", "b": f"*{dtype}", "c": f"*{total}", "M": "i32", "N": "i32", "K": "i32"}
    constants = {"BM": 64, "BN": 64, "BK": 32, "STAGES": 3}
    report = launch("matmul", types, constants, (2, 3), [In(a), In(b), Out(c), m, n, k], arch)
    report.raise_for_findings()
    assert report.instructions["mma"]
    wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
    relative = {"i8": 0.0, "fp32": 2 * 2**-10 + k * 2**-24}.get(dtype, k * 2**-24)
    assert (np.abs(c - wide_a @ wide_b) <= relative * (np.abs(wide_a) @ np.abs(wide_b))).all()


@pytest.mark.parametrize("order", _ORDERS)
def test_locks_and_atomics(order: str) -> None:
    """Blocks hand sums to each other behind locks, so races between them are not looked for."""
    rng = np.random.default_rng(0)
    rows, n, groups = 24, 200, 3
    x, dy = (rng.standard_normal((rows, n)).astype(np.float16) for _ in range(2))
    dw, locks = np.zeros((groups, n), np.float32), np.zeros(groups, np.int32)
    types = {"x": "*fp16", "dy": "*fp16", "dw": "*fp32", "locks": "*i32", "N": "i32", "ROWS": "i32"}
    args = [In(x), In(dy), InOut(dw), InOut(locks), n, rows]
    constants = {"GROUPS": groups, "BN": 256}
    launch("weight_gradient", types, constants, rows, args, warps=order, global_races=False).raise_for_findings()
    wide = x.astype(np.float64)
    centred = wide - wide.mean(axis=1, keepdims=True)
    hat = centred / np.sqrt((centred**2).mean(axis=1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(dw.sum(axis=0), (dy * hat).sum(axis=0), atol=2e-3)
