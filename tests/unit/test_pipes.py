"""The model of pipes: cycles and times that can be worked out by hand, and what must hold of any."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flashgen.inspect.occupancy import Occupancy
from flashgen.inspect.sass import Code, Jump, Loop
from flashgen.pipes.cycles import PipeCycles
from flashgen.pipes.machine import RATES, Machine, machine_of
from flashgen.pipes.overlap import cycles_alone, cycles_shared_out, cycles_together
from flashgen.pipes.prediction import LoopWork, hot_work, predict_loop
from flashgen.pipes.sass import products, sass_cycles
from flashgen.spec import make_spec
from flashgen.target import PRESETS, capability, parse_target

A100, GEFORCE, T4 = RATES[80], RATES[86], RATES[75]
TARGETS = [target for target in PRESETS if target.kind == "cuda"]
amounts = st.floats(0, 1e4)
works = st.builds(PipeCycles, *[amounts] * 8)
crowds = st.floats(1, 16)


@pytest.mark.parametrize(
    ("opcode", "pipe", "cycles"),
    [
        ("HMMA.16816.F32", "tensor", 8), ("HMMA.16816.F32.BF16", "tensor", 8), ("HMMA.1688.F32", "tensor", 4),
        ("HMMA.1688.F32.TF32", "tensor", 8), ("FFMA", "fma", 2), ("FADD.FTZ", "fma", 2), ("IMAD.MOV.U32", "fma", 2),
        ("DFMA", "fp64", 4), ("FMNMX", "alu", 2), ("F2FP.F16.F32.PACK_AB", "alu", 2), ("LOP3.LUT", "alu", 2),
        ("MUFU.EX2", "special", 8), ("F2F.F16.F32", "special", 8), ("SHFL.BFLY", "shared", 4),
        ("LDSM.16.M88.4", "shared", 16), ("LDSM.16.MT88.2", "shared", 8), ("LDS.128", "shared", 16),
        ("LDS.U16", "shared", 4), ("STS.64", "shared", 8), ("LDGSTS.E.BYPASS.128", "shared", 16), ("LDL", "shared", 4),
        ("LDG.E.128", "l2", 32), ("STG.E", "l2", 8), ("BRA", "issue", 1), ("UIADD3", "issue", 1), ("NOP", "issue", 1),
    ],
)  # fmt: skip
def test_an_instruction_keeps_one_pipe_busy(opcode: str, pipe: str, cycles: float) -> None:
    """On an A100."""
    expected = {"issue": 1, pipe: cycles}
    assert sass_cycles([opcode], A100) == PipeCycles(**expected)


def test_architectures_differ() -> None:
    assert sass_cycles(["HMMA.16816.F32"], GEFORCE).tensor == 32
    assert sass_cycles(["FFMA"], GEFORCE).fma == 1
    assert sass_cycles(["DFMA"], GEFORCE).fp64 == 64
    assert sass_cycles(["HMMA.1688.F32"], T4).tensor == 8
    assert sass_cycles(["LDSM.16.M88.4"], T4).shared == 32
    assert sass_cycles(["SHFL.IDX"], T4).shared == 4  # a warp in each clock, everywhere


def test_products_are_counted_and_those_of_tf32_twice() -> None:
    opcodes = ("HMMA.16816.F32", "HMMA.1688.F32", "HMMA.1688.F32.TF32", "FFMA", "HMMA.884.F32")
    assert [products(opcode) for opcode in opcodes] == [2048, 1024, 2048, 0, 0]


def test_a_loop_adds_up() -> None:
    work = sass_cycles(["HMMA.16816.F32"] * 4 + ["FFMA"] * 3 + ["MUFU.EX2", "BRA"], A100)
    assert work == PipeCycles(tensor=32, fma=6, special=8, issue=9)
    assert (work.busiest, work.longest) == ("tensor", 32)
    assert work * 2 == work + work


@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_every_cuda_target_has_a_machine(target: object) -> None:
    machine = machine_of(target)  # type: ignore[arg-type]
    rates = machine.rates
    assert rates is RATES[capability(target)]  # type: ignore[arg-type]
    assert machine.sms == PRESETS[target].cores  # type: ignore[index]
    assert machine.clock is None or 1e9 < machine.clock < 2.6e9
    assert 0 < rates.tensor <= rates.tensor_peak
    assert min(rates.fp32, rates.fp64, rates.alu, rates.special, rates.shared, rates.l2) > 0
    assert set(rates.unverified) <= {"tensor", "shared", "alu", "fp64"}


def test_clocks_follow_from_peaks() -> None:
    """Boost clocks by NVIDIA's data sheets."""
    for name, clock in (("sm_80", 1.41e9), ("sm_86", 1.695e9), ("sm_89", 2.52e9), ("sm_120", 2.407e9)):
        assert machine_of(parse_target(name)).clock == pytest.approx(clock, rel=0.005), name
    assert machine_of(parse_target("sm_121")).clock is None


