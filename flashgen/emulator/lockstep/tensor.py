"""Tensor cores: products of matrices that lie in the registers of a warp, and how they get there.

Which lane holds which element is the manual's: lane l is thread t = l % 4 of group g = l / 4. Products are exact
in double, are added up there, and are rounded once; the order in which hardware adds is not known.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from flashgen.emulator.lockstep.access import LOAD, Access
from flashgen.emulator.lockstep.lanes import WARP, Array
from flashgen.emulator.lockstep.memory import addresses, by_space
from flashgen.emulator.lockstep.ops.floating import canonical
from flashgen.emulator.lockstep.ops.rounding import FORMATS, decode, encode, quantise
from flashgen.emulator.lockstep.step import Run, SlotNumbers
from flashgen.emulator.lockstep.wave import Wave
from flashgen.emulator.program.ops import Op

_ROWS, _COLUMNS = 16, 8  # of D
_SIDE, _ROW_BYTES = 8, 16  # of the matrices of 16-bit elements that ldmatrix and movmatrix take
_GROUP, _THREAD = np.arange(WARP)[:, None] // 4, np.arange(WARP)[:, None] % 4


class _Places(NamedTuple):
    """Row and column of each element that a lane holds: (lane, element)."""

    row: Array
    column: Array


def _places_of_a(depth: int, kind: str) -> _Places:
    """Rows are the groups and those 8 further on; the columns of 16-bit elements come in pairs."""
    if kind == "tf32":
        i = np.arange(depth // 2)
        return _Places(_GROUP + 8 * (i % 2), _THREAD + 4 * (i // 2))
    i = np.arange(depth // 2)
    return _Places(_GROUP + 8 * (i // 2 % 2), 2 * _THREAD + i % 2 + 8 * (i // 4))


def _places_of_b(depth: int, kind: str) -> _Places:
    """Columns are the groups; rows as the columns of A."""
    i = np.arange(depth // 4)
    if kind == "tf32":
        return _Places(_THREAD + 4 * i, np.broadcast_to(_GROUP, (WARP, len(i))))
    return _Places(2 * _THREAD + i % 2 + 8 * (i // 2), np.broadcast_to(_GROUP, (WARP, len(i))))


def _places_of_c() -> _Places:
    i = np.arange(4)
    return _Places(_GROUP + 8 * (i // 2), 2 * _THREAD + i % 2)


def _elements(wave: Wave, slots: SlotNumbers, kind: str) -> Array:
    """The elements in some registers, as doubles: (warp, lane, element)."""
    registers = np.stack([wave.values[slot] for slot in slots], axis=1)
    if kind in ("f16", "bf16"):
        values = decode(registers.view(np.uint16), kind)
    else:
        bits = registers & np.uint32(0xFFFFE000) if kind == "tf32" else registers
        values = bits.view(np.float32).astype(np.float64)
    return values.reshape(-1, WARP, values.shape[1])


def _matrix(elements: Array, places: _Places, rows: int, columns: int) -> Array:
    matrix = np.zeros((len(elements), rows, columns))
    matrix[:, places.row, places.column] = elements
    return matrix


def multiply(op: Op, index: int, slots: SlotNumbers) -> Run:
    """mma: D = A B + C."""
    _, shape, accumulator, kind = op.handler.split(".")
    depth = int(shape.rpartition("k")[2])
    ends = np.cumsum(op.aux).tolist()
    d, a, b, c = (slots[start:end] for start, end in zip([0, *ends[:-1]], ends, strict=True))
    of_a, of_b, of_c = _places_of_a(depth, kind), _places_of_b(depth, kind), _places_of_c()

    def run(wave: Wave, mask: Array | None) -> None:
        left = _matrix(_elements(wave, a, kind), of_a, _ROWS, depth)
        right = _matrix(_elements(wave, b, kind), of_b, depth, _COLUMNS)
        start = _matrix(_elements(wave, c, accumulator), of_c, _ROWS, _COLUMNS)
        product = np.einsum("wik,wkj->wij", left, right) + start
        elements = product[:, of_c.row, of_c.column].reshape(-1, 4)
        if accumulator == "f16":
            registers = encode(quantise(elements, 0.0, FORMATS["f16"]), "f16").view(np.uint32)
        else:
            registers = canonical(elements.astype(np.float32)).view(np.uint32)
        for k, slot in enumerate(d):
            wave.put(slot, np.ascontiguousarray(registers[:, k]), mask)

    return run


def _transposed(matrices: Array) -> Array:
    """Each register of the warp's lanes as 8 rows of 8 elements: rows become columns."""
    halves = np.ascontiguousarray(matrices).view(np.uint16).reshape(-1, _SIDE, _SIDE)
    return np.ascontiguousarray(halves.swapaxes(1, 2)).reshape(-1).view(np.uint32)


def transpose(op: Op, index: int, slots: SlotNumbers) -> Run:
    """The step of movmatrix."""
    return lambda wave, mask: wave.put(slots[0], _transposed(wave.values[slots[1]]), mask)


def load_matrices(op: Op, index: int, slots: SlotNumbers) -> Run:
    """ldmatrix: lanes 8k to 8k + 7 say where the rows of matrix k are; lane l gets its l-th pair of elements."""
    kind, count, turned = op.aux[0], op.aux[4], bool(op.aux[6])
    space, base, targets = op.handler.partition(".")[2], slots[0], slots[1:]

    def run(wave: Wave, mask: Array | None) -> None:
        lanes = wave.lanes(mask)
        lanes = lanes[lanes % WARP < _SIDE * count]
        where = addresses(wave, kind, base, op.imm, lanes)
        asked = Access(index, lanes, where, _ROW_BYTES, LOAD, collective=True)
        rows = np.full((wave.geometry.count, _ROW_BYTES), 0xFF, np.uint8)  # those that cannot be read are NaN
        for name, part in by_space(asked, space):
            access, offsets = wave.spaces[name].admit(part)
            if len(access.lanes):
                if wave.hazards.watches(name):
                    wave.hazards.note_load(name, access, offsets)
                rows[access.lanes] = wave.spaces[name].storage.gather(offsets, 1, _ROW_BYTES)
        matrices = rows.reshape(-1, WARP // _SIDE, _SIDE * _ROW_BYTES)  # (warp, matrix, bytes)
        for k, target in enumerate(targets):
            matrix = np.ascontiguousarray(matrices[:, k]).reshape(-1).view(np.uint32)
            wave.put(target, _transposed(matrix) if turned else matrix, mask)

    return run


def tensor_step(op: Op, index: int, slots: SlotNumbers) -> Run | None:
    """The step of an instruction that the whole warp executes; None for any other."""
    name = op.handler.partition(".")[0]
    makers = {"mma": multiply, "movmatrix": transpose, "ldmatrix": load_matrices}
    return makers[name](op, index, slots) if name in makers else None
