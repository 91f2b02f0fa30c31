"""What a kernel is launched with: arrays and what it may do with them, numbers, structures."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from flashgen.emulator.ptx.ast import Variable
from flashgen.emulator.ptx.types import FLOATS, WIDTHS
from flashgen.errors import ArgumentError

NDArray = npt.NDArray[Any]


@dataclass(frozen=True, eq=False, slots=True)
class Buffer:
    """An array and its use.

    Attributes:
        array: the NumPy array; its contents are copied in before the launch and back afterwards.
        use: ``in`` (a write is a finding), ``out`` (unset before; what stays unwritten is a finding),
            ``inout``, or ``scratch`` (unset before, of no interest afterwards).
        name: for reports.
    """

    array: NDArray
    use: str
    name: str = ""


def In(array: NDArray, name: str = "") -> Buffer:  # noqa: N802 - reads like the type of a parameter
    """An input: a write to it is a finding."""
    return Buffer(array, "in", name)


def Out(array: NDArray, name: str = "") -> Buffer:  # noqa: N802 - reads like the type of a parameter
    """An output: reading it before it is written, and leaving any of it unwritten, are findings."""
    return Buffer(array, "out", name)


def InOut(array: NDArray, name: str = "") -> Buffer:  # noqa: N802 - reads like the type of a parameter
    """Memory that the kernel reads and writes."""
    return Buffer(array, "inout", name)


def Scratch(array: NDArray, name: str = "") -> Buffer:  # noqa: N802 - reads like the type of a parameter
    """A workspace: reading what no kernel wrote is a finding; its contents are not copied, in or out."""
    return Buffer(array, "scratch", name)


class Struct:
    """A structure passed by value: a `struct` format and its values, arrays standing for their addresses."""

    def __init__(self, layout: str, *values: Any) -> None:
        self.layout = layout
        self.values = values


def buffers_of(args: tuple[Any, ...], names: tuple[str, ...]) -> list[Buffer]:
    """Every buffer that the arguments name, with a name for each."""
    found: list[Buffer] = []
    for arg, name in zip(args, names, strict=True):
        for k, value in enumerate(arg.values if isinstance(arg, Struct) else (arg,)):
            label = f"{name}.{k}" if isinstance(arg, Struct) else name
            if isinstance(value, np.ndarray):
                found.append(Buffer(value, "inout" if value.flags.writeable else "in", label))
            elif isinstance(value, Buffer):
                found.append(Buffer(value.array, value.use, value.name or label))
    return found


def pack(
    params: list[Variable], offsets: list[int], size: int, args: tuple[Any, ...], address: Callable[[NDArray], int]
) -> bytes:
    """The parameter block.

    Raises:
        ArgumentError: an argument that does not fit its parameter.
    """
    block = bytearray(size)
    for param, offset, arg in zip(params, offsets, args, strict=True):
        data = _bytes_of(param, arg, address)
        if len(data) > param.size:
            raise ArgumentError(
                f"{param.name} takes {param.size} bytes, not {len(data)}.",
                tensor=param.name, expected=str(param.size), got=str(len(data)),
            )  # fmt: skip
        block[offset : offset + len(data)] = data
    return bytes(block)


def _bytes_of(param: Variable, arg: Any, address: Callable[[NDArray], int]) -> bytes:
    if isinstance(arg, Buffer):
        arg = arg.array
    if isinstance(arg, np.ndarray):
        return _integer(param, address(arg))
    if isinstance(arg, Struct):
        values = [value.array if isinstance(value, Buffer) else value for value in arg.values]
        values = [address(value) if isinstance(value, np.ndarray) else value for value in values]
        return struct.pack(arg.layout, *values)
    if isinstance(arg, bytes | bytearray):
        return bytes(arg)
    if arg is None:
        return _integer(param, 0)
    if param.type in FLOATS:
        formats = {"f16": "<e", "f32": "<f", "f64": "<d"}
        return struct.pack(formats[param.type], float(arg))
    if isinstance(arg, float | np.floating):  # a .b32 parameter says nothing of its kind: the value does
        return struct.pack("<d" if param.size == 8 else "<f", float(arg))
    if isinstance(arg, int | np.integer | np.bool_):
        return _integer(param, int(arg))
    raise ArgumentError(
        f"{param.name} cannot be a {type(arg).__name__}: pass a NumPy array, a number, bytes or a Struct.",
        tensor=param.name, expected="array, number, bytes or Struct", got=type(arg).__name__,
    )  # fmt: skip


def _integer(param: Variable, value: int) -> bytes:
    size = param.size if param.type != "b8" else min(param.size, 8)
    width = WIDTHS[param.type] if param.type != "b8" else 8 * size
    if not -(1 << (width - 1)) <= value < 1 << width:
        raise ArgumentError(
            f"{param.name} has {width} bits; {value} does not fit.",
            tensor=param.name, expected=f"{width}-bit integer", got=str(value),
        )  # fmt: skip
    return (value & ((1 << width) - 1)).to_bytes(width // 8, "little")
