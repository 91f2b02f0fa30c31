"""What the executor runs: a step for each operation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flashgen.emulator.lockstep.lanes import Array
from flashgen.emulator.program.ops import Op

if TYPE_CHECKING:
    from flashgen.emulator.lockstep.engine import Engine
    from flashgen.emulator.lockstep.front import Front
    from flashgen.emulator.lockstep.wave import Wave

SlotNumbers = tuple[int, ...]
# Runs in the lanes of a mask; None: in all that are active, and the others are dead.
Run = Callable[["Wave", "Array | None"], None]
# Runs a front; the index of the step that it goes on with, or `STOP`.
Control = Callable[["Engine", "Front", "Step"], int]
STOP = -1


@dataclass(slots=True)
class Step:
    """One operation, compiled.

    Attributes:
        index: in the listing.
        slots: the index of each operand; -1 for those that are no registers.
        run: what it does to lanes; None if it steers.
        control: what it does to a front.
        guard: index of the predicate that it is under, or -1; ``negated``: of its opposite.
        target: where a branch goes; ``meet``: where its arms meet again, or -1.
    """

    op: Op
    index: int
    slots: SlotNumbers
    run: Run | None = None
    control: Control | None = None
    guard: int = -1
    negated: bool = False
    target: int = -1
    meet: int = -1
    targets: tuple[int, ...] = ()
