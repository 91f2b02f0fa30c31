"""The GPU kit itself, where there is no GPU: it compiles, it packs, and its checks can tell right from wrong.

The checks run on CPU kernels here, which have the same contract.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import flashgen
from flashgen.compilation.toolchains.nvrtc_library import find_nvrtc
from flashgen.target import parse_target

from . import kit

torch = pytest.importorskip("torch")
import checks  # noqa: E402 (needs torch and the path that kit sets)
import kernels  # noqa: E402
import oracle  # noqa: E402
import run  # noqa: E402

needs_nvrtc = pytest.mark.skipif(not find_nvrtc(), reason="no NVRTC: pip install 'flashgen[cuda]'")
ALGORITHMS = {"cuda_fa1": "fa1", "cuda_standard": "standard"}
ON_ANY_DEVICE = ("padding", "scales", "huge_logits", "layouts", "same_bits", "empty")


class CpuPack(kernels.Pack):
    """Answers with the CPU's kernel of the same algorithm."""

    def __init__(self, error: float = 0.0) -> None:
        self.error = error

    def open(self, wanted: kernels.Wanted) -> Any:
        attn = flashgen.build(wanted.d, wanted.dtype, None, wanted.causal, "cpu", ALGORITHMS[wanted.family], wanted.d_v)

        def call(*args: Any, **options: Any) -> Any:
            result = attn(*args, **options)
            first = result[0] if isinstance(result, tuple) else result
            if self.error and first.numel():
                first[..., -1, -1] += self.error
            return result

        return call


@pytest.fixture
def on_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "DEVICE", "cpu")


@pytest.mark.parametrize("check", ON_ANY_DEVICE)
def test_checks_accept_a_right_kernel(on_cpu: None, check: str) -> None:
    getattr(checks, check)(CpuPack(), "cuda_fa1")


def test_grid_points_accept_a_right_kernel_and_refuse_a_wrong_one(on_cpu: None) -> None:
    grid = list(checks.conformance(CpuPack(), ("cuda_fa1",)))
    assert len(grid) >= 30
    grid[4][1]()
    with pytest.raises(AssertionError, match="out is off by"):
        dict(checks.conformance(CpuPack(error=0.1), ("cuda_fa1",)))[grid[4][0]]()


def test_the_devices_oracle_is_the_oracle(on_cpu: None) -> None:
    from flashgen.reference import attention_reference
    from flashgen.spec import Causal

    x = checks.tensors(kernels.Wanted("cuda_fa1", 8, "fp32"), (2, 4, 2, 9, 13))
    for causal in Causal:
        out, lse = oracle.attention(x.q, x.k, x.v, causal, -0.7, [0, 11])
        want, want_lse = attention_reference(
            x.q.numpy(), x.k.numpy(), x.v.numpy(), causal=causal, softmax_scale=-0.7, seqlens_k=[0, 11]
        )
        assert oracle.deviation(out, torch.from_numpy(want)) < 1e-12
        assert oracle.deviation(lse, torch.from_numpy(want_lse)) < 1e-12


def test_a_deviation_never_hides_a_nan() -> None:
    one, nan = torch.ones(3), torch.tensor([1.0, float("nan"), 1.0])
    assert oracle.deviation(one, nan.double()) == float("inf")
    assert oracle.deviation(nan, one.double()) == float("inf")
    assert oracle.deviation(nan, nan.double()) == 0.0
    assert oracle.deviation(torch.tensor([float("inf")]), torch.tensor([-float("inf")]).double()) == float("inf")


