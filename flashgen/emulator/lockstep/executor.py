"""A kernel on the lockstep executor: the second opinion on what PTX means.

It runs the same lowered program as the machine in C++ and fills in the same records, but shares no code with it:
NumPy arrays over all lanes of many CTAs, one operation at a time.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from flashgen.emulator.arena import Arena
from flashgen.emulator.launch import MAX_FINDINGS, Raw, Schedule
from flashgen.emulator.lockstep.engine import Engine
from flashgen.emulator.lockstep.hazards import Hazards
from flashgen.emulator.lockstep.lanes import WARP, Geometry
from flashgen.emulator.lockstep.program import Code, compile_code
from flashgen.emulator.lockstep.spaces import Ledger
from flashgen.emulator.lockstep.wave import Setting, Wave
from flashgen.emulator.program.flow import find_blocks
from flashgen.emulator.program.listing import Listing
from flashgen.emulator.program.ops import LoweredKernel

_WAVE_BYTES = 1 << 28  # of registers
_WAVE_LANES = 1 << 15


@dataclass(frozen=True, slots=True)
class LockstepProgram:
    """A compiled kernel.

    Attributes:
        encoded: its operations in order, for reports.
    """

    encoded: Listing
    code: Code
    constants: bytes

    @classmethod
    def load(cls, kernel: LoweredKernel, constants: bytes) -> LockstepProgram:
        """Compiles a kernel.

        Raises:
            PtxError: an operation that this executor lacks.
        """
        blocks, places = find_blocks(kernel.code)
        listing = Listing.of(kernel, blocks)
        return cls(listing, compile_code(listing, blocks, places), constants)

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
        """Runs a launch. Of the schedule it heeds the limit of steps and whether global memory is watched."""
        start = time.perf_counter()
        kernel = self.encoded.kernel
        ledger = Ledger(len(self.code.steps), len(arena.regions), checked)
        size = kernel.static_shared + shared
        setting = Setting(kernel, params, self.constants, arena, size, self.code.slots, ledger)
        cta_lanes = -(-block[0] * block[1] * block[2] // WARP) * WARP
        hazards = Hazards(kernel, arena, ledger, cta_lanes, schedule.global_races)
        ctas = np.arange(grid[0] * grid[1] * grid[2])
        at_once = self._wave_size(cta_lanes)
        for first in range(0, len(ctas), at_once):
            geometry = Geometry(grid, block, ctas[first : first + at_once], size, kernel.static_shared)
            Engine(self.code, Wave(setting, geometry, hazards), schedule.step_limit).run()
            hazards.leave(more_to_come=first + at_once < len(ctas))
        seconds = time.perf_counter() - start
        return Raw(ledger.counts, ledger.traffic, ledger.findings.records(MAX_FINDINGS), ledger.barriers, seconds)

    def _wave_size(self, cta_lanes: int) -> int:
        """How many CTAs run at once: as many as keep their registers within bounds."""
        lanes = min(_WAVE_LANES, _WAVE_BYTES // (8 * len(self.code.slots)))
        return max(lanes // cta_lanes, 1)
