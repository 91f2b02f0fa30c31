"""The scheduler: runs a wave front by front.

A front is the groups of many warps that stand at the same place; it runs until a branch, a barrier or an exit
takes it apart. Of the fronts that can run, the one furthest behind goes first, so that warps catch up with each
other and run side by side. Groups of one warp never merge but where their branch says so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from flashgen.emulator.lockstep.barriers import Barriers
from flashgen.emulator.lockstep.front import Front, Group, Join
from flashgen.emulator.lockstep.lanes import Array, bits_of
from flashgen.emulator.lockstep.meeting import Meetings
from flashgen.emulator.lockstep.step import STOP, Step
from flashgen.emulator.lockstep.wave import Wave

if TYPE_CHECKING:
    from flashgen.emulator.lockstep.program import Code

_TURNS = 32  # fronts that may pass one that waits for its turn
# Blocks that lanes wait for others of their warp to join them. Each time that was in vain, half of it will do.
_PATIENCE, _LEAST_PATIENCE = 1 << 11, 16


class Engine:
    """Runs one wave.

    Attributes:
        wave: what runs.
        live: lanes of each warp that have not exited.
        barriers, meetings: who waits for whom.
    """

    def __init__(self, code: Code, wave: Wave, step_limit: int) -> None:
        self.code, self.wave = code, wave
        self.live: list[int] = bits_of(wave.geometry.exists).astype(np.int64).tolist()
        self.barriers = Barriers(self)
        self.meetings = Meetings(self)
        self._living = int(np.count_nonzero(wave.geometry.exists))
        self._step_limit = step_limit
        self._ready: dict[int, list[Front]] = {}
        self._since: dict[int, int] = {}
        self._joins: dict[Join, None] = {}
        self._turn = 0
        self._patience = _PATIENCE
        self._next_look = _PATIENCE
        self._stopped: set[int] = set()  # warps of CTAs that have trapped or run too long

    def run(self) -> None:
        """Runs until all lanes have exited, or nobody can go on."""
        self.send([Group(warp, mask) for warp, mask in enumerate(self.live)], 0)
        with np.errstate(all="ignore"):
            while self._ready or self._resolve():
                self._turn += 1
                if self._turn >= self._next_look:
                    self._look_at_limits()
                place = self._choose()
                if place is not None:
                    self._advance(self._take(place), place)
        self.wave.hazards.settle(list(range(len(self.wave.geometry.ctas))))

    def send(self, groups: list[Group], place: int) -> None:
        """Lets groups go on at a place; those that meet others there wait for them."""
        going = []
        for group in groups:
            if group.mask == 0 or group.warp in self._stopped:
                continue
            if group.join is not None and group.join.place == place:
                self._arrive(group.join, group.mask)
            else:
                going.append(group)
        if going:
            self._enqueue(Front(going, self.wave.geometry.all_warps), place)

    def send_front(self, front: Front, place: int) -> int:
        """Lets a whole front go on elsewhere; returns `STOP`."""
        if front.joined:
            self.send(front.groups, place)
        else:
            self._enqueue(front, place)
        return STOP

    def _enqueue(self, front: Front, place: int) -> None:
        self._ready.setdefault(place, []).append(front)
        self._since.setdefault(place, self._turn)

    def _choose(self) -> int | None:
        if not self._ready:
            return None
        if len(self._ready) == 1:
            return next(iter(self._ready))
        oldest = min(self._since, key=self._since.__getitem__)
        if self._turn - self._since[oldest] > _TURNS:
            return oldest
        order = self.code.order
        return min(self._ready, key=lambda place: (order[place], place))

    def _take(self, place: int) -> Front:
        """The groups at a place, one of each warp; further ones have to wait."""
        fronts = self._ready.pop(place)
        del self._since[place]
        if len(fronts) == 1:
            return fronts[0]
        first: dict[int, Group] = {}
        later = []
        for front in fronts:
            for group in front.groups:
                if group.warp in first:
                    later.append(group)
                else:
                    first[group.warp] = group
        if later:
            self._enqueue(Front(later, self.wave.geometry.all_warps), place)
        groups = sorted(first.values(), key=lambda group: group.warp)
        return Front(groups, self.wave.geometry.all_warps)

    def enter(self, front: Front) -> None:
        """Makes a front the one whose lanes are active."""
        wave = self.wave
        wave.active, wave.masks = front.active, front.by_warp
        wave.whole = front.lanes == self._living

    def _advance(self, front: Front, place: int) -> None:
        steps, wave = self.code.steps, self.wave
        self.enter(front)
        while place != STOP:
            step = steps[place]
            if step.run is None:
                assert step.control is not None
                place = step.control(self, front, step)
                continue
            if step.guard < 0:
                step.run(wave, None if wave.whole else wave.active)
            else:
                lanes = self.guarded(front, step)
                if lanes.any():
                    step.run(wave, lanes)
            place += 1

    def guarded(self, front: Front, step: Step) -> Array:
        """The lanes of a front that run a step."""
        if step.guard < 0:
            return front.active
        predicate = self.wave.values[step.guard]
        return front.active & (~predicate if step.negated else predicate)

    def diverge(self, group: Group, taken: int, step: Step) -> None:
        """Lanes of a group part at a branch."""
        join = group.join
        if step.meet >= 0 and (join is None or join.place != step.meet):
            join = Join(group.warp, step.meet, group.mask, group.join)
            self._joins[join] = None
        self.send([Group(group.warp, taken, join)], step.target)
        self.send([Group(group.warp, group.mask & ~taken, join)], step.index + 1)

    def _arrive(self, join: Join, lanes: int) -> None:
        join.arrived |= lanes
        join.since = int(self.wave.blocks[join.warp])
        if join.arrived == join.members:
            self._complete(join)

    def _complete(self, join: Join) -> None:
        del self._joins[join]
        self.send([Group(join.warp, join.arrived, join.outer)], join.place)

    def leave(self, group: Group, lanes: int) -> None:
        """Lanes of a group have exited: nobody waits for them any more."""
        warp = group.warp
        group.mask &= ~lanes
        self.live[warp] &= ~lanes
        self._living -= lanes.bit_count()
        join = group.join
        while join is not None:
            join.members &= ~lanes
            join.arrived &= ~lanes
            outer = join.outer
            if join in self._joins:
                if join.members == 0:
                    del self._joins[join]
                elif join.arrived == join.members:
                    self._complete(join)
            join = outer
        self.meetings.look_again(warp)
        if self.live[warp] == 0:
            self.barriers.warp_gone(warp)

    def stop_cta(self, warp: int) -> None:
        """Ends the CTA of a warp, whatever its warps are doing."""
        first = warp - warp % self.wave.geometry.warps
        gone = range(first, first + self.wave.geometry.warps)
        self._stopped.update(gone)
        for other in gone:
            self._living -= self.live[other].bit_count()
            self.live[other] = 0
            self.meetings.drop(other)
        self._joins = {join: None for join in self._joins if join.warp not in self._stopped}
        for place, fronts in list(self._ready.items()):
            groups = [group for front in fronts for group in front.groups if group.warp not in self._stopped]
            del self._ready[place], self._since[place]
            self.send(groups, place)
        self.barriers.drop(first // self.wave.geometry.warps)

    def _resolve(self) -> bool:
        """Nobody can run: those that wait for lanes that do not come need not wait any more."""
        if self._release(list(self._joins)) or self.meetings.force():
            return True
        self.barriers.tell_deadlock()
        return False

    def _release(self, joins: list[Join]) -> bool:
        any_lane = False
        for join in joins:
            if join.arrived:
                lanes, join.arrived = join.arrived, 0
                join.members &= ~lanes
                self.send([Group(join.warp, lanes, join.outer)], join.place)
                if join.members == 0:
                    del self._joins[join]
                any_lane = True
        return any_lane

    def _look_at_limits(self) -> None:
        blocks = self.wave.blocks
        late = [join for join in self._joins if blocks[join.warp] - join.since > self._patience]
        if self._release(late):
            self._patience = max(self._patience // 2, _LEAST_PATIENCE)
        self._next_look = self._turn + self._patience
        of_cta = blocks.reshape(-1, self.wave.geometry.warps).sum(axis=1)
        for part in np.flatnonzero(of_cta > self._step_limit).tolist():
            self._stop_late(part)

    def _stop_late(self, part: int) -> None:
        warps = range(part * self.wave.geometry.warps, (part + 1) * self.wave.geometry.warps)
        for place, fronts in self._ready.items():
            for group in (group for front in fronts for group in front.groups if group.warp in warps):
                masks = np.zeros(self.wave.geometry.all_warps, np.uint32)
                masks[group.warp] = group.mask
                self.wave.tell_warps("step-limit", place, masks)
                self.stop_cta(group.warp)
                return
