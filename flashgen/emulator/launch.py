"""Running one launch: descriptors in, report out."""

from __future__ import annotations

import ctypes
import os
import time
from collections import Counter
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from flashgen.emulator.abi import (
    COUNTS_DTYPE,
    FINDING_DTYPE,
    GLOBAL_CELL_BYTES,
    ORDERS,
    TRAFFIC_DTYPE,
    LaunchDesc,
    ProgramDesc,
)
from flashgen.emulator.arena import Arena, sparse_bytes
from flashgen.emulator.findings import Sites
from flashgen.emulator.native import Machine
from flashgen.emulator.program.encode import EncodedKernel
from flashgen.emulator.program.layout import GLOBAL_BASE, SHARED_BASE
from flashgen.emulator.program.listing import Listing
from flashgen.emulator.report import LineCounts, SharedCounts, Traffic
from flashgen.errors import LaunchError

MAX_FINDINGS = 256
MAX_THREADS = 1024
MAX_GRID_YZ = 65535
MAX_SHARED = 232448  # the most that any architecture grants a block
Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Schedule:
    """How the machine interleaves what a GPU runs at once.

    Attributes:
        warps: ``round_robin`` and ``reverse`` run a warp until it waits; ``random`` switches after a few
            blocks or memory accesses, and also among diverged lanes.
        blocks: in which order blocks start.
        seed: of the random orders.
        threads: host threads that share the blocks; 0: one for each CPU.
        step_limit: basic blocks that one block of threads may run.
        global_races: look for races in global memory, too. Turn it off for kernels whose blocks hand data to
            each other through flags.
    """

    warps: str = "round_robin"
    blocks: str = "round_robin"
    seed: int = 0
    threads: int = 0
    step_limit: int = 1 << 32
    global_races: bool = True

    def __post_init__(self) -> None:
        for order in (self.warps, self.blocks):
            if order not in ORDERS:
                raise LaunchError(f"There is no order {order!r}; choose one of {', '.join(ORDERS)}.")


class Program(Protocol):
    """A kernel that an executor can run.

    Attributes:
        encoded: its operations in order, for reports.
    """

    @property
    def encoded(self) -> Listing:
        """See above."""
        ...

    def run(
        self,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        params: bytes,
        arena: Arena,
        shared: int,
        checked: bool,
        schedule: Schedule,
    ) -> Raw:
        """Runs a launch."""
        ...


@dataclass(slots=True)
class LoadedProgram:
    """A kernel on the machine; freed with this object."""

    machine: Machine
    encoded: EncodedKernel
    handle: int
    keep: tuple[Array, ...]

    @classmethod
    def load(cls, machine: Machine, encoded: EncodedKernel, constants: bytes) -> LoadedProgram:
        """Hands a kernel to the machine."""
        constant_bytes = np.frombuffer(constants or b"\0", np.uint8)
        arrays = (encoded.ins, encoded.ops, encoded.image, encoded.specials, constant_bytes)
        kernel = encoded.kernel
        desc = ProgramDesc(
            *(array.ctypes.data for array in arrays), len(constants), len(encoded.ins), len(encoded.ops),
            len(encoded.specials), len(encoded.image), encoded.frame_bytes, kernel.local_bytes,
            kernel.narrowest_shared.bit_length() - 1, int(kernel.partial_barriers),
        )  # fmt: skip
        return cls(machine, encoded, machine.create(desc), arrays)

    def run(
        self,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        params: bytes,
        arena: Arena,
        shared: int,
        checked: bool,
        schedule: Schedule,
    ) -> Raw:
        """Runs a launch."""
        return run(self, grid, block, params, arena, shared, checked, schedule)

    def __del__(self) -> None:
        self.machine.destroy(self.handle)


@dataclass(frozen=True, slots=True)
class Raw:
    """What the machine filled in."""

    counts: Array
    traffic: Array
    findings: Array
    barriers: int
    seconds: float


def check_launch(
    encoded: Listing, grid: tuple[int, ...], block: tuple[int, ...], shared: int, max_threads: int
) -> None:
    """Refuses what a GPU would refuse.

    Raises:
        LaunchError: sizes out of range.
    """
    threads = int(np.prod(block))
    if min(*grid, *block) < 1 or max(grid[1:]) > MAX_GRID_YZ or grid[0] >= 1 << 31:
        raise LaunchError(
            f"Grid {grid} with blocks of {block}: sizes must be positive, grid.y and grid.z at most {MAX_GRID_YZ}."
        )
    if threads > MAX_THREADS or block[2] > 64:
        raise LaunchError(f"A block of {block} has {threads} threads: {MAX_THREADS} is the most (64 in z).")
    if max_threads and threads > max_threads:
        raise LaunchError(
            f"{encoded.kernel.name} was compiled for at most {max_threads} threads, not {threads} (launch bounds)."
        )
    total = encoded.kernel.static_shared + shared
    if shared < 0 or total > MAX_SHARED:
        raise LaunchError(f"{total:,} bytes of shared memory: no GPU grants more than {MAX_SHARED:,}.")


