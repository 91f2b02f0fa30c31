"""The model of CUDA kernels: its arithmetic, what it takes from the emulator, and that it never claims to measure."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from flashgen.cli.main import main
from flashgen.compilation.toolchains.cuda import cuda_toolchain
from flashgen.errors import LaunchError, ToolchainError
from flashgen.families import family_named
from flashgen.families.cuda_fa1 import CudaFa1
from flashgen.inspect.occupancy import Occupancy
from flashgen.inspect.resources import KernelResources
from flashgen.pipeline import Built, build_kernel
from flashgen.pipes.machine import Machine, PipeRates
from flashgen.runtime.device import runs_here
from flashgen.spec import make_spec
from flashgen.target import parse_target
from flashgen.tile_plan import TilePlan
from flashgen.tuning.model import estimate, parts
from flashgen.tuning.model.counts import Run, StepCounts, _products
from flashgen.tuning.model.estimate import WrongResultError, predict, resource_complaint
from flashgen.tuning.model.parts import Layout, Problem, imbalance
from flashgen.tuning.model.predict import Work, counted_cycles, memory_seconds, step_time

RATES = PipeRates(tensor=1024, tensor_peak=1024, fp32=64, fp64=32)
MACHINE = Machine(sms=10, clock=1e9, bandwidth=1e9, l2_bytes=1000, rates=RATES)
UNITS = {
    "fp32": 8000,
    "fp64": 10,
    "int": 1000,
    "compare": 600,
    "convert": 400,
    "special": 100,
    "warp": 50,
    "move": 5000,
}
COUNTS = StepCounts(UNITS, wavefronts=1000, products=0, copied=200, sectors={"q": 210, "workspace": 1000})
SM_80 = parse_target("sm_80")


def kernel(ctas: int = 2, threads: int = 256) -> KernelResources:
    fits = Occupancy(ctas, ctas * threads // 32, 0.5, "registers")
    return KernelResources("entry", threads, 0, 64, 0, 0, 0, 0, 1, fits, None)


def work(counts: StepCounts = COUNTS, ctas: int = 100, imbalance: float = 1.0) -> Work:
    return Work(counts, ctas, imbalance, {"q": 100, "workspace": 100})


def test_each_pipe_takes_its_instructions_at_its_rate_and_moves_are_free() -> None:
    cycles = counted_cycles(COUNTS, RATES)
    assert cycles.fma == 8000 * 32 / 64
    assert cycles.fp64 == 10 * 32 / 32
    assert cycles.alu == 2000 * 32 / 64
    assert cycles.special == 100 * 32 / 16
    assert cycles.shared == 1000 + 50
    assert cycles.issue == (8000 + 10 + 2000 + 100 + 50) / 4
    assert cycles.tensor == 0


def test_asynchronous_copies_keep_no_warp_waiting() -> None:
    assert counted_cycles(COUNTS, RATES).l2 == (1210 - 200) * 32 / 64


def test_tensor_cores_take_products_at_their_rate() -> None:
    assert counted_cycles(replace(COUNTS, products=1024 * 7), RATES).tensor == 7


def test_counts_are_the_same_there_and_back() -> None:
    assert StepCounts.of(COUNTS.flat) == COUNTS


@pytest.mark.parametrize(
    ("ptx", "products"),
    [
        ("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f1}, {%r1}, {%r2}, {%f1};", 2048),
        ("mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {%f1}, {%r1}, {%r2}, {%f1};", 1024),
        ("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%f1}, {%r1}, {%r2}, {%f1};", 2048),
        ("movmatrix.sync.aligned.m8n8.trans.b16 %r1, %r2;", 0),
    ],
)
def test_products_are_read_from_the_instruction(ptx: str, products: int) -> None:
    assert _products(ptx) == products


def test_many_warps_hide_all_but_the_longest_pipe() -> None:
    one, some, many = (step_time(work(), kernel(ctas, 128), MACHINE) for ctas in (1, 2, 10))
    longest = many.cycles.longest / MACHINE.clock
    assert longest < many.seconds < some.seconds < one.seconds
    assert many.seconds < 1.1 * longest
    assert one.seconds == pytest.approx((sum(one.cycles.pipes.values()) - one.cycles.shared) / MACHINE.clock)
    assert (one.warps, many.warps, many.bound) == (1, 10, "fma")


def test_the_multiprocessor_with_the_most_ctas_decides() -> None:
    """The same work in 100 CTAs on 10 multiprocessors, and in 101: somebody gets eleven."""
    even, odd = (step_time(work(ctas=ctas), kernel(), MACHINE) for ctas in (100, 101))
    assert odd.cycles.fma / even.cycles.fma == pytest.approx((11 / 101) / (10 / 100))


def test_ctas_that_are_not_there_hide_nothing() -> None:
    assert step_time(work(ctas=10), kernel(ctas=8), MACHINE).warps == 2  # one CTA each, of eight warps


def test_half_a_multiprocessor_takes_twice_as_long() -> None:
    """One CTA of two warps leaves two of four schedulers idle."""
    two, four = (step_time(work(), kernel(1, threads), MACHINE) for threads in (64, 128))
    assert two.seconds == pytest.approx(2 * four.seconds)


def test_uneven_ctas_take_longer() -> None:
    assert step_time(work(imbalance=1.5), kernel(), MACHINE).seconds == pytest.approx(
        1.5 * step_time(work(), kernel(), MACHINE).seconds
    )


def test_memory_counts_arrays_once_where_the_cache_holds_them_and_traffic_where_not() -> None:
    assert memory_seconds(work(), MACHINE) == pytest.approx((100 + 100) / 1e9)
    crowded = replace(MACHINE, l2_bytes=50)
    assert memory_seconds(work(), crowded) > memory_seconds(work(), MACHINE)
    nothing_kept = replace(MACHINE, l2_bytes=0)
    assert memory_seconds(work(), nothing_kept) == pytest.approx(32 * 1210 / 1e9)
    assert memory_seconds(work(), replace(MACHINE, bandwidth=None)) == 0
    slow = replace(MACHINE, bandwidth=1.0)
    assert step_time(work(), kernel(), slow).bound == "memory"


@pytest.fixture
def nvrtc() -> None:
    try:
        cuda_toolchain(SM_80)
    except ToolchainError as error:
        pytest.skip(str(error))
    if runs_here(SM_80):
        pytest.skip("there is a GPU here, so nothing is predicted")


def plan_of(br: int, bc: int, warps: int = 8, family: str = "cuda_fa1", causal: Any = False) -> tuple[Any, TilePlan]:
    spec, kind = make_spec(16, "fp16", causal), family_named(family)
    knobs = next(knobs for knobs in kind.knob_choices(spec, SM_80, br, bc) if knobs.warps == warps)
    return spec, TilePlan(kind.name, br, bc, knobs, kind.footprint(spec, br, bc, knobs), "tuned")


def built(br: int, bc: int, warps: int = 8, family: str = "cuda_fa1", causal: Any = False) -> Built:
    spec, plan = plan_of(br, bc, warps, family, causal)
    return build_kernel(spec, plan, SM_80)


@pytest.mark.parametrize("family", ["cuda_fa1", "cuda_standard"])
@pytest.mark.parametrize("causal", [False, "bottom_right"])
def test_a_part_of_a_head_stands_for_the_whole(
    nvrtc: None, monkeypatch: pytest.MonkeyPatch, family: str, causal: Any
) -> None:
    kernel_, problem = built(32, 32, family=family, causal=causal), Problem(1, 2, 1, 1024, 1024)
    part = predict(kernel_, problem)
    monkeypatch.setattr(parts, "_EMULATED", 1024)
    whole = predict(kernel_, problem)
    for mine, its in zip(whole.steps, part.steps, strict=True):
        for pipe in ("fma", "shared", "issue"):
            assert its.cycles.as_dict()[pipe] == pytest.approx(mine.cycles.as_dict()[pipe], rel=0.05), pipe


@pytest.mark.parametrize("problem", [Problem(1, 8, 2, 1, 3000), Problem(2, 4, 1, 4, 3000), Problem(64, 16, 4, 2, 3000)])
def test_a_part_of_the_keys_stands_for_the_whole_where_they_are_split(
    nvrtc: None, monkeypatch: pytest.MonkeyPatch, problem: Problem
) -> None:
    kernel_ = built(16, 32, warps=2, family="cuda_decode", causal="bottom_right")
    whole = predict(kernel_, problem)
    monkeypatch.setattr(parts, "_PACKED_KEYS", 1024)
    part = predict(kernel_, problem)
    assert [len(prediction.steps) for prediction in (whole, part)] == [1 if problem.batch == 64 else 2] * 2
    for pipe in ("fma", "tensor", "shared", "issue"):
        mine, its = (prediction.steps[0].cycles.as_dict()[pipe] for prediction in (whole, part))
        assert its == pytest.approx(mine, rel=0.05), pipe
    for mine, its in zip(whole.steps[1:], part.steps[1:], strict=True):  # joining is taken as so much for each split
        assert its.cycles.as_dict()["fma"] == pytest.approx(mine.cycles.as_dict()["fma"], rel=0.25)


def test_heads_that_share_keys_are_one_unit_of_work(nvrtc: None) -> None:
    """Four query heads on one head of keys are rows of the same tile, so they cost what one costs."""
    kernel_ = built(16, 32, warps=2, family="cuda_decode")
    alone, shared = (predict(kernel_, Problem(1, heads, 8, 1, 2048)).steps[0] for heads in (8, 32))
    assert shared.cycles.as_dict()["tensor"] == alone.cycles.as_dict()["tensor"]
    assert shared.cycles.as_dict()["shared"] == pytest.approx(alone.cycles.as_dict()["shared"], rel=0.1)


def test_parts_have_whole_tiles_and_ranges_of_as_many() -> None:
    """A tail in the part would be a larger share of it than of the whole."""
    layout = Layout(*plan_of(96, 96), Problem(1, 8, 8, 1024, 1024))
    (first, ranges), (second, fewer) = layout.parts(11)
    assert (first.problem.seqlen_q, first.problem.seqlen_k, ranges) == (480, 480, 5)
    assert (second.problem.seqlen_q, second.problem.seqlen_k, fewer) == (192, 192, 2)
    assert [tail % 96 != 0 for tail in (layout.tail().problem.seqlen_q, layout.tail().problem.seqlen_k)] == [True, True]
    (only,) = Layout(*plan_of(96, 96), Problem(1, 8, 8, 500, 200)).parts(3)[:1]
    assert only[0].problem.seqlen_q == 480


def test_the_ranges_of_rows_are_weighed_as_the_kernel_cuts_them() -> None:
    causal = Layout(*plan_of(64, 64, causal=True), Problem(1, 8, 8, 512, 512))
    assert causal.visits == [1, 2, 3, 4, 5, 6, 7, 8]
    assert causal.weights(3) == [1 + 2, 3 + 4 + 5, 6 + 7 + 8]
    assert causal.weights(1) == [8, 7, 6, 5, 4, 3, 2, 1]


def test_the_multiprocessor_with_most_work_decides() -> None:
    assert imbalance([1, 1], 4, 8, 1) == 1.0
    assert imbalance([2, 1], 4, 8, 1) == pytest.approx(2 / 1.5)
    # Twelve on eight: four have two. Those are a long and a short one where the long ones come first.
    assert imbalance([2] * 4 + [1] * 8, 1, 8, 2) == pytest.approx(3 / (2 * 16 / 12))
    # One at a time: whoever has a short one takes the next.
    assert imbalance([4, 1, 1, 1], 1, 2, 1) == pytest.approx(4 / (2 * 7 / 4))


def test_a_prediction_grows_with_the_work(nvrtc: None) -> None:
    kernel_ = built(32, 32)
    seconds = [predict(kernel_, Problem(1, heads, heads, 256, 256)).seconds for heads in (8, 256, 1024)]
    assert seconds[0] < seconds[1] < seconds[2]
    assert seconds[2] / seconds[1] == pytest.approx(4, rel=0.2)


def test_a_wrong_result_is_found_by_the_model_too(nvrtc: None, monkeypatch: pytest.MonkeyPatch) -> None:
    original = estimate.count_unit

    def wrong(*arguments: Any) -> Run:
        run = original(*arguments)
        out = run.out.copy()
        out[0, 0, 7, 3] += np.float16(0.1)
        return replace(run, out=out)

    monkeypatch.setattr(estimate, "count_unit", wrong)
    with pytest.raises(WrongResultError, match=r"emulated: out\[0, 0, 7, 3\]"):
        predict(built(32, 32), Problem(1, 1, 1, 64, 64))


def test_without_ptx_nothing_can_be_emulated(nvrtc: None) -> None:
    kernel_ = built(32, 32)
    bare = replace(kernel_, artifact=replace(kernel_.artifact, paths={"cubin": kernel_.artifact.paths["cubin"]}))
    with pytest.raises(LaunchError, match="no PTX"):
        predict(bare, Problem(1, 1, 1, 64, 64))


@pytest.mark.parametrize(
    ("change", "words"),
    [({"stack_bytes": 928}, "stack_bytes is 928"), ({"spill_store_bytes": 8}, "spill_store_bytes is 8"),
     ({"registers": 5000}, "no CTA fits on a multiprocessor (registers)")],
)  # fmt: skip
def test_ptxas_rules_plans_out(nvrtc: None, change: dict[str, int], words: str) -> None:
    kernel_ = built(32, 32)
    assert resource_complaint(kernel_) == ""
    report = json.loads(json.dumps(dict(kernel_.artifact.report)))
    report["kernels"]["flashgen_cuda_fa1"] |= change
    assert words in resource_complaint(replace(kernel_, artifact=replace(kernel_.artifact, report=report)))


@pytest.fixture
def command(nvrtc: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """A sweep over four tiles for an A100."""
    monkeypatch.setattr(CudaFa1, "candidates", lambda *_: ((16, 16), (32, 32), (64, 64), (128, 256)))
    monkeypatch.setattr("flashgen.tuning.records.directory.cache_directory", lambda: tmp_path / "records")
    monkeypatch.chdir(tmp_path)
    shape = ["--d", "16", "--seqlen", "96", "--heads", "2"]
    return ["autotune", *shape, "--algorithm", "fa1", "--target", "sm_80", "--sram", "48KB"]


def test_without_a_gpu_the_result_says_predicted_and_never_measured(command: list[str], tmp_path: Path) -> None:
    done = CliRunner().invoke(main, command)
    assert done.exit_code == 0, done.output
    assert "B1 H2 N96 (predicted)" in done.stdout
    assert "nothing was measured" in done.stdout
    assert "none was measured" in done.stdout
    assert "measured on" not in done.stdout
    assert "redicted regret of the M/4d rule" in done.stdout
    data = json.loads(CliRunner().invoke(main, [*command, "--json"]).stdout)
    (shape,) = data["shapes"]
    assert shape["how"] == "predicted"
    assert shape["stopped_by"] == "record"
    assert {trial["status"] for trial in shape["trials"]} <= {"predicted", "failed"}
    assert shape["valid_for"]["how"] == "predicted"
    prediction = next(trial["prediction"] for trial in shape["trials"] if trial["status"] == "predicted")
    assert prediction["registers"][0] > 0
    assert prediction["steps"][0]["bound"] in {*prediction["steps"][0]["cycles"], "memory"}
    (page,) = tmp_path.glob("generated/*.html")
    assert ">measured<" not in page.read_text()


def test_predictions_go_on_where_they_were(command: list[str]) -> None:
    short = json.loads(CliRunner().invoke(main, [*command, "--time-limit", "0.001s", "--json"]).stdout)["shapes"][0]
    assert short["stopped_by"] == "time limit"
    statuses = [trial["status"] for trial in short["trials"]]
    assert statuses.count("not tried") > 0
    whole = json.loads(CliRunner().invoke(main, [*command, "--json"]).stdout)["shapes"][0]
    assert whole["stopped_by"] == "all"
    for before, after in zip(short["trials"], whole["trials"], strict=True):
        assert before["seconds"] in (None, after["seconds"])


def test_a_dry_run_asks_ptxas(command: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    done = CliRunner().invoke(main, [*command, "--dry-run"])
    assert done.exit_code == 0, done.output
    assert "pruned  128 x 256, warps 8: it takes " in done.stdout
