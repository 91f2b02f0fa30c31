"""The steps of cp.async, its groups and its waits."""

from __future__ import annotations

import numpy as np

from flashgen.emulator.lockstep.access import STORE, Access
from flashgen.emulator.lockstep.lanes import Array
from flashgen.emulator.lockstep.memory import addresses
from flashgen.emulator.lockstep.step import Run, SlotNumbers
from flashgen.emulator.lockstep.wave import Wave
from flashgen.emulator.program.ops import Op, Raw


def compile_copy(op: Op, index: int, slots: SlotNumbers) -> Run:
    """``cp.async``: see isa/async_copy.py."""
    to_kind, from_kind, size_log, by_predicate, negated = op.aux
    size, start = 1 << size_log, op.slots[3]
    assert isinstance(start, Raw)

    def run(wave: Wave, mask: Array | None) -> None:
        lanes = wave.lanes(mask)
        to = Access(index, lanes, addresses(wave, to_kind, slots[0], start.value, lanes), size, STORE)
        given = wave.values[slots[2]][lanes]
        if by_predicate:  # true: nothing is read
            given = np.where(given ^ bool(negated), 0, size)
        wave.copies.start(to, addresses(wave, from_kind, slots[1], op.imm, lanes), given.astype(np.int64))

    return run


def compile_commit(op: Op, index: int, slots: SlotNumbers) -> Run:
    """``cp.async.commit_group``: what has set out since the last one is a group."""

    def run(wave: Wave, mask: Array | None) -> None:
        wave.copies.closed[wave.lanes(mask)] += 1

    return run


def compile_wait(op: Op, index: int, slots: SlotNumbers) -> Run:
    """``cp.async.wait_group`` and ``cp.async.wait_all``, which closes a group first."""
    closes, newest = op.handler.endswith("all"), op.imm

    def run(wave: Wave, mask: Array | None) -> None:
        if closes:
            wave.copies.closed[wave.lanes(mask)] += 1
        wave.copies.land(wave.active if mask is None else mask, newest)

    return run


COPY_STEPS = {
    "cp.async": compile_copy,
    "cp.async.commit": compile_commit,
    "cp.async.wait": compile_wait,
    "cp.async.wait_all": compile_wait,
}
