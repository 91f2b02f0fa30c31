"""Instructions in which the lanes of a warp see each other."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from flashgen.emulator.lockstep.lanes import WARP, Array, bits_of
from flashgen.emulator.lockstep.ops.table import VIEWS
from flashgen.emulator.lockstep.step import Run, SlotNumbers
from flashgen.emulator.lockstep.wave import Wave
from flashgen.emulator.program.ops import Op

Make = Callable[[Op, int, SlotNumbers], Run]
_UP, _DOWN, _BUTTERFLY, _INDEX = range(4)
_EVERY, _SOME, _ALIKE, _BALLOT = range(4)


def _lanes(wave: Wave, mask: Array | None) -> Array:
    """Who takes part, a row for each warp."""
    return (wave.active if mask is None else mask).reshape(-1, WARP)


def _rows(wave: Wave, slot: int) -> Array:
    return wave.values[slot].reshape(-1, WARP)


def _for_all(rows: Array) -> Array:
    """A value of each warp, in each of its lanes."""
    return np.repeat(rows, WARP)


def shuffle(op: Op, index: int, slots: SlotNumbers) -> Run:
    """shfl: each lane reads a register of another, within segments of the warp."""
    mode, has_p = op.aux[0], op.aux[1]
    d, p, a, b, c = slots[:5]
    lane = np.arange(WARP)

    def run(wave: Wave, mask: Array | None) -> None:
        here, given = _lanes(wave, mask), _rows(wave, c).astype(np.int64)
        offset = _rows(wave, b).astype(np.int64) & 31
        clamp, segment = given & 31, given >> 8 & 31
        highest, lowest = (lane & segment) | (clamp & ~segment), lane & segment
        source = (lane - offset, lane + offset, lane ^ offset, lowest | (offset & ~segment))[mode]
        inside = source >= highest if mode == _UP else source <= highest
        source = np.where(inside, source, lane)
        absent = here & ~np.take_along_axis(here, source, axis=1)
        wave.tell_warps("inactive-lane", index, bits_of(absent.reshape(-1)))
        wave.put(d, np.take_along_axis(_rows(wave, a), source, axis=1).reshape(-1), mask)
        if has_p:
            wave.put(p, inside.reshape(-1), mask)

    return run


def vote(op: Op, index: int, slots: SlotNumbers) -> Run:
    """vote: over the predicates of the lanes that take part."""
    mode, negated = op.aux[0], bool(op.aux[1])

    def run(wave: Wave, mask: Array | None) -> None:
        here = _lanes(wave, mask)
        yes = here & (_rows(wave, slots[1]) ^ negated)
        every: Array = np.logical_and.reduce(yes == here, axis=1)
        some: Array = np.logical_or.reduce(yes, axis=1)
        if mode == _BALLOT:
            wave.put(slots[0], _for_all(bits_of(yes.reshape(-1))), mask)
        else:
            wave.put(slots[0], _for_all((every, some, every | ~some)[mode]), mask)

    return run


def match(op: Op, index: int, slots: SlotNumbers) -> Run:
    """match: which lanes hold the same value; .all: only if they all do."""
    in_all, has_p = op.aux[0], op.aux[1]

    def run(wave: Wave, mask: Array | None) -> None:
        here, values = _lanes(wave, mask), _rows(wave, slots[2])
        same = (values[:, :, None] == values[:, None, :]) & here[:, None, :]
        masks = np.packbits(same.reshape(-1, WARP), axis=1, bitorder="little").view(np.uint32)[:, 0]
        members = _for_all(bits_of(here.reshape(-1)))
        every: Array = np.logical_and.reduce((masks == members).reshape(-1, WARP) | ~here, axis=1)
        alike = _for_all(every)
        wave.put(slots[0], np.where(alike, members, np.uint32(0)) if in_all else masks, mask)
        if has_p:
            wave.put(slots[1], alike, mask)

    return run


_REDUCTIONS = (np.add, np.minimum, np.maximum, np.bitwise_and, np.bitwise_or, np.bitwise_xor)


def reduce_lanes(op: Op, index: int, slots: SlotNumbers) -> Run:
    """redux: one value from those of all lanes that take part."""
    function, kind = _REDUCTIONS[op.aux[0]], VIEWS[op.handler.removeprefix("redux.")]

    def run(wave: Wave, mask: Array | None) -> None:
        here, values = _lanes(wave, mask), _rows(wave, slots[1]).view(kind)
        result = np.zeros(len(here), kind)
        for warp in np.flatnonzero(here.any(axis=1)):
            result[warp] = function.reduce(values[warp][here[warp]], dtype=kind)
        wave.put(slots[0], _for_all(result), mask)

    return run


def active_mask(op: Op, index: int, slots: SlotNumbers) -> Run:
    """activemask: the lanes that are here together."""
    return lambda wave, mask: wave.put(slots[0], _for_all(wave.masks), mask)


def warp_barrier(op: Op, index: int, slots: SlotNumbers) -> Run:
    """bar.warp.sync: what these lanes did happens before what they do next."""
    return lambda wave, mask: wave.history.synchronise_warps(wave.active if mask is None else mask)


def elect(op: Op, index: int, slots: SlotNumbers) -> Run:
    """elect: the lowest lane."""

    def run(wave: Wave, mask: Array | None) -> None:
        first = np.argmax(_lanes(wave, mask), axis=1)
        wave.put(slots[0], _for_all(first.astype(np.uint32)), mask)
        wave.put(slots[1], (np.arange(WARP) == first[:, None]).reshape(-1), mask)

    return run


def clock(op: Op, index: int, slots: SlotNumbers) -> Run:
    """A clock that is the same on every run: the blocks that a warp has run, times 16."""
    kind = VIEWS[op.handler.removeprefix("clock.")]

    def run(wave: Wave, mask: Array | None) -> None:
        now = wave.blocks.reshape(-1, wave.geometry.warps).sum(axis=1) * 16 >> op.imm
        wave.put(slots[0], np.repeat(now, wave.geometry.cta_lanes).astype(kind), mask)

    return run


# Which operand names the lanes that execute the instruction together; the old forms of shfl and vote lack it.
MEMBERS = {
    "shfl": 5, "vote": 2, "match.b32": 3, "match.b64": 3, "redux.u32": 2, "redux.s32": 2, "bar.warp.sync": 0,
    "elect.sync": 2,
}  # fmt: skip
WARP_STEPS: dict[str, Make] = {
    "shfl": shuffle, "vote": vote, "match.b32": match, "match.b64": match, "redux.u32": reduce_lanes,
    "redux.s32": reduce_lanes, "activemask": active_mask, "bar.warp.sync": warp_barrier, "elect.sync": elect,
    "clock.b32": clock, "clock.b64": clock,
}  # fmt: skip
