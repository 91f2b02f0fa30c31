"""From a lowered kernel to steps: where branches meet, in which order places come, a closure for each operation."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from flashgen.emulator.errors import PtxError
from flashgen.emulator.lockstep import memory
from flashgen.emulator.lockstep.control import CONTROLS
from flashgen.emulator.lockstep.copy_steps import COPY_STEPS
from flashgen.emulator.lockstep.lanes import Array
from flashgen.emulator.lockstep.meeting import all_together, together
from flashgen.emulator.lockstep.ops.atomic import UPDATES
from flashgen.emulator.lockstep.ops.table import TABLE, VIEWS, Lanewise
from flashgen.emulator.lockstep.step import Run, SlotNumbers, Step
from flashgen.emulator.lockstep.tensor import tensor_step
from flashgen.emulator.lockstep.warp import MEMBERS, WARP_STEPS
from flashgen.emulator.lockstep.wave import Wave
from flashgen.emulator.program.flow import Block
from flashgen.emulator.program.listing import Listing
from flashgen.emulator.program.ops import Op, Place, Raw, Slot

CARRY = 0  # the slot of the carry, in each lane


@dataclass(frozen=True, slots=True)
class Code:
    """A kernel, compiled.

    Attributes:
        steps: one for each operation of the listing.
        slots: what operands name, by number; None for the carry.
        order: of each step, how far along its block is.
    """

    steps: tuple[Step, ...]
    slots: tuple[Slot | None, ...]
    order: tuple[int, ...]


def compile_code(listing: Listing, blocks: list[Block], places: dict[Place, int]) -> Code:
    """Compiles a kernel.

    Raises:
        PtxError: an operation that this executor lacks.
    """
    starts = np.cumsum([0, *(len(block.ops) for block in blocks)]).tolist()
    numbers: dict[Slot, int] = {}
    meets, ranks = meeting_blocks(blocks), _ranks(blocks)
    steps: list[Step] = []
    order: list[int] = []
    for number, block in enumerate(blocks):
        for op in block.ops:
            step = _step(op, len(steps), numbers)
            step.targets = tuple(starts[places[place]] for place in op.targets())
            step.target = step.targets[0] if step.targets else -1
            meet = meets[number]
            step.meet = -1 if meet is None else starts[meet]
            steps.append(step)
            order.append(ranks[number])
    return Code(tuple(steps), (None, *numbers), tuple(order))


def _step(op: Op, index: int, numbers: dict[Slot, int]) -> Step:
    def number(slot: Slot) -> int:
        return -1 if isinstance(slot, Raw | Place) else numbers.setdefault(slot, len(numbers) + 1)

    step = Step(op, index, tuple(number(slot) for slot in op.slots))
    if op.guard is not None:
        step.guard, step.negated = number(op.guard), op.guard_negated
    name = op.handler
    if name in CONTROLS:
        step.control = CONTROLS[name]
    elif name in WARP_STEPS:
        run = WARP_STEPS[name](op, index, step.slots)
        if name in MEMBERS and len(step.slots) > MEMBERS[name]:
            step.control = together(run, MEMBERS[name])
        else:
            step.run = run
    elif (run_by_all := tensor_step(op, index, step.slots)) is not None:
        step.control = all_together(run_by_all)
    else:
        step.run = _plain_step(op, index, step.slots)
    return step


def _plain_step(op: Op, index: int, slots: SlotNumbers) -> Run:
    if op.handler in TABLE:
        return _lanewise(TABLE[op.handler](op), op, slots)
    if op.handler in COPY_STEPS:
        return COPY_STEPS[op.handler](op, index, slots)
    if op.handler in UPDATES:
        return memory.compile_atomic(op, index, slots)
    if op.handler.startswith("ld."):
        return memory.compile_load(op, index, slots)
    if op.handler.startswith("st."):
        return memory.compile_store(op, index, slots)
    line, text = (op.source.line, op.source.text) if op.source else (0, "")
    raise PtxError(f"the NumPy executor has no {op.handler!r}", line=line, statement=text)


def _lanewise(entry: Lanewise, op: Op, slots: SlotNumbers) -> Run:
    """Reads the sources, applies the function, writes the results."""
    written = [slots[k] for k in op.writes]
    read = [slot for k, slot in enumerate(slots) if k not in op.writes]
    targets = _with_carry(entry.results, written)
    sources = [(slot, VIEWS[t]) for slot, t in zip(_with_carry(entry.sources, read), entry.sources, strict=True)]
    function = entry.function
    if len(entry.results) == 1:
        target = targets[0]

        def run_one(wave: Wave, mask: Array | None) -> None:
            values = wave.values
            wave.put(target, function(*(values[slot].view(kind) for slot, kind in sources)), mask)

        return run_one

    def run(wave: Wave, mask: Array | None) -> None:
        values = wave.values
        results = function(*(values[slot].view(kind) for slot, kind in sources))
        for slot, result in zip(targets, results, strict=True):
            wave.put(slot, result, mask)

    return run


def _with_carry(types: tuple[str, ...], slots: list[int]) -> list[int]:
    """The operands' slots, in their order, and the carry's where a type says so."""
    remaining = iter(slots)
    return [CARRY if t == "cc" else next(remaining) for t in types]


def meeting_blocks(blocks: list[Block]) -> list[int | None]:
    """Of each block, the nearest one that every way from it to an exit goes through."""
    everything = (1 << len(blocks)) - 1
    through = [everything] * len(blocks)  # as sets of bits
    changed = True
    while changed:
        changed = False
        for number in range(len(blocks) - 1, -1, -1):
            block = blocks[number]
            common = 0 if _may_end(block) else everything
            for successor in block.successors:
                common &= through[successor]
            new = common | 1 << number
            changed |= new != through[number]
            through[number] = new
    nearest: list[int | None] = []
    for number, ways in enumerate(through):
        # The further away, the fewer blocks are still to come.
        others = [k for k in range(len(blocks)) if k != number and ways >> k & 1]
        nearest.append(max(others, key=lambda k: through[k].bit_count(), default=None))
    return nearest


def _may_end(block: Block) -> bool:
    return not block.successors or block.ops[-1].handler == "exit"


def _ranks(blocks: list[Block]) -> list[int]:
    """A number for each block that grows along every way but those that lead back: reversed postorder."""
    finished: list[int] = []
    seen = {0}
    stack = [(0, iter(blocks[0].successors))]
    while stack:
        number, rest = stack[-1]
        following = next((k for k in rest if k not in seen), None)
        if following is None:
            finished.append(number)
            stack.pop()
        else:
            seen.add(following)
            stack.append((following, iter(blocks[following].successors)))
    ranks = [0] * len(blocks)
    for rank, number in enumerate(reversed(finished)):
        ranks[number] = rank
    return ranks
