"""CUDA kernels through the emulator loader: the public callable on NumPy arrays, without a GPU."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import flashgen
from flashgen.compilation.toolchains.nvrtc_library import find_nvrtc
from flashgen.errors import ArgumentError, LaunchError, SpecError
from flashgen.launch_plan import resolve
from flashgen.reference import attention_reference

pytestmark = pytest.mark.skipif(not find_nvrtc(), reason="no NVRTC: pip install 'flashgen[cuda]'")


def kernel(algorithm: str = "fa1", **changes: object) -> flashgen.Attention:
    options = {"d": 16, "dtype": "fp32", "target": "sm_80", "algorithm": algorithm, "br": 16, "bc": 16}
    return flashgen.build(**(options | changes), loader="emulator")  # type: ignore[arg-type]


def arrays(rows: int = 37, keys: int = 50) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    q = rng.standard_normal((2, 4, rows, 16), dtype=np.float32)
    k, v = (rng.standard_normal((2, 2, keys, 16), dtype=np.float32) for _ in range(2))
    return q, k, v


@pytest.mark.parametrize("algorithm", ["standard", "fa1"])
def test_a_call_gives_what_the_oracle_gives(algorithm: str) -> None:
    q, k, v = arrays()
    out, lse = kernel(algorithm)(q, k, v, return_lse=True, seqlens_k=[50, 21], softmax_scale=0.4)
    want, want_lse = attention_reference(q, k, v, seqlens_k=[50, 21], softmax_scale=0.4)
    np.testing.assert_allclose(out, want, atol=2e-6)
    np.testing.assert_allclose(lse, want_lse, atol=5e-6)


def test_strides_of_any_kind_reach_the_kernel_as_they_are() -> None:
    q, k, v = arrays()
    reversed_heads, every_second = q[:, ::-1], np.repeat(k, 2, axis=2)[:, :, ::2]
    out = kernel()(reversed_heads, every_second, v.transpose(0, 2, 1, 3).copy().transpose(0, 2, 1, 3))
    np.testing.assert_allclose(out, attention_reference(reversed_heads, k, v)[0], atol=2e-6)


def test_the_reports_tell_the_bytes_that_moved() -> None:
    q, k, v = arrays(rows=32, keys=48)
    attn = kernel()
    attn(q, k, v)
    reports = attn.kernel.executable.reports  # type: ignore[attr-defined]
    assert len(reports) == 1
    assert reports[0].traffic["out"].store_bytes == q.nbytes
    assert reports[0].shared.conflicts == 0


def test_a_kernel_that_leaves_its_output_unwritten_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def too_few_blocks(*problem):
        return replace(resolve(*problem), grids=((4, 1, 1),))  # of 8 heads

    monkeypatch.setattr("flashgen.runtime.emulator_loader.resolve", too_few_blocks)
    with pytest.raises(LaunchError, match="unwritten"):
        kernel(bc=32)(*arrays(rows=16))


def test_torch_on_the_cpu_works_too_and_other_targets_do_not() -> None:
    torch = pytest.importorskip("torch")
    q, k, v = arrays()
    out = kernel()(*(torch.from_numpy(x) for x in (q, k, v)))
    np.testing.assert_allclose(out.numpy(), attention_reference(q, k, v)[0], atol=2e-6)
    with pytest.raises(SpecError, match="does not serve target cpu"):
        flashgen.build(d=16, target="cpu", loader="emulator")


def test_wrong_tensors_are_refused_as_everywhere() -> None:
    q, k, v = arrays()
    with pytest.raises(ArgumentError, match="k must be fp32"):
        kernel()(q, k.astype(np.float64), v)
