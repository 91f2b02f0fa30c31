"""bar.sync, bar.arrive, bar.red: the sixteen barriers of each CTA."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from flashgen.emulator.lockstep.front import Front, Group
from flashgen.emulator.lockstep.lanes import WARP, Array, bits_of, lane_numbers
from flashgen.emulator.lockstep.step import STOP, Step

if TYPE_CHECKING:
    from flashgen.emulator.lockstep.engine import Engine

_BARRIERS = 16
_POPC, _AND = 1, 2


@dataclass(slots=True)
class _Barrier:
    """One barrier, from its first arrival to its completion.

    Attributes:
        expected: threads; ``whole``: all of the CTA's, however many are left of them.
        arrived: threads, a warp counting as 32.
        apart: lanes that came without the rest of their warp.
        waiting: the lanes that wait, by number in the wave; ``word``: what those that went on had done and seen.
        groups: who goes on, and where.
        votes: of a reduction: how many lanes, and how many of them had a true predicate.
    """

    whole: bool = True
    expected: int = 0
    arrived: int = 0
    apart: dict[int, int] = field(default_factory=dict)
    waiting: list[int] = field(default_factory=list)
    word: Array | int = 0
    groups: list[tuple[Group, Step]] = field(default_factory=list)
    votes: tuple[int, int] = (0, 0)


class Barriers:
    """The barriers of a wave."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._open: dict[tuple[int, int], _Barrier] = {}
        self._met: list[int] = []  # CTAs of which all threads have just met

    def arrive(self, front: Front, step: Step) -> int:
        """A front gets to a barrier instruction."""
        engine, wave = self._engine, self._engine.wave
        waits, reduction, negated, counted = step.op.aux
        here = engine.guarded(front, step)
        masks = bits_of(here)
        id_slot, count_slot = step.slots[-2:]
        numbers, counts = wave.values[id_slot], wave.values[count_slot]
        votes = bits_of(here & (wave.values[step.slots[1]] ^ bool(negated))) if reduction else masks
        going = []
        for group in front.groups:
            lanes = int(masks[group.warp])
            if lanes == 0:
                going.append(group)
                continue
            first = group.warp * WARP + lane_numbers(lanes)[0]
            barrier = self._arrival(
                group, lanes, step, int(numbers[first]) % _BARRIERS, int(counts[first]) if counted else 0
            )
            barrier.votes = barrier.votes[0] + lanes.bit_count(), barrier.votes[1] + int(votes[group.warp]).bit_count()
            rest = Group(group.warp, group.mask & ~lanes, group.join)
            arriving = [group.warp * WARP + lane for lane in lane_numbers(lanes)]
            if waits:
                waiting = Group(group.warp, lanes, group.join)
                barrier.waiting += arriving
                barrier.groups.append((waiting, step))
                going.append(rest)
            else:
                barrier.word = np.maximum(barrier.word, wave.history.word_of(np.array(arriving)))
                going.append(group)
        for cta in np.unique(front.warps // wave.geometry.warps).tolist():
            self._complete_ready(cta, step, masks)
        self._settle()
        engine.send(going, step.index + 1)
        return STOP

    def _arrival(self, group: Group, lanes: int, step: Step, number: int, threads: int) -> _Barrier:
        engine, geometry = self._engine, self._engine.wave.geometry
        live = engine.live[group.warp]
        if lanes != live:
            masks = np.zeros(geometry.all_warps, np.uint32)
            masks[group.warp] = lanes
            engine.wave.tell_warps("barrier-divergence", step.index, masks)
        barrier = self._open.setdefault((group.warp // geometry.warps, number), _Barrier(whole=threads == 0))
        barrier.expected = threads or geometry.cta_lanes
        if lanes == live:
            barrier.arrived += WARP
        else:  # lanes by themselves; the last of them bring what their warp lacks
            together = barrier.apart[group.warp] = barrier.apart.get(group.warp, 0) | lanes
            missing = WARP - live.bit_count() if together == live else 0
            barrier.arrived += lanes.bit_count() + missing
        return barrier

    def _gone(self, cta: int) -> int:
        warps = self._engine.wave.geometry.warps
        return WARP * self._engine.live[cta * warps : (cta + 1) * warps].count(0)

    def _complete_ready(self, cta: int, step: Step, masks: Array) -> None:
        for key in [key for key in self._open if key[0] == cta]:
            barrier = self._open[key]
            gone = self._gone(cta) if barrier.whole else 0
            if barrier.arrived + gone < barrier.expected:
                continue
            if gone:
                last = max((group for group, _ in barrier.groups), key=lambda group: group.warp)
                only = np.where(np.arange(len(masks)) == last.warp, masks, 0)
                self._engine.wave.tell_warps("barrier-exited", step.index, only)
            self._complete(key)

    def _complete(self, key: tuple[int, int]) -> None:
        engine, wave = self._engine, self._engine.wave
        barrier = self._open.pop(key)
        if barrier.waiting:
            wave.history.synchronise(np.array(barrier.waiting), barrier.word)
        wave.ledger.barriers += 1
        if len(barrier.waiting) == wave.geometry.threads:  # those that have exited met nobody
            self._met.append(key[0])
        by_step: dict[int, list[Group]] = {}
        for group, step in barrier.groups:
            by_step.setdefault(step.index, []).append(group)
            if step.op.aux[1]:
                lanes = np.array([group.warp * WARP + lane for lane in lane_numbers(group.mask)])
                wave.put_lanes(step.slots[0], lanes, self._verdict(step.op.aux[1], barrier.votes))
        for place, groups in by_step.items():
            engine.send(groups, place + 1)

    def _settle(self) -> None:
        self._engine.wave.hazards.settle(list(dict.fromkeys(self._met)))
        self._met.clear()

    @staticmethod
    def _verdict(reduction: int, votes: tuple[int, int]) -> Array:
        everyone, yes = votes
        value = yes if reduction == _POPC else yes == everyone if reduction == _AND else yes > 0
        return np.asarray(value)

    def warp_gone(self, warp: int) -> None:
        """A warp has ended: barriers of the whole CTA do without it, but the kernel is at fault."""
        cta = warp // self._engine.wave.geometry.warps
        for key in [key for key in self._open if key[0] == cta and self._open[key].whole]:
            barrier = self._open[key]
            if barrier.arrived + self._gone(cta) >= barrier.expected:
                self._tell_waiting("barrier-exited", barrier)
                self._complete(key)
        self._settle()

    def drop(self, cta: int) -> None:
        """A CTA has been stopped."""
        for key in [key for key in self._open if key[0] == cta]:
            del self._open[key]

    def tell_deadlock(self) -> None:
        """Those who wait now wait for ever."""
        for (_, number), barrier in self._open.items():
            self._tell_waiting("deadlock", barrier, number)

    def _tell_waiting(self, kind: str, barrier: _Barrier, number: int = 0) -> None:
        wave = self._engine.wave
        for group, step in barrier.groups:
            cta = int(wave.geometry.ctas[group.warp // wave.geometry.warps])
            warp = group.warp % wave.geometry.warps
            wave.ledger.findings.add(kind, step.index, cta, warp, group.mask, barrier=number)
