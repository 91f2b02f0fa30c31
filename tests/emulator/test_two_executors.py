# ruff: noqa: E501 - lines of CUDA and of case tables read best whole
"""The machine and the NumPy executor, two readings of one manual, against each other: results, counters, findings."""

from __future__ import annotations

import re
from collections.abc import Iterable

import numpy as np
import pytest
import test_checks
import test_global_races
import test_tensor_kernel
from test_families import CAUSAL, CUDA_FAMILIES, SERVED, TOLERANCES, USUAL, Kernel, attend, compiled, tensors

from flashgen.compilation.toolchains.nvrtc_library import find_nvrtc
from flashgen.emulator import Finding, In, InOut, Module, Out, PtxError, Report, Schedule, Struct, native
from flashgen.emulator import module as emulator_module
from flashgen.emulator.lockstep import executor as lockstep_executor
from flashgen.emulator.lockstep.program import meeting_blocks
from flashgen.emulator.module import EXECUTORS
from flashgen.emulator.program.flow import find_blocks, find_meets
from flashgen.errors import LaunchError

_ORDERS = ("round_robin", "reverse", "random")
# What these say does not depend on the order in which warps run.
_TIMELESS = ("out-of-bounds", "misaligned", "forbidden-write", "unwritten-output", "inactive-lane", "uniform-branch")


def counters(report: Report) -> dict[str, object]:
    lines = [(c.site.ptx_line, c.executed, c.wavefronts, c.conflicts, c.sectors) for c in report.lines]
    names = ("instructions", "warp_instructions", "lane_use", "traffic", "shared", "barriers")
    return {**{name: getattr(report, name) for name in names}, "lines": lines}


def story(finding: Finding) -> tuple:
    """All that a finding says."""
    other = finding.other.ptx_line if finding.other else None
    return (
        finding.kind, finding.site.ptx_line, other, finding.block, finding.warp, finding.lanes, finding.address, finding.count,
    )  # fmt: skip


def told(finding: Finding) -> tuple:
    """What a finding says whatever the order: another warp of the block may have been the first."""
    return finding.kind, finding.site.ptx_line, finding.block, finding.count


def races(report: Report) -> set[frozenset[int]]:
    """Which lines race, whichever came first."""
    return {frozenset((f.site.ptx_line, f.other.ptx_line)) for f in report.of_kind("race") if f.other}


