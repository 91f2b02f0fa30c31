"""A wave: CTAs that run side by side, with their registers, memories and clocks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from flashgen.emulator.arena import Arena
from flashgen.emulator.lockstep.copies import Copies
from flashgen.emulator.lockstep.hazards import Hazards
from flashgen.emulator.lockstep.history import History
from flashgen.emulator.lockstep.lanes import Array, Geometry
from flashgen.emulator.lockstep.ops.table import VIEWS
from flashgen.emulator.lockstep.spaces import Constants, Global, Ledger, Local, Shared, Space
from flashgen.emulator.program.ops import Const, LoweredKernel, Slot, SpecialSlot, VReg


@dataclass(frozen=True, slots=True)
class Setting:
    """What is the same for all waves of a launch.

    Attributes:
        params, constants: the bytes of those spaces.
        shared: bytes of a CTA.
        slots: everything that operands name, by index; index 0 is the carry.
    """

    kernel: LoweredKernel
    params: bytes
    constants: bytes
    arena: Arena
    shared: int
    slots: tuple[Slot | None, ...]
    ledger: Ledger


class Wave:
    """The state of a wave.

    Attributes:
        values: an array for each slot. Arrays are replaced, never written to, so that slots may share one.
        active: the lanes of the front that runs; ``whole``: no other lane is alive.
        masks: the same lanes, as bits of each warp.
        blocks: basic blocks that each warp has run.
    """

    def __init__(self, setting: Setting, geometry: Geometry, hazards: Hazards) -> None:
        self.geometry, self.ledger = geometry, setting.ledger
        self.hazards = hazards
        zeros = {width: np.zeros(geometry.count, f"u{width // 8}") for width in (16, 32, 64)}
        zeros[1] = np.zeros(geometry.count, np.bool_)
        self.values = [self._initial(slot, zeros) for slot in setting.slots]
        self.history = History(geometry)
        self.active = geometry.exists
        self.whole = False
        self.masks = np.zeros(geometry.all_warps, np.uint32)
        self.blocks = np.zeros(geometry.all_warps, np.int64)
        ledger = setting.ledger
        self.shared = Shared(setting.shared, geometry, ledger)
        self.globals = Global(setting.arena, geometry, ledger)
        self.spaces: dict[str, Space] = {
            "global": self.globals,
            "shared": self.shared,
            "local": Local(setting.kernel.local_bytes, geometry, ledger),
            "const": Constants("const", np.frombuffer(setting.constants, np.uint8), geometry, ledger),
            "param": Constants("param", np.frombuffer(setting.params, np.uint8), geometry, ledger),
        }
        self.copies = Copies(self)
        hazards.enter(self)

    def _initial(self, slot: Slot | None, zeros: dict[int, Array]) -> Array:
        if isinstance(slot, VReg):
            return zeros[slot.width]
        if isinstance(slot, Const):
            if slot.width == 1:
                return np.full(self.geometry.count, bool(slot.bits))
            return np.full(self.geometry.count, slot.bits, VIEWS[f"b{slot.width}"])
        if isinstance(slot, SpecialSlot):
            return self.geometry.special(slot.number)
        return zeros[1]

    def lanes(self, mask: Array | None) -> Array:
        """The numbers of the lanes that take part."""
        return np.flatnonzero(self.active if mask is None else mask)

    def put(self, slot: int, value: Array, mask: Array | None) -> None:
        """Writes a register in the lanes that take part. ``value`` has an element for every lane."""
        old = self.values[slot]
        value = value if value.dtype == old.dtype else np.ascontiguousarray(value).view(old.dtype)
        self.values[slot] = value if mask is None else np.where(mask, value, old)

    def put_lanes(self, slot: int, lanes: Array, value: Array) -> None:
        """Writes a register in some lanes; ``value`` has an element for each of those."""
        fresh = self.values[slot].copy()
        fresh[lanes] = value
        self.values[slot] = fresh

    def tell_warps(self, kind: str, instruction: int, masks: Array) -> None:
        """A finding for each warp whose mask, of lanes at fault, is not empty."""
        for warp in np.flatnonzero(masks).tolist():
            cta = int(self.geometry.ctas[warp // self.geometry.warps])
            self.ledger.findings.add(kind, instruction, cta, warp % self.geometry.warps, int(masks[warp]))
