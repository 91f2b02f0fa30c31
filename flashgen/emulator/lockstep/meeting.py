"""Instructions that name the lanes which execute them together: bringing those together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from flashgen.emulator.lockstep.front import Front, Group
from flashgen.emulator.lockstep.lanes import ALL, WARP, Array, bits_of, lanes_of
from flashgen.emulator.lockstep.step import STOP, Control, Run, Step

if TYPE_CHECKING:
    from flashgen.emulator.lockstep.engine import Engine
    from flashgen.emulator.lockstep.wave import Wave


@dataclass(slots=True)
class _Waiting:
    """A group that is not complete: ``lanes`` of it run the instruction, ``need`` are to run it together."""

    group: Group
    place: int
    lanes: int
    need: int


def together(run: Run, members: int) -> Control:
    """A step that runs when the lanes that the mask in operand ``members`` names are there."""

    def control(engine: Engine, front: Front, step: Step) -> int:
        masks = bits_of(engine.guarded(front, step))[front.warps]
        return engine.meetings.meet(front, step, run, masks, engine.meetings.named(front, masks, step.slots[members]))

    return control


def all_together(run: Run) -> Control:
    """A step that all lanes of a warp run together (.sync.aligned): a fault if some have exited or never were."""

    def control(engine: Engine, front: Front, step: Step) -> int:
        def run_and_tell(wave: Wave, mask: Array | None) -> None:
            here = bits_of(wave.active if mask is None else mask)
            wave.tell_warps("warp-sync", step.index, np.where(here == 0, 0, ~np.array(engine.live, np.uint32)))
            run(wave, mask)

        masks = bits_of(engine.guarded(front, step))[front.warps]
        return engine.meetings.meet(front, step, run_and_tell, masks, np.full_like(masks, ALL))

    return control


class Meetings:
    """Who waits for other lanes of its warp."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._waiting: dict[int, list[_Waiting]] = {}

    def meet(self, front: Front, step: Step, run: Run, masks: Array, named: Array) -> int:
        """Runs a step for those who are complete; the others wait.

        ``masks``: the lanes of each of the front's warps that run it; ``named``: those that are to do so together.
        """
        engine, wave = self._engine, self._engine.wave
        live = np.array([engine.live[warp] for warp in front.warps.tolist()], np.uint32)
        need = np.where(masks == 0, 0, named & live)
        absent = need & ~front.masks
        if absent.any():
            return self._one_by_one(front, step, run, masks, named, need)
        skipping = need & front.masks & ~masks
        if skipping.any():
            wave.tell_warps("warp-sync", step.index, front.spread(skipping))
        strangers = masks & ~named
        if strangers.any():
            wave.tell_warps("warp-sync", step.index, front.spread(strangers))
        if masks.any():
            run(wave, engine.guarded(front, step))
        return step.index + 1

    def named(self, front: Front, masks: Array, slot: int) -> Array:
        """The member mask of each warp, as the first of its lanes has it in a register."""
        values = self._engine.wave.values[slot].reshape(-1, WARP)[front.warps]
        lowest = masks & (~masks + np.uint32(1))
        first = np.where(masks == 0, 0, np.frexp(lowest.astype(np.float64))[1] - 1)
        return np.take_along_axis(values, first[:, None], axis=1)[:, 0]

    def _one_by_one(self, front: Front, step: Step, run: Run, masks: Array, named: Array, need: Array) -> int:
        """Some warps are not complete: each finds its mates, or waits."""
        engine, wave = self._engine, self._engine.wave
        for k, group in enumerate(front.groups):
            mine = _Waiting(group, step.index, int(masks[k]), int(need[k]))
            mates = [
                other
                for other in self._waiting.get(group.warp, ())
                if (other.place, other.need) == (step.index, mine.need)
            ]
            passing, present = group.mask, mine.lanes
            for mate in mates:
                passing, present = passing | mate.group.mask, present | mate.lanes
            absent = mine.need & ~passing
            if absent and not group.forced:
                self._waiting.setdefault(group.warp, []).append(mine)
                continue
            for fault in (mine.need & passing & ~present, absent, present & ~int(named[k])):
                self._tell(group.warp, step.index, fault)
            group.forced = False
            if present:
                wave.masks = np.zeros_like(front.by_warp)
                wave.masks[group.warp] = passing
                lanes = np.zeros_like(front.by_warp)
                lanes[group.warp] = present
                run(wave, lanes_of(lanes))
            for mate in mates:
                self._waiting[group.warp].remove(mate)
            engine.send([group], step.index + 1)
            for mate in mates:
                engine.send([mate.group], step.index + 1)
        return STOP

    def _tell(self, warp: int, instruction: int, lanes: int) -> None:
        if lanes:
            masks = np.zeros(self._engine.wave.geometry.all_warps, np.uint32)
            masks[warp] = lanes
            self._engine.wave.tell_warps("warp-sync", instruction, masks)

    def look_again(self, warp: int) -> None:
        """Lanes of a warp have exited: fewer may be complete."""
        for waiting in self._waiting.pop(warp, ()):
            self._engine.send([waiting.group], waiting.place)

    def drop(self, warp: int) -> None:
        """A warp has been stopped."""
        self._waiting.pop(warp, None)

    def force(self) -> bool:
        """Nobody else will come: all who wait go on with whom they have. False if there are none."""
        waiting = [one for mine in self._waiting.values() for one in mine]
        self._waiting.clear()
        for one in waiting:
            one.group.forced = True
            self._engine.send([one.group], one.place)
        return bool(waiting)
