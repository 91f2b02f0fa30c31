"""Tensor cores: products of matrices that lie in the registers of a warp, and how they get there.

Which lane holds which element is the manual's: lane l is thread t = l % 4 of group g = l / 4. Products are exact
in double, are added up there, and are rounded once; the order in which hardware adds is not known. (Those of
doubles are added one after the other.)
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from flashgen.emulator.lockstep.access import LOAD, Access
from flashgen.emulator.lockstep.lanes import WARP, Array
from flashgen.emulator.lockstep.memory import addresses, by_space
from flashgen.emulator.lockstep.ops.eight_bits import EIGHT_BITS
from flashgen.emulator.lockstep.ops.floating import canonical, fma64
from flashgen.emulator.lockstep.ops.rounding import FORMATS, decode, encode, quantise
from flashgen.emulator.lockstep.step import Run, SlotNumbers
from flashgen.emulator.lockstep.wave import Wave
from flashgen.emulator.program.ops import Op

_COLUMNS = 8  # of D
_SIDE, _ROW_BYTES = 8, 16  # of the matrices of 16-bit elements that ldmatrix and movmatrix take
_GROUP, _THREAD = np.arange(WARP)[:, None] // 4, np.arange(WARP)[:, None] % 4
_BYTES: dict[str, npt.DTypeLike] = {"s8": np.int8, "u8": np.uint8} | {k: form.dtype for k, form in EIGHT_BITS.items()}


class _Places(NamedTuple):
    """Row and column of each element that a lane holds: (lane, element)."""

    row: Array
    column: Array


def _places(count: int, per_register: int, below: int) -> tuple[Array, Array]:
    """Which 8 rows each element of a lane lies in, and in which column.

    A register holds neighbouring columns. ``below`` registers lie below each other; those after them hold the
    columns that come behind the 4 threads'.
    """
    i = np.arange(count)
    register = i // per_register
    column = per_register * _THREAD + i % per_register + 4 * per_register * (register // below)
    return register % below, column


def _places_of_a(rows: int, depth: int, per_register: int) -> _Places:
    """Rows are the groups and those 8 further on."""
    block, column = _places(rows * depth // WARP, per_register, rows // 8)
    return _Places(_GROUP + 8 * block, column)


def _places_of_b(depth: int, per_register: int) -> _Places:
    """Columns are the groups; rows as the columns of A."""
    _, row = _places(depth * _COLUMNS // WARP, per_register, 1)
    return _Places(row, np.broadcast_to(_GROUP, row.shape))


def _places_of_c(rows: int) -> _Places:
    block, column = _places(rows * _COLUMNS // WARP, 2, rows // 8)
    return _Places(_GROUP + 8 * block, column)


def _elements(wave: Wave, slots: SlotNumbers, kind: str) -> Array:
    """The elements in some registers, as doubles: (warp, lane, element)."""
    registers = np.stack([wave.values[slot] for slot in slots], axis=1)
    if kind in ("f16", "bf16"):
        values = decode(registers.view(np.uint16), kind)
    elif kind in _BYTES:
        values = registers.view(np.uint8).view(_BYTES[kind]).astype(np.float64)
    elif kind == "f64":
        values = registers.view(np.float64)
    elif kind == "s32":
        values = registers.view(np.int32).astype(np.float64)
    else:
        bits = registers & np.uint32(0xFFFFE000) if kind == "tf32" else registers
        values = bits.view(np.float32).astype(np.float64)
    return values.reshape(-1, WARP, values.shape[1])


def _matrix(elements: Array, places: _Places, rows: int, columns: int) -> Array:
    matrix = np.zeros((len(elements), rows, columns))
    matrix[:, places.row, places.column] = elements
    return matrix


def _registers(elements: Array, kind: str, saturates: bool) -> Array:
    """Sums as what accumulators hold: (lane, register)."""
    if kind == "f16":
        return encode(quantise(elements, 0.0, FORMATS["f16"]), "f16").view(np.uint32)
    if kind == "f64":
        return canonical(elements).view(np.uint64)
    if kind == "s32":  # exact until here
        limits = np.iinfo(np.int32)
        sums = np.clip(elements, limits.min, limits.max) if saturates else elements
        return sums.astype(np.int64).astype(np.uint32)
    return canonical(elements.astype(np.float32)).view(np.uint32)


def _sums(left: Array, right: Array, start: Array, kind: str) -> Array:
    """C + A B, in double. For doubles themselves each product is added by a fused multiply-add."""
    total = start
    if kind != "f64":
        total = np.einsum("wik,wkj->wij", left, right) + start
    else:
        for k in range(left.shape[2]):
            a, b, c = np.broadcast_arrays(left[:, :, k, None], right[:, None, k, :], total)
            total = fma64(a.reshape(-1), b.reshape(-1), c.reshape(-1)).reshape(start.shape)
    return total


def multiply(op: Op, index: int, slots: SlotNumbers) -> Run:
    """mma: D = A B + C."""
    _, shape, accumulator, *kinds = op.handler.split(".")
    rows, depth = (int(number) for number in shape.removeprefix("m").split("n8k"))
    kind_of_a, kind_of_b, saturates = kinds[0], kinds[-1], bool(op.aux[4])
    ends = np.cumsum(op.aux[:4]).tolist()
    d, a, b, c = (slots[start:end] for start, end in zip([0, *ends[:-1]], ends, strict=True))
    per_register = rows * depth // WARP // len(a)
    of_a, of_b = _places_of_a(rows, depth, per_register), _places_of_b(depth, per_register)
    of_c = _places_of_c(rows)

    def run(wave: Wave, mask: Array | None) -> None:
        left = _matrix(_elements(wave, a, kind_of_a), of_a, rows, depth)
        right = _matrix(_elements(wave, b, kind_of_b), of_b, depth, _COLUMNS)
        start = _matrix(_elements(wave, c, accumulator), of_c, rows, _COLUMNS)
        sums = _sums(left, right, start, accumulator)
        registers = _registers(sums[:, of_c.row, of_c.column].reshape(-1, of_c.row.shape[1]), accumulator, saturates)
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
