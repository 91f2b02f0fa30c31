"""Register allocation: virtual registers to slots of a frame.

PTX is close to single assignment and names thousands of registers; a warp's frame must stay within the
host's caches. Linear scan over live intervals, one pool for each width, so that slots of different widths
never overlap in part. A destination may take the slot of a source that dies there: handlers read a lane's
sources before they write that lane.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

from flashgen.emulator.program.flow import Block
from flashgen.emulator.program.ops import Op, VReg


@dataclass(frozen=True, slots=True)
class Allocation:
    """Slot number of each register within the pool of its width, and the pools' sizes."""

    slots: dict[VReg, int]
    pools: dict[int, int]


def reads_of(op: Op) -> list[VReg]:
    """Registers that an operation reads. Under a guard it keeps the other lanes, so it reads what it writes."""
    partial = op.guard is not None
    found = [slot for k, slot in enumerate(op.slots) if isinstance(slot, VReg) and (partial or k not in op.writes)]
    return [*found, op.guard] if op.guard is not None else found


def writes_of(op: Op) -> list[VReg]:
    """Registers that an operation writes."""
    return [slot for k in op.writes if isinstance(slot := op.slots[k], VReg)]


def _live_out(blocks: list[Block], numbers: dict[VReg, int]) -> tuple[list[int], list[int]]:
    """Bit sets of the registers that live at the start and at the end of each block."""
    uses, kills = [], []
    for block in blocks:
        use = kill = 0
        for op in block.ops:
            for register in reads_of(op):
                use |= 1 << numbers[register] & ~kill
            if op.guard is None:
                for register in writes_of(op):
                    kill |= 1 << numbers[register]
        uses.append(use)
        kills.append(kill)
    live_in, live_out = [0] * len(blocks), [0] * len(blocks)
    changed = True
    while changed:
        changed = False
        for index in range(len(blocks) - 1, -1, -1):
            out = 0
            for successor in blocks[index].successors:
                out |= live_in[successor]
            new = uses[index] | (out & ~kills[index])
            if out != live_out[index] or new != live_in[index]:
                live_out[index], live_in[index] = out, new
                changed = True
    return live_in, live_out


def _members(bits: int) -> list[int]:
    return [k for k, bit in enumerate(reversed(bin(bits)[2:])) if bit == "1"]


def allocate(blocks: list[Block]) -> Allocation:
    """Gives every register a slot."""
    numbers: dict[VReg, int] = {}
    for block in blocks:
        for op in block.ops:
            for register in (*reads_of(op), *writes_of(op)):
                numbers.setdefault(register, len(numbers))
    registers = list(numbers)
    live_in, live_out = _live_out(blocks, numbers)
    start = [1 << 60] * len(registers)
    end = [-1] * len(registers)

    def touch(number: int, position: int) -> None:
        start[number] = min(start[number], position)
        end[number] = max(end[number], position)

    position = 0
    for index, block in enumerate(blocks):
        for number in _members(live_in[index]):
            touch(number, position)
        for op in block.ops:  # sources at the even positions, destinations at the odd ones behind them
            for register in reads_of(op):
                touch(numbers[register], position)
            for register in writes_of(op):
                touch(numbers[register], position + 1)
            position += 2
        for number in _members(live_out[index]):
            touch(number, position - 1)
    return _scan(registers, start, end)


def _scan(registers: list[VReg], start: list[int], end: list[int]) -> Allocation:
    slots: dict[VReg, int] = {}
    pools: dict[int, int] = {}
    free: dict[int, list[int]] = {}
    active: list[tuple[int, int, int]] = []  # (end, width, slot)
    for number in sorted(range(len(registers)), key=lambda k: start[k]):
        register = registers[number]
        while active and active[0][0] < start[number]:
            _, width, slot = heapq.heappop(active)
            heapq.heappush(free.setdefault(width, []), slot)
        available = free.get(register.width)
        if available:
            slot = heapq.heappop(available)
        else:
            slot = pools.get(register.width, 0)
            pools[register.width] = slot + 1
        slots[register] = slot
        heapq.heappush(active, (end[number], register.width, slot))
    return Allocation(slots, pools)
