"""What a launch tells: findings and counters."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

from flashgen.errors import LaunchError


@dataclass(frozen=True, slots=True)
class Site:
    """A place in a kernel.

    Attributes:
        ptx_line: line of the PTX text.
        ptx: the instruction.
        file, line: CUDA source, where ``-lineinfo`` tells; else "" and 0.
        source: that line's text, if the module was given its source.
    """

    ptx_line: int = 0
    ptx: str = ""
    file: str = ""
    line: int = 0
    source: str = ""

    def __str__(self) -> str:
        where = f"{self.file}:{self.line} (PTX line {self.ptx_line})" if self.line else f"PTX line {self.ptx_line}"
        return f"{where}: {self.source or self.ptx}"


@dataclass(frozen=True, slots=True)
class Finding:
    """A fault that a check found.

    Attributes:
        kind: ``out-of-bounds``, ``misaligned``, ``uninitialised-read``, ``race``, ``forbidden-write``,
            ``barrier-divergence``, ``barrier-exited``, ``deadlock``, ``warp-sync``, ``inactive-lane``,
            ``uniform-branch``, ``in-flight``, ``step-limit``, ``trap`` or ``unwritten-output``.
        message: the whole story, in one line.
        kernel: the entry.
        site: the instruction.
        other: the counterpart of a race, or the copy in flight.
        block: (x, y, z) of the CTA in which it was seen first.
        warp, lanes: who; ``lanes`` is a mask.
        address: of the first lane at fault.
        count: how often it happened.
    """

    kind: str
    message: str
    kernel: str
    site: Site = field(default_factory=Site)
    other: Site | None = None
    block: tuple[int, int, int] = (0, 0, 0)
    warp: int = 0
    lanes: int = 0
    address: int = 0
    count: int = 1

    def __str__(self) -> str:
        return self.message


@dataclass(frozen=True, slots=True)
class Traffic:
    """Global memory traffic of one array.

    Attributes:
        load_bytes, store_bytes: what the lanes asked for.
        load_sectors, store_sectors: 32-byte sectors that the accesses touched, each access by itself.
    """

    load_bytes: int = 0
    store_bytes: int = 0
    load_sectors: int = 0
    store_sectors: int = 0


@dataclass(frozen=True, slots=True)
class SharedCounts:
    """Shared memory.

    Attributes:
        accesses: instructions.
        bytes: what their lanes asked for.
        wavefronts: passes through the banks.
        conflicts: passes beyond one for each 128-byte phase.
    """

    accesses: int = 0
    bytes: int = 0
    wavefronts: int = 0
    conflicts: int = 0


@dataclass(frozen=True, slots=True)
class LineCounts:
    """One instruction's counters.

    Attributes:
        executed: warp-instructions.
        wavefronts, conflicts: of shared memory.
        sectors: of global memory.
    """

    site: Site
    unit: str
    executed: int
    wavefronts: int = 0
    conflicts: int = 0
    sectors: int = 0


_PLAIN = (
    "kernel", "grid", "block", "shared_bytes", "instructions", "warp_instructions", "lane_use", "barriers", "seconds"
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Report:
    """The result of one launch.

    Attributes:
        kernel: the entry.
        grid, block: as launched.
        shared_bytes: static and dynamic.
        findings: what is wrong, the gravest kinds first; empty if unchecked and nothing fatal happened.
        instructions: warp-instructions by unit: ``fp32``, ``load.shared``, ...
        warp_instructions: all of them.
        lane_use: mean share of active lanes.
        traffic: by array (checked launches only, as `shared`).
        barriers: completed ones.
        seconds: wall time of the machine.
        tell_lines: makes `lines`, which take longer than a short launch.
    """

    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int
    findings: tuple[Finding, ...]
    instructions: dict[str, int]
    warp_instructions: int
    lane_use: float
    traffic: dict[str, Traffic]
    shared: SharedCounts
    barriers: int
    seconds: float
    tell_lines: Callable[[], tuple[LineCounts, ...]] = field(repr=False, compare=False)

    @property
    def lines(self) -> tuple[LineCounts, ...]:
        """Counters of every instruction that ran, in the order of the program."""
        return self.tell_lines()

    @property
    def ok(self) -> bool:
        """Whether there are no findings."""
        return not self.findings

    def raise_for_findings(self) -> None:
        """Raises if there are findings.

        Raises:
            LaunchError: with all of them.
        """
        if self.findings:
            listing = "\n".join(f"  {finding}" for finding in self.findings)
            raise LaunchError(f"{self.kernel}: {len(self.findings)} finding(s) of the emulator:\n{listing}")

    def of_kind(self, kind: str) -> tuple[Finding, ...]:
        """The findings of one kind."""
        return tuple(finding for finding in self.findings if finding.kind == kind)

    def to_dict(self) -> dict[str, Any]:
        """Everything, as JSON-like data."""
        plain = {name: getattr(self, name) for name in _PLAIN}
        plain["findings"] = [asdict(finding) for finding in self.findings]
        plain["traffic"] = {name: asdict(traffic) for name, traffic in self.traffic.items()}
        plain["shared"] = asdict(self.shared)
        plain["lines"] = [asdict(line) for line in self.lines]
        return plain

    def to_json(self) -> str:
        """Everything, as JSON."""
        return json.dumps(self.to_dict(), indent=1)

    def __str__(self) -> str:
        speed = self.warp_instructions / self.seconds / 1e6 if self.seconds else 0.0
        head = [
            f"{self.kernel}: grid {self.grid}, block {self.block}, {self.shared_bytes:,} bytes of shared memory",
            f"  {self.warp_instructions:,} warp-instructions in {self.seconds:.3f} s ({speed:.1f} M/s), "
            f"{self.lane_use:.1%} of lanes active, {self.barriers:,} barriers",
        ]
        units = ", ".join(f"{unit} {count:,}" for unit, count in self.instructions.items())
        head.append(f"  {units}")
        for name, t in self.traffic.items():
            head.append(
                f"  {name}: loads {t.load_bytes:,} bytes in {t.load_sectors:,} sectors, "
                f"stores {t.store_bytes:,} bytes in {t.store_sectors:,} sectors"
            )
        if self.shared.accesses:
            s = self.shared
            head.append(
                f"  shared: {s.accesses:,} accesses, {s.wavefronts:,} wavefronts, {s.conflicts:,} of them conflicts"
            )
        head.append(f"  {len(self.findings)} finding(s)" + "".join(f"\n    {finding}" for finding in self.findings))
        return "\n".join(head)
