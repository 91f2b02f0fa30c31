"""Block markers, branches, exits: steps that take fronts from place to place."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from flashgen.emulator.lockstep.front import Front
from flashgen.emulator.lockstep.lanes import WARP, bits_of, lane_numbers
from flashgen.emulator.lockstep.step import STOP, Control, Step

if TYPE_CHECKING:
    from flashgen.emulator.lockstep.engine import Engine


def block(engine: Engine, front: Front, step: Step) -> int:
    """The head of a basic block: counts, and is where groups join."""
    if front.joined and any(group.join is not None and group.join.place == step.index for group in front.groups):
        engine.send(front.groups, step.index)
        return STOP
    counts = engine.wave.ledger.counts[step.index]
    counts["executed"] += len(front.groups)
    counts["lanes"] += front.lanes
    engine.wave.blocks[front.warps] += 1
    return step.index + 1


def branch(engine: Engine, front: Front, step: Step) -> int:
    """bra: warps whose lanes agree go on together, those of others part."""
    if step.guard < 0:
        return engine.send_front(front, step.target)
    taken = bits_of(engine.guarded(front, step))[front.warps]
    everyone, nobody = taken == front.masks, taken == 0
    if everyone.all():
        return engine.send_front(front, step.target)
    if nobody.all():
        return step.index + 1
    parting = ~(everyone | nobody)
    if step.op.aux[0]:
        engine.wave.tell_warps("uniform-branch", step.index, front.spread(np.where(parting, taken, 0)))
    engine.send([front.groups[k] for k in np.flatnonzero(everyone)], step.target)
    engine.send([front.groups[k] for k in np.flatnonzero(nobody)], step.index + 1)
    for k in np.flatnonzero(parting).tolist():
        engine.diverge(front.groups[k], int(taken[k]), step)
    return STOP


def branch_indexed(engine: Engine, front: Front, step: Step) -> int:
    """brx.idx: the lanes of each group's first target go there; the others run the instruction again."""
    index = engine.wave.values[step.slots[0]].reshape(-1, WARP)
    for group in front.groups:
        lanes, mine = lane_numbers(group.mask), index[group.warp].tolist()
        chosen = mine[lanes[0]]
        if chosen >= len(step.targets):
            engine.wave.tell_warps("trap", step.index, front.spread(front.masks * (front.warps == group.warp)))
            engine.leave(group, group.mask)
            continue
        same = sum(1 << lane for lane in lanes if mine[lane] == chosen)
        if same == group.mask:
            engine.send([group], step.targets[chosen])
        else:
            again = Step(step.op, step.index - 1, step.slots, target=step.targets[chosen], meet=step.meet)
            engine.diverge(group, same, again)
    return STOP


def leave(engine: Engine, front: Front, step: Step) -> int:
    """exit: these lanes have ended."""
    gone = bits_of(engine.guarded(front, step))[front.warps]
    for group, lanes in zip(front.groups, gone.tolist(), strict=True):
        if lanes:
            engine.leave(group, lanes)
    if (gone == front.masks).all():
        return STOP
    engine.send(front.groups, step.index + 1)
    return STOP


def trap(engine: Engine, front: Front, step: Step) -> int:
    """trap: the CTA of whoever gets here stops."""
    stopped = bits_of(engine.guarded(front, step))[front.warps]
    warps_of_cta = engine.wave.geometry.warps
    engine.send([front.groups[k] for k in np.flatnonzero(stopped == 0)], step.index + 1)
    for cta in np.unique(front.warps[stopped != 0] // warps_of_cta).tolist():
        first = next(k for k in np.flatnonzero(stopped) if front.warps[k] // warps_of_cta == cta)
        masks = np.where(front.warps == front.warps[first], stopped, 0)
        engine.wave.tell_warps("trap", step.index, front.spread(masks))
        engine.stop_cta(int(front.warps[first]))
    return STOP


def sleep(engine: Engine, front: Front, step: Step) -> int:
    """nanosleep: others first."""
    return engine.send_front(front, step.index + 1)


def nothing(engine: Engine, front: Front, step: Step) -> int:
    """Fences and hints: the lanes of a front see each other's writes at once."""
    return step.index + 1


def barrier(engine: Engine, front: Front, step: Step) -> int:
    """bar.sync, bar.arrive, bar.red."""
    return engine.barriers.arrive(front, step)


CONTROLS: dict[str, Control] = {
    "block": block,
    "bra": branch,
    "brx.idx": branch_indexed,
    "exit": leave,
    "trap": trap,
    "bar": barrier,
    "nanosleep": sleep,
    "fence": nothing,
    "nop": nothing,
    "prefetch": nothing,
}