def run(
    program: LoadedProgram,
    grid: tuple[int, int, int],
    block: tuple[int, int, int],
    params: bytes,
    arena: Arena,
    shared: int,
    checked: bool,
    schedule: Schedule,
) -> Raw:
    """Runs a launch."""
    encoded = program.encoded
    counts = np.zeros(len(encoded.ins), COUNTS_DTYPE)
    traffic = np.zeros((len(arena.regions), 2), TRAFFIC_DTYPE)
    findings = np.zeros(MAX_FINDINGS, FINDING_DTYPE)
    table = arena.table()
    shift = encoded.kernel.narrowest_global.bit_length() - 1
    cells = sparse_bytes((arena.size >> shift) * GLOBAL_CELL_BYTES) if checked and schedule.global_races else None
    block_bytes = np.frombuffer(params or b"\0", np.uint8)
    desc = LaunchDesc(
        grid=(ctypes.c_uint32 * 3)(*grid), block=(ctypes.c_uint32 * 3)(*block),
        shared_bytes=encoded.kernel.static_shared + shared, static_shared_bytes=encoded.kernel.static_shared,
        shared_base=SHARED_BASE, param_bytes=len(params), params=block_bytes.ctypes.data,
        arena=arena.data.ctypes.data, arena_map=arena.map.ctypes.data, global_shift=shift,
        global_cells=None if cells is None else cells.ctypes.data, arena_base=GLOBAL_BASE, arena_bytes=arena.size,
        buffers=table.ctypes.data, traffic=traffic.ctypes.data, counts=counts.ctypes.data,
        findings=findings.ctypes.data, step_limit=schedule.step_limit, seed=schedule.seed,
        num_buffers=len(table), max_findings=MAX_FINDINGS, checked=int(checked),
        threads=schedule.threads or len(os.sched_getaffinity(0)),
        warp_order=ORDERS[schedule.warps], cta_order=ORDERS[schedule.blocks],
    )  # fmt: skip
    start = time.perf_counter()
    program.machine.launch(program.handle, desc)
    seconds = time.perf_counter() - start
    return Raw(counts, traffic, findings[: desc.num_findings], int(desc.barriers), seconds)


def executed_per_instruction(encoded: Listing, counts: Array) -> tuple[Array, Array]:
    """How often each instruction was issued, and by how many lanes: its block's marker tells."""
    real = np.array([op.source is not None and op.unit != "" for op in encoded.listing])
    of_block = encoded.block_of
    return counts["executed"][of_block] * real, counts["lanes"][of_block] * real


def line_counts(sites: Sites, counts: Array) -> tuple[LineCounts, ...]:
    """Counters of every instruction, in the order of the program."""
    encoded = sites.encoded
    executed, _ = executed_per_instruction(encoded, counts)
    lines = []
    for index, op in enumerate(encoded.listing):
        if op.source is None or executed[index] == 0:
            continue
        row = counts[index]
        waves, ideal = int(row["wavefronts"]), int(row["ideal_wavefronts"])
        lines.append(
            LineCounts(sites.site_of(op), op.unit, int(executed[index]), waves, waves - ideal, int(row["sectors"]))
        )
    return tuple(lines)


def instructions_by_unit(encoded: Listing, executed: Array) -> dict[str, int]:
    """Warp-instructions by unit, the most frequent first."""
    totals: Counter[str] = Counter()
    for op, count in zip(encoded.listing, executed.tolist(), strict=True):
        if op.source is not None and op.unit:
            totals[op.unit] += count
    return {unit: count for unit, count in totals.most_common() if count}


def shared_counts(encoded: Listing, counts: Array) -> SharedCounts:
    """Shared memory's counters. Only its accesses have wavefronts."""
    mine = counts[counts["wavefronts"] > 0]
    waves = int(mine["wavefronts"].sum())
    return SharedCounts(
        int(mine["accesses"].sum()), int(mine["bytes"].sum()), waves, waves - int(mine["ideal_wavefronts"].sum())
    )


def traffic_by_array(arena: Arena, traffic: Array) -> dict[str, Traffic]:
    """Global traffic of each array that was touched."""
    result = {}
    for region, (loads, stores) in zip(arena.regions, traffic, strict=True):
        row = Traffic(int(loads["bytes"]), int(stores["bytes"]), int(loads["sectors"]), int(stores["sectors"]))
        if row != Traffic():
            result[region.name] = row
    return result