def test_a_warp_alone_overlaps_only_shared_memory() -> None:
    assert cycles_alone(PipeCycles(tensor=10, fma=5, shared=8, issue=9)) == 15
    assert cycles_alone(PipeCycles(tensor=10, shared=18)) == 18
    assert cycles_alone(PipeCycles(tensor=10, issue=11)) == 11


def test_two_equal_pipes_by_hand() -> None:
    """Two warps that need each pipe for 1: a third of the time both wait at one pipe, so each works for 2/3."""
    work = PipeCycles(tensor=1, fma=1)
    assert [cycles_together(work, warps) for warps in (1, 2, 3)] == pytest.approx([2, 3, 4])
    assert cycles_together(work, 1.5) == pytest.approx(2.5)
    assert cycles_shared_out(work, 2) == pytest.approx(1.5)


def test_unequal_pipes_by_hand() -> None:
    """First one warp: 3 + 1. The second finds 3/4 of a warp at the first pipe and 1/4 at the other."""
    assert cycles_together(PipeCycles(tensor=3, fma=1), 2) == pytest.approx(3 * 1.75 + 1 * 1.25)


def test_one_pipe_is_a_queue() -> None:
    assert cycles_together(PipeCycles(tensor=7), 5) == pytest.approx(35)


def test_less_than_one_warp_is_one_beside_idle_schedulers() -> None:
    work = PipeCycles(tensor=1, fma=1)
    assert cycles_together(work, 0.5) == cycles_together(work, 1)
    assert cycles_shared_out(work, 0.5) == pytest.approx(4)


def test_no_work_takes_no_time() -> None:
    assert cycles_together(PipeCycles(), 4) == 0


@given(works, crowds, crowds)
def test_more_warps_are_never_slower(work: PipeCycles, some: float, more: float) -> None:
    few, many = sorted((some, more))
    assert cycles_shared_out(work, many) <= cycles_shared_out(work, few) * (1 + 1e-9)
    assert cycles_together(work, many) >= cycles_together(work, few) * (1 - 1e-9)


@given(works, crowds)
def test_time_lies_between_the_longest_pipe_and_no_overlap(work: PipeCycles, warps: float) -> None:
    took = cycles_shared_out(work, warps)
    assert work.longest * (1 - 1e-9) <= took <= cycles_alone(work) * (1 + 1e-9)


@given(works, crowds, st.sampled_from(sorted(PipeCycles().as_dict())), amounts)
def test_more_work_is_never_faster(work: PipeCycles, warps: float, pipe: str, added: float) -> None:
    more = work + PipeCycles(**{pipe: added})
    assert cycles_together(more, warps) >= cycles_together(work, warps) * (1 - 1e-9)


@given(works, crowds, st.floats(0.1, 10))
def test_a_clock_is_only_a_unit(work: PipeCycles, warps: float, factor: float) -> None:
    assert cycles_together(work * factor, warps) == pytest.approx(factor * cycles_together(work, warps), abs=1e-6)


