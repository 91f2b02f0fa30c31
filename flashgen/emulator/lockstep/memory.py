"""ld, st, atom: their addresses, their elements, and the spaces that generic addresses stand for.

``aux`` of all of them begins: kind of the base (0 none, 1 a 32-bit register, 2 a 64-bit one), log2 of an
element's bytes, then for ld and st: whether elements are signed, log2 of a register's bytes, how many
elements, whether the access is strong.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from flashgen.emulator.lockstep.access import ATOMIC, LOAD, STORE, Access
from flashgen.emulator.lockstep.lanes import Array
from flashgen.emulator.lockstep.ops.atomic import UPDATES
from flashgen.emulator.lockstep.ops.move import space_of
from flashgen.emulator.lockstep.step import Run, SlotNumbers
from flashgen.emulator.lockstep.wave import Wave
from flashgen.emulator.program.layout import SPACES, window
from flashgen.emulator.program.ops import Op

_NAMES = {number: name for name, number in SPACES.items()}


def addresses(wave: Wave, kind: int, base: int, displacement: int, lanes: Array) -> Array:
    """Where lanes' accesses go: the base's value, if there is one, and a displacement."""
    if kind == 0:
        return np.full(len(lanes), displacement, np.uint64)
    values = wave.values[base][lanes]
    if kind == 1:  # 32-bit addresses wrap as such
        return (values + np.uint32(displacement & 0xFFFFFFFF)).astype(np.uint64)
    return values + np.uint64(displacement)


def by_space(access: Access, space: str) -> Iterator[tuple[str, Access]]:
    """A generic access falls apart into those of the spaces in whose windows its addresses lie."""
    if space != "generic":
        yield space, access
        return
    numbers = space_of(access.addresses)
    for number in np.unique(numbers).tolist():
        name = _NAMES[number]
        part = access.only(numbers == number)
        if name != "global":
            offset = np.uint64(window(name))
            part = replace(part, addresses=part.addresses - offset)
        yield name, part


def compile_load(op: Op, index: int, slots: SlotNumbers) -> Run:
    """``ld``: narrow elements are extended by their sign."""
    element, signed, register, count = 1 << op.aux[1], op.aux[2], 1 << op.aux[3], op.aux[4]
    space, base, targets = op.handler.partition(".")[2], slots[0], slots[1:]
    narrow, wide = (f"i{element}", f"i{register}") if signed else (f"u{element}", f"u{register}")

    def run(wave: Wave, mask: Array | None) -> None:
        lanes = wave.lanes(mask)
        whole = Access(
            index, lanes, addresses(wave, op.aux[0], base, op.imm, lanes), element * count, LOAD, bool(op.aux[5])
        )
        for name, asked in by_space(whole, space):
            access, offsets = wave.spaces[name].admit(asked)
            if len(access.lanes) == 0:
                continue
            if wave.hazards.watches(name):
                wave.hazards.note_load(name, access, offsets)
            rows = wave.spaces[name].storage.gather(offsets, element, count)
            rows = rows.view(narrow).astype(wide).view(f"u{register}")
            for k, target in enumerate(targets):
                wave.put_lanes(target, access.lanes, rows[:, k])

    return run


def compile_store(op: Op, index: int, slots: SlotNumbers) -> Run:
    """``st``: wide registers are cut."""
    element, count = 1 << op.aux[1], op.aux[4]
    space, base, sources = op.handler.partition(".")[2], slots[0], slots[1:]

    def run(wave: Wave, mask: Array | None) -> None:
        lanes = wave.lanes(mask)
        whole = Access(
            index, lanes, addresses(wave, op.aux[0], base, op.imm, lanes), element * count, STORE, bool(op.aux[5])
        )
        for name, asked in by_space(whole, space):
            access, offsets = wave.spaces[name].admit(asked)
            if len(access.lanes) == 0:
                continue
            rows = np.stack([wave.values[source][access.lanes].astype(f"u{element}") for source in sources], axis=1)
            storage = wave.spaces[name].storage
            if wave.hazards.watches(name):
                wave.hazards.note_store(name, access, offsets, rows)
            storage.scatter(offsets, rows)

    return run


def compile_atomic(op: Op, index: int, slots: SlotNumbers) -> Run:
    """``atom`` and ``red``: the lanes take turns, in ascending order, element by element."""
    element, space, count, returns = 1 << op.aux[1], _NAMES[op.aux[2]], op.aux[4], bool(op.aux[6])
    base, results = slots[0], slots[1 : 1 + count] if returns else ()
    sources = slots[1 + len(results) :]
    update = UPDATES[op.handler]

    def run(wave: Wave, mask: Array | None) -> None:
        lanes = wave.lanes(mask)
        whole = Access(index, lanes, addresses(wave, op.aux[0], base, op.imm, lanes), element * count, ATOMIC, True)
        for name, asked in by_space(whole, space):
            access, offsets = wave.spaces[name].admit(asked)
            if len(access.lanes) == 0:
                continue
            if wave.hazards.watches(name):
                wave.hazards.note_store(name, access, offsets, None)
            storage = wave.spaces[name].storage
            operands = [wave.values[source][access.lanes] for source in sources]
            for k in range(count):
                before = update(storage, offsets + k * element, element, operands[k::count], name == "global")
                if returns:
                    wave.put_lanes(results[k], access.lanes, before)

    return run
