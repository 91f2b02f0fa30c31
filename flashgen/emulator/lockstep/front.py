"""How the lanes of warps stand together: groups, joins, and fronts that run."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from flashgen.emulator.lockstep.lanes import Array, lanes_of


@dataclass(eq=False, slots=True)
class Join:
    """Where the arms of a branch meet again.

    Attributes:
        warp: of the wave; ``place``: index of the step.
        members: lanes that are to come, or have; ``arrived``: those that have.
        outer: the join that these lanes go on to afterwards.
        since: blocks that the warp had run when the last of them came.
    """

    warp: int
    place: int
    members: int
    outer: Join | None
    arrived: int = 0
    since: int = 0


@dataclass(eq=False, slots=True)
class Group:
    """Lanes of one warp that run together.

    Attributes:
        mask: its lanes.
        join: where it is to meet others.
        forced: nobody else will come to the instruction that it waits at.
    """

    warp: int
    mask: int
    join: Join | None = None
    forced: bool = False


class Front:
    """Groups at one place, at most one of each warp, that run side by side.

    Attributes:
        warps, masks: of its groups.
        joined: whether any of them is to meet others.
        by_warp: the mask of every warp of the wave; ``active``: the same as booleans of lanes.
        lanes: how many there are.
    """

    __slots__ = ("active", "by_warp", "groups", "joined", "lanes", "masks", "warps")

    def __init__(self, groups: list[Group], all_warps: int) -> None:
        self.groups = groups
        self.warps = np.array([group.warp for group in groups], np.intp)
        self.masks = np.array([group.mask for group in groups], np.uint32)
        self.joined = any(group.join is not None for group in groups)
        self.by_warp: Array = np.zeros(all_warps, np.uint32)
        self.by_warp[self.warps] = self.masks
        self.active = lanes_of(self.by_warp)
        self.lanes = int(np.count_nonzero(self.active))

    def spread(self, masks: Array) -> Array:
        """Masks of its warps as masks of all warps of the wave."""
        spread = np.zeros_like(self.by_warp)
        spread[self.warps] = masks
        return spread