MACHINE = Machine(sms=10, clock=1e9, bandwidth=None, l2_bytes=0, rates=A100)
WORK = LoopWork(PipeCycles(tensor=600, fma=300, special=100, shared=500, issue=400), flops=4 * 128 * 600, unit="tensor")


def occupied(warps: int) -> Occupancy:
    return Occupancy(1, warps, warps / 64, "registers")


def test_a_lone_warp_of_each_scheduler_by_hand() -> None:
    """1000 cycles for 600 of products: 60 % of what ten multiprocessors of 1024 multiply-adds do."""
    found = predict_loop("entry", WORK, occupied(4), MACHINE)
    assert (found.util_lo, found.util_hi, found.warps) == (0.6, 1, 1)
    assert found.tflops == pytest.approx(4 * 128 * 600 / 1000 * 4 * 10 * 1e9 / 1e12)
    assert found.share_of_peak == pytest.approx(found.tflops * 1e12 / (2 * 1024 * 10 * 1e9))
    assert found.utilisation == pytest.approx(0.6)


def test_one_busy_scheduler_is_a_quarter_of_a_multiprocessor() -> None:
    one, four = (predict_loop("entry", WORK, occupied(warps), MACHINE) for warps in (1, 4))
    assert one.share_of_peak == pytest.approx(four.share_of_peak / 4)


def test_more_warps_come_closer_to_full_overlap() -> None:
    found = [predict_loop("entry", WORK, occupied(4 * warps), MACHINE).utilisation for warps in (1, 2, 4, 16)]
    assert found == sorted(found)
    assert 0.6 < found[1] < found[3] < 1


def test_without_a_clock_there_is_a_share_but_no_rate() -> None:
    found = predict_loop("entry", WORK, occupied(4), replace(MACHINE, clock=None))
    assert found.tflops is None
    assert found.share_of_peak > 0


def looped(*opcodes: str) -> Code:
    """A function of one loop."""
    return Code((*opcodes, "BRA", "EXIT"), (Loop(0, len(opcodes)),), (Jump(len(opcodes), 0, False),))


def test_columns_that_only_pad_are_no_work() -> None:
    """Head dims 4 and 8 are chunks of 8 alike, so 12 of 16 columns count."""
    work = hot_work(looped("HMMA.16816.F32"), make_spec(4, "fp16", False, 8), A100)
    assert work is not None
    assert (work.unit, work.flops, work.cycles.tensor) == ("tensor", 2 * 2048 * 12 / 16, 8)


@pytest.mark.parametrize(("opcode", "unit", "cycles"), [("FFMA", "fma", 2), ("DFMA", "fp64", 4)])
def test_fma_units_stand_in_for_tensor_cores(opcode: str, unit: str, cycles: int) -> None:
    work = hot_work(looped(*[opcode] * 32, "LDS.128"), make_spec(64, "fp32"), A100)
    assert work is not None
    assert (work.unit, work.flops) == (unit, 2 * 32 * 32)
    assert (work.cycles.pipes[unit], work.cycles.shared) == (32 * cycles, 16)


def test_loops_of_fmas_count_as_equal_shares_of_the_work() -> None:
    """32 FMAs and 64: the first loop runs twice as often."""
    first, second = looped(*["FFMA"] * 32, "LDS.128"), looped(*["FFMA"] * 64, "MUFU.EX2")
    at = len(first.opcodes) - 1
    both = Code(
        (*first.opcodes[:-1], *second.opcodes),
        (*first.loops, Loop(at, at + second.loops[0].last)),
        (*first.jumps, Jump(second.jumps[0].at + at, at, False)),
    )
    work = hot_work(both, make_spec(64, "fp32"), A100)
    assert work is not None
    assert work.flops == 2 * 32 * 128
    assert (work.cycles.fma, work.cycles.shared, work.cycles.special) == (256, 32, 8)


def test_a_function_that_does_not_multiply_has_no_hot_loop() -> None:
    assert hot_work(looped("FADD", "MUFU.EX2"), make_spec(64), A100) is None