def ulps_apart(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Units in the last place between floats of any format."""
    kind = f"i{a.itemsize}"

    def ordinal(x: np.ndarray) -> np.ndarray:
        bits = x.view(kind).astype(np.int64)
        return np.where(bits < 0, np.int64(-1) << np.int64(8 * a.itemsize - 1), 0) - np.where(bits < 0, bits, -bits)

    return np.abs(ordinal(a) - ordinal(b))


def kernels(family: str, dtype: str, causal: bool | str, d: int = 40, dv: int = 24) -> Iterable[Kernel]:
    return (compiled(family, d, dv, dtype, causal, "sm_80", (32, 32), executor) for executor in EXECUTORS)


@pytest.mark.parametrize("causal", CAUSAL)
@pytest.mark.parametrize("family,dtype", SERVED)
def test_they_agree_on_every_family(family: str, dtype: str, causal: bool | str) -> None:
    """Tails everywhere: rows, keys and head dims that fill no tile; grouped heads; several K/V blocks."""
    q, k, v = tensors(dtype, 1, 2, 1, 37, 75, 40, 24)
    one, two = (attend(family, q, k, v, dtype, causal, kernel=kernel) for kernel in kernels(family, dtype, causal))
    for mine, other in zip(one.reports, two.reports, strict=True):
        assert counters(mine) == counters(other)
        assert mine.ok and other.ok
    assert not one.unwritten and not two.unwritten
    if any("mma" in report.instructions for report in one.reports):  # tensor cores: the order of sums is open
        np.testing.assert_allclose(one.out.astype(float), two.out.astype(float), rtol=0, atol=TOLERANCES[dtype])
        np.testing.assert_allclose(one.lse, two.lse, rtol=0, atol=2e-6)
        return
    # 2^x is rounded from two different doubles: very rarely, to two different floats.
    for mine, other in ((one.out, two.out), (one.lse, two.lse)):
        apart = ulps_apart(mine, other)
        assert apart.max() <= 1 and np.count_nonzero(apart) <= 1 + mine.size // 1000


def _mutants_of(text: str) -> list[str]:
    """The kernel without each of its barriers."""
    return [text[: b.start()] + ";" + text[b.end() :] for b in re.finditer(r"__sync(?:threads|warp)\(\);", text)]


def _compiled_text(text: str, executor: str) -> Module:
    found = find_nvrtc()
    if not found:
        pytest.skip("NVRTC is not installed")
    program = found[0].compile(text, "mutant.cu", ("-arch=compute_80", "--std=c++17", "-lineinfo"))
    assert program.succeeded, program.log
    return Module(program.ptx, source=text, executor=executor)


@pytest.mark.parametrize("family", CUDA_FAMILIES)
def test_each_missing_barrier_makes_the_same_lines_race(family: str) -> None:
    """In lockstep nothing is read before it is written; so only clocks can tell, and they tell all pairs of lines."""
    dtype = USUAL[family]
    q, k, v = tensors(dtype, 1, 1, 1, 40, 70, 40, 40)
    _, source, plan = compiled(family, 40, 40, dtype, False, "sm_80", (32, 32))
    for text in _mutants_of(source.text):
        seen: set[frozenset[int]] = set()
        machine, numpy = (_compiled_text(text, executor) for executor in EXECUTORS)
        for order in _ORDERS:
            result = attend(family, q, k, v, dtype, order=order, kernel=(machine, source, plan))
            seen |= set().union(*(races(report) for report in result.reports))
        result = attend(family, q, k, v, dtype, kernel=(numpy, source, plan))
        found = set().union(*(races(report) for report in result.reports))
        assert found and seen <= found


@pytest.mark.parametrize("family", CUDA_FAMILIES)
def test_an_index_out_of_bounds_is_the_same_to_both(family: str) -> None:
    """Keys and values have one row less than the launch says."""
    dtype, stories = USUAL[family], []
    q, k, v = tensors(dtype, 1, 1, 1, 40, 70, 40, 40)
    for kernel in kernels(family, dtype, False, 40, 40):
        module, source, plan = kernel
        short = attend(family, q, k[:, :, :69], v[:, :, :69], dtype, kernel=(_Stretched(module), source, plan))
        stories.append([told(f) for report in short.reports for f in report.findings if f.kind in _TIMELESS])
    assert stories[0] == stories[1] and any(kind == "out-of-bounds" for kind, *_ in stories[0])


class _Stretched:
    """A module that is told of one key more than there is."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self.memory = module.memory

    def launch(self, entry: str, grid: tuple, block: int, args: list, **options) -> Report:
        stated, told = (rows.to_bytes(8, "little") for rows in (69, 70))
        values = [v.replace(stated, told) if isinstance(v, bytes) else v for v in args[0].values]
        return self._module.launch(entry, grid, block, [Struct(args[0].layout, *values)], **options)


@pytest.mark.parametrize("family", [family for family in CUDA_FAMILIES if family != "cuda_standard"])
def test_a_store_left_out_leaves_the_same_reads_uninitialised(family: str) -> None:
    dtype = USUAL[family]
    q, k, v = tensors(dtype, 1, 1, 1, 40, 70, 40, 40)
    _, source, plan = compiled(family, 40, 40, dtype, False, "sm_80", (32, 32))
    found = find_nvrtc()
    if not found:
        pytest.skip("NVRTC is not installed")
    program = found[0].compile(source.text, "mutant.cu", ("-arch=compute_80", "--std=c++17", "-lineinfo"))
    ptx, compared = program.ptx.decode(), 0
    for store in re.finditer(r"^.*\b(?:st\.shared|cp\.async\.c[ag])\b.*$", ptx, re.MULTILINE):
        stories: list[set[tuple]] = []
        for executor in EXECUTORS:
            module = Module(ptx[: store.start()] + ptx[store.end() :], source=source.text, executor=executor)
            result = attend(family, q, k, v, dtype, kernel=(module, source, plan))
            stories.append({told(f) for report in result.reports for f in report.findings})
            if not stories[0]:  # of a path that these sizes do not take, or of what another store writes again
                break
        else:
            assert stories[0] == stories[1] and {kind for kind, *_ in stories[0]} == {"uninitialised-read"}
            compared += 1
            if compared == 3:
                return
    pytest.fail(f"only {compared} of its stores are missed")


def _checked(name: str, executor: str, monkeypatch: pytest.MonkeyPatch, order: str = "round_robin") -> Report:
    monkeypatch.setattr(emulator_module, "DEFAULT_EXECUTOR", executor)
    return test_checks.launch(test_checks._MUTANTS[name][0], order)[0]


@pytest.mark.parametrize("name", test_checks._MUTANTS)
def test_they_tell_the_same_of_each_planted_fault(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    numpy = _checked(name, "numpy", monkeypatch)
    machine = {order: _checked(name, "machine", monkeypatch, order) for order in _ORDERS}
    seen = set().union(*(races(report) for report in machine.values()))
    assert seen <= races(numpy)
    if name != "all threads write one place":  # whose reader the machine tells of only if nobody wrote before it
        assert seen == races(numpy)
    if name == "traps":  # how far the others come by then is a matter of order
        assert [f.kind for f in numpy.findings] == ["trap", "unwritten-output"]
        return
    for order, report in machine.items():
        mine, other = ([story(f) for f in r.findings if f.kind in _TIMELESS] for r in (numpy, report))
        if order == "round_robin":
            assert sorted(mine) == sorted(other)
        else:  # another warp may have been the first
            assert sorted(told(f) for f in numpy.findings if f.kind in _TIMELESS) == sorted(
                told(f) for f in report.findings if f.kind in _TIMELESS
            )
        kinds, others = ({f.kind for f in r.findings} - {"uninitialised-read"} for r in (numpy, report))
        assert kinds == others


@pytest.mark.parametrize("sizes,causal", [((130, 200), True), ((64, 33), False)])
def test_they_agree_on_tensor_cores(sizes: tuple[int, int], causal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    reports, errors = [], []
    for executor in EXECUTORS:
        monkeypatch.setattr(emulator_module, "DEFAULT_EXECUTOR", executor)
        report, error, lse_error = test_tensor_kernel.attend(test_tensor_kernel._SOURCE, *sizes, causal)
        report.raise_for_findings()
        reports.append(counters(report))
        errors.append((error, lse_error))
    assert reports[0] == reports[1]
    assert np.abs(np.subtract(*errors)).max() < 1e-3


@pytest.mark.parametrize("name", test_tensor_kernel._MUTANTS)
def test_they_find_the_same_faults_of_tensor_core_kernels(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (old, new), kind = test_tensor_kernel._MUTANTS[name]
    text = test_tensor_kernel._SOURCE.replace(old, new)
    stories, pairs = [], []
    for executor in EXECUTORS:
        monkeypatch.setattr(emulator_module, "DEFAULT_EXECUTOR", executor)
        report, *_ = test_tensor_kernel.attend(text, 64, 130, causal=False, heads=1, tiles=4 if "never" in name else 3)
        stories.append(sorted(told(f) for f in report.findings if f.kind in _TIMELESS))
        pairs.append({frozenset((f.site.ptx_line, f.other.ptx_line)) for f in report.findings if f.other})
        assert report.of_kind(kind)
    # Whether a copy is still in flight where another warp reads, or has just landed there, is a matter of order.
    assert stories[0] == stories[1] and pairs[0] == pairs[1]


@pytest.mark.parametrize("name", test_global_races._RACES)
def test_races_between_waves_are_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wave for each block: what one leaves behind in global memory the next ones are held against."""
    monkeypatch.setattr(emulator_module, "DEFAULT_EXECUTOR", "numpy")
    side_by_side = test_global_races.launch(test_global_races._RACES[name][0], buffer=InOut)
    monkeypatch.setattr(lockstep_executor, "_WAVE_LANES", 32)
    one_by_one = test_global_races.launch(test_global_races._RACES[name][0], buffer=InOut)
    assert races(side_by_side) == races(one_by_one) and races(one_by_one)
    assert {f.kind for f in one_by_one.findings} == {"race"}


def test_a_wave_may_have_synchronised_more_often_than_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is kept of the first block's accesses must not be held against the clocks of another's."""
    monkeypatch.setattr(emulator_module, "DEFAULT_EXECUTOR", "numpy")
    monkeypatch.setattr(lockstep_executor, "_WAVE_LANES", 32)
    body = """setp.ne.u32 %q0, %b, 0; @%q0 bra LAST; mov.u32 %r1, 0;
    AGAIN: bar.warp.sync -1; add.u32 %r1, %r1, 1; setp.lt.u32 %q1, %r1, 300; @%q1 bra AGAIN;
    LAST: st.global.u32 [%own], %t; ld.global.u32 %r0, [%own]; ld.global.u32 %r2, [%x+4096];"""
    assert test_global_races.launch(body, buffer=InOut).ok


@pytest.mark.parametrize("family", CUDA_FAMILIES)
def test_both_see_branches_meet_at_the_same_places(family: str) -> None:
    """Post-dominators by sets there, by the dominator tree's intersection here."""
    module, *_ = compiled(family, 40, 24, USUAL[family], False, "sm_80", (32, 32))
    for kernel in module._kernels.values():
        blocks, _ = find_blocks(kernel.code)
        find_meets(blocks)
        assert [block.meet for block in blocks] == meeting_blocks(blocks) and len(blocks) > 10


def test_the_numpy_executor_needs_no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> native.Machine:
        raise AssertionError("the machine was asked for")

    monkeypatch.setattr(emulator_module, "machine", refuse)
    source, out = np.arange(128, dtype=np.float32), np.zeros(128, np.float32)
    module = Module(test_checks._CLEAN, executor="numpy")
    module.launch("reverse_sum", 1, 128, [In(source), Out(out), 128], shared=512).raise_for_findings()
    assert out[0] == 127


def test_there_are_no_other_executors() -> None:
    with pytest.raises(LaunchError, match="choose one of machine, numpy"):
        Module(test_checks._CLEAN, executor="cuda")


def test_an_operation_that_it_lacks_is_an_error_that_names_the_line(monkeypatch: pytest.MonkeyPatch) -> None:
    from flashgen.emulator.lockstep.ops.table import TABLE

    monkeypatch.delitem(TABLE, "add.f32")
    module = Module(test_checks._CLEAN, executor="numpy")
    with pytest.raises(PtxError, match=r"add\.f32") as error:
        module.launch("reverse_sum", 1, 128, [None, None, 128])
    assert "add.f32 %x, %x" in error.value.statement


# Handlers that the NumPy executor lacks, each with the reason why one opinion will do.
_MACHINE_ONLY: dict[str, str] = {}


def test_the_numpy_executor_has_every_handler_of_the_machine() -> None:
    from flashgen.emulator.lockstep.control import CONTROLS
    from flashgen.emulator.lockstep.copy_steps import COPY_STEPS
    from flashgen.emulator.lockstep.ops.atomic import UPDATES
    from flashgen.emulator.lockstep.ops.table import TABLE
    from flashgen.emulator.lockstep.warp import WARP_STEPS

    by_name = {*TABLE, *UPDATES, *CONTROLS, *WARP_STEPS, *COPY_STEPS}
    missing = {name for name in native.machine().handlers if name not in by_name}
    by_kind = {name for name in missing if name.partition(".")[0] in ("ld", "st", "mma", "movmatrix", "ldmatrix")}
    assert missing - by_kind == set(_MACHINE_ONLY)


def test_schedules_are_accepted() -> None:
    source, out = np.arange(128, dtype=np.float32), np.zeros(128, np.float32)
    module = Module(test_checks._CLEAN, executor="numpy")
    for order in _ORDERS:
        schedule = Schedule(warps=order, blocks=order, seed=3, threads=2)
        report = module.launch("reverse_sum", 1, 128, [In(source), Out(out), 128], shared=512, schedule=schedule)
        report.raise_for_findings()