@needs_nvrtc
def test_a_dry_run_compiles_and_reports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    few = (kernels.Wanted("cuda_fa1", 32, "fp32"), kernels.Wanted("cuda_standard", 32, "fp32"))
    monkeypatch.setattr(run, "grid", lambda families: iter(few))
    monkeypatch.setattr(run, "timed", lambda families: iter(few[:1]))
    monkeypatch.setattr(run, "decoding", lambda families: iter(()))
    pack, out = tmp_path / "pack", tmp_path / "out"
    monkeypatch.setattr(
        sys, "argv", ["run.py", "--dry-run", "--target", "sm_80", "--pack", str(pack), "--out", str(out)]
    )
    assert run.main() == 0
    report = json.loads((out / "gpu-report.json").read_text())
    assert report["compiled"]["kernels"] == report["compiled"]["compiled_now"] == 2
    assert report["compiled"]["complaints"] == []
    assert "2 kernels, 0 complaints" in (out / "gpu-report.md").read_text()
    assert run.main() == 0  # everything is packed now
    assert json.loads((out / "gpu-report.json").read_text())["compiled"]["compiled_now"] == 0


@needs_nvrtc
def test_a_packed_kernel_opens_without_flashgens_other_needs(tmp_path: Path) -> None:
    wanted = kernels.Wanted("cuda_fa1", 32, "fp32")
    kernels.Pack(tmp_path, parse_target("sm_80")).ensure(wanted)
    program = f"""
import sys
class Block:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {{"platformdirs", "filelock", "click", "rich", "ml_dtypes", "jinja2"}}:
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Block())
sys.path[:0] = [{str(kit.KIT)!r}, {str(kit.KIT.parents[1])!r}]
from pathlib import Path
from kernels import Pack, Wanted
from flashgen.target import parse_target
pack = Pack(Path({str(tmp_path)!r}), parse_target("sm_80"))
kernel = pack.kernel(Wanted("cuda_fa1", 32, "fp32"), host=None)
print(kernel.artifact.path.name, kernel.source.text.count(chr(10)) > 100, pack.seconds)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["cuda_fa1_d32_fp32_br64_bc64_sm_80.cubin", "True", "[]"]


def test_the_race_times_everyone_who_can_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """On the CPU, with a stopwatch that counts: torch's CUDNN backend cannot run here and is left out."""
    import timing

    ticks = iter(range(1, 10_000))

    class Stopwatch:
        def once(self, run: Any) -> float:
            run()
            return float(next(ticks))

    monkeypatch.setattr(timing, "DEVICE", "cpu")
    monkeypatch.setattr(timing, "SHAPES", ((1, 2, 16),))
    monkeypatch.setattr(timing, "Stopwatch", Stopwatch)
    monkeypatch.setattr(timing, "timed", lambda families: iter([kernels.Wanted("cuda_fa1", 32, "fp32")]))
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    results = timing.measure(CpuPack(), ("cuda_fa1",), lambda: False)
    contenders = {result.contender for result in results}
    assert "flashgen cuda_fa1" in contenders
    assert "torch CUDNN" not in contenders
    assert all(result.low <= result.milliseconds <= result.high for result in results)
    ours = next(result for result in results if result.contender == "flashgen cuda_fa1")
    assert ours.tflops == pytest.approx(4 * 2 * 16 * 16 * 32 / ours.milliseconds / 1e9)
    assert timing.measure(CpuPack(), ("cuda_fa1",), lambda: True) == []


def test_the_table_names_what_failed() -> None:
    report = {
        "target": "sm_80", "compiled": {"kernels": 1, "complaints": []}, "checks": {"good": "passed", "bad": "X: y"},
        "peak_tflops": {"fp16": 1.0}, "sanitizer": {"memcheck": {"exit": 0, "summary": "0 errors"}},
        "timings": [{"problem": "p", "contender": "c", "milliseconds": 1.0, "low": 0.5, "high": 2.0, "tflops": 3.0}],
    }  # fmt: skip
    table = run._table(report)
    assert "1 checks passed, 1 failed" in table
    assert "* bad: X: y" in table
    assert "| p | c | 1.000 | 0.500-2.000 | 3.0 |" in table


def test_a_failing_check_is_reported_and_the_rest_still_runs() -> None:
    def fail() -> None:
        raise AssertionError("off by 1")

    outcomes = run._run_checks([("a", fail), ("b", lambda: None)], lambda: False)
    assert outcomes == {"a": "AssertionError: off by 1", "b": "passed"}
    assert run._run_checks([("a", fail)], lambda: True) == {}
