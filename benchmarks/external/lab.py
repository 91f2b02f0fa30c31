"""Compiling extracted kernels, running them on both executors, and keeping what was seen."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from extract import extract

from flashgen.compilation.toolchains.nvrtc_library import find_nvrtc
from flashgen.emulator import Buffer, InOut, Module, Out, Report
from flashgen.emulator.module import EXECUTORS

Array = np.ndarray[Any, Any]
Part = tuple[str, Iterable[str]]  # a file and the names that it declares
_PRELUDE = (Path(__file__).parent / "prelude.cuh").read_text()
_OPTIONS = ("-arch=compute_80", "--std=c++17", "-lineinfo", "-default-device")


@dataclass(frozen=True)
class Launch:
    """One launch of one kernel.

    Attributes:
        entry: the kernel's name in the source.
        args: as the emulator takes them; outputs are `Out` and `InOut`.
        shared: bytes of dynamic shared memory.
    """

    entry: str
    grid: tuple[int, ...] | int
    block: tuple[int, ...] | int
    args: list[Any]
    shared: int = 0


@dataclass
class Case:
    """Kernels of one source, launched one after the other, and what must come out.

    Attributes:
        name: of the case.
        source: folder of the checkout -> what to extract.
        launches: made anew for each executor, since they hold the arrays.
        check: the arrays that the launches wrote -> the largest error.
        tolerance: what that may be.
        extra: CUDA text behind the extracted one: instances of templates.
        before: CUDA text in front of it: types and macros that its headers define.
        patch: what to replace in the extracted text: a repair, to see that the findings go.
        expected: kinds of findings that are known, each with the reason.
        claims: what the source's authors say of it -> whether the report bears it out.
    """

    name: str
    parts: tuple[Part, ...]
    launches: Callable[[], list[Launch]]
    check: Callable[[list[Launch]], float]
    tolerance: float
    extra: str = ""
    before: str = ""
    patch: tuple[str, str] = ("", "")
    expected: dict[str, str] = field(default_factory=dict)
    claims: dict[str, Callable[[Report], bool]] = field(default_factory=dict)


def compiled(case: Case, checkout: Path) -> tuple[bytes, str]:
    """The PTX of a case, and its source."""
    found = find_nvrtc()
    if not found:
        raise SystemExit("NVRTC is missing: pip install 'flashgen[cuda]'")
    text = "\n".join(
        [_PRELUDE, case.before, *(extract(checkout / file, names) for file, names in case.parts), case.extra]
    )
    old, new = case.patch
    if old and text.count(old) != 1:
        raise LookupError(f"{case.name}: what is to be repaired is not there: {old!r}")
    text = text.replace(old, new) if old else text
    program = found[0].compile(text, f"{case.name}.cu", _OPTIONS)
    if not program.succeeded:
        raise SystemExit(f"{case.name}: NVRTC refuses it:\n{program.log}")
    return program.ptx, text


def entry_of(module: Module, name: str) -> str:
    """The mangled name of a kernel."""
    mangled = f"{len(name)}{name}"
    (entry,) = [entry for entry in module.entries if entry == name or f"_Z{mangled}" in entry]
    return entry


def run(case: Case, checkout: Path) -> list[dict[str, Any]]:
    """Runs a case on each executor; one record for each launch.

    Raises:
        AssertionError: a wrong result, a finding that is not expected, or executors that do not agree.
    """
    ptx, _ = compiled(case, checkout)
    seen: dict[str, tuple[list[Report], list[Launch]]] = {}
    for executor in EXECUTORS:
        module = Module(ptx, executor=executor)
        launches = case.launches()
        seen[executor] = [launched(module, launch) for launch in launches], launches
        error = case.check(launches)
        assert error <= case.tolerance, f"{case.name} on {executor}: off by {error}"
    reports, launches = seen["machine"]
    kinds = {finding.kind for report in reports for finding in report.findings}
    assert kinds == set(case.expected), f"{case.name}: {kinds} found, {set(case.expected)} expected\n{reports}"
    for report, other in zip(reports, seen["numpy"][0], strict=True):
        agree(case.name, report, other)
    for claim, holds in case.claims.items():
        assert holds(reports[-1]), f"{case.name}: not true that {claim}"
    error = case.check(launches)
    return [record(case, launch, report, error) for launch, report in zip(launches, reports, strict=True)]


def launched(module: Module, launch: Launch) -> Report:
    """Runs one launch."""
    entry = entry_of(module, launch.entry)
    return module.launch(entry, launch.grid, launch.block, launch.args, shared=launch.shared)


def agree(name: str, mine: Report, other: Report) -> None:
    """Both executors count and find the same."""
    for what in ("instructions", "traffic", "shared", "barriers", "lane_use"):
        assert getattr(mine, what) == getattr(other, what), f"{name}: the executors differ in {what}"
    kinds = [{(f.kind, f.site.ptx_line) for f in report.findings if f.kind != "race"} for report in (mine, other)]
    races = [
        {frozenset((f.site.ptx_line, f.other.ptx_line)) for f in report.of_kind("race") if f.other}
        for report in (mine, other)
    ]
    assert kinds[0] == kinds[1] and races[0] <= races[1], f"{name}: the executors differ in what they find"


def record(case: Case, launch: Launch, report: Report, error: float) -> dict[str, Any]:
    """What is kept of a launch."""
    return {
        "case": case.name,
        "kernel": launch.entry,
        "file": case.parts[-1][0],  # the helpers come first
        "grid": list(report.grid),
        "block": list(report.block),
        "error": float(f"{error:.2e}"),
        "warp_instructions": report.warp_instructions,
        "lane_use": round(report.lane_use, 3),
        "barriers": report.barriers,
        "shared_accesses": report.shared.accesses,
        "wavefronts": report.shared.wavefronts,
        "conflicts": report.shared.conflicts,
        "load_bytes": sum(t.load_bytes for t in report.traffic.values()),
        "store_bytes": sum(t.store_bytes for t in report.traffic.values()),
        "sectors": sum(t.load_sectors + t.store_sectors for t in report.traffic.values()),
        "findings": sorted({f"{f.kind} at {f.site.file}:{f.site.line}" for f in report.findings}),
        "expected": dict(sorted(case.expected.items())),
        "claims": sorted(case.claims),
    }


def outputs(launches: list[Launch]) -> list[Array]:
    """The arrays that launches wrote, in the order of the arguments."""
    return [
        arg.array
        for launch in launches
        for arg in launch.args
        if isinstance(arg, Buffer) and arg.use in ("out", "inout")
    ]


def off(got: Array, wanted: Array) -> float:
    """The largest error; NaN counts as infinite."""
    difference = np.abs(got.astype(np.float64) - wanted.astype(np.float64))
    return float(np.where(np.isnan(difference), np.inf, difference).max())


__all__ = ["Case", "InOut", "Launch", "Out", "off", "outputs", "run"]
