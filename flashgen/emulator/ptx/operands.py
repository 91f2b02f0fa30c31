"""Operand text to typed operands."""

from __future__ import annotations

import re
import struct

from flashgen.emulator.errors import PtxError
from flashgen.emulator.ptx.ast import (
    Address,
    FunctionName,
    Group,
    Imm,
    Label,
    Negated,
    Operand,
    Pair,
    Register,
    Sink,
    Special,
    Variable,
    Vector,
)
from flashgen.emulator.ptx.scope import Scope

_SPECIALS = frozenset((
    "tid", "ntid", "ctaid", "nctaid", "laneid", "warpid", "nwarpid", "smid", "nsmid", "gridid",
    "clusterid", "nclusterid", "cluster_ctaid", "cluster_nctaid", "cluster_ctarank", "cluster_nctarank",
    "lanemask_eq", "lanemask_le", "lanemask_lt", "lanemask_ge", "lanemask_gt", "is_explicit_cluster",
    "clock", "clock_hi", "clock64", "globaltimer", "globaltimer_lo", "globaltimer_hi",
    "dynamic_smem_size", "total_smem_size", "aggr_smem_size",
))  # fmt: skip
_INTEGER = re.compile(r"([+-]?)(0[xX][0-9a-fA-F]+|0[bB][01]+|0[0-7]*|[1-9]\d*)U?\Z")
_FLOAT_BITS = re.compile(r"([+-]?)0([fFdD])([0-9a-fA-F]+)\Z")
_DECIMAL = re.compile(r"[+-]?(\d+\.\d*|\.\d+|\d+(?=[eE]))([eE][+-]?\d+)?\Z")
_OFFSET = re.compile(r"([%\w$.]+)\s*([+-])\s*(-?\s*\w+)\Z")


def literal(text: str) -> Imm | None:
    """A number, or None. A decimal is a double, for its user to narrow."""
    if match := _FLOAT_BITS.match(text):
        width = 32 if match[2] in "fF" else 64
        value = int(match[3], 16)
        return Imm(value ^ (1 << (width - 1)) if match[1] == "-" else value, width)
    if match := _INTEGER.match(text):
        digits = match[2]
        octal = len(digits) > 1 and digits[0] == "0" and digits[1].isdigit()
        value = int(digits, 8) if octal else int(digits, 0)
        return Imm(-value if match[1] == "-" else value)
    if _DECIMAL.match(text):
        return Imm(struct.unpack("<Q", struct.pack("<d", float(text)))[0], 64)
    return Imm(32) if text == "WARP_SZ" else None


def split_operands(text: str) -> list[str]:
    """Cuts at the commas that no bracket encloses."""
    if "{" not in text and "(" not in text and "[" not in text:
        return [piece.strip() for piece in text.split(",")] if text else []
    pieces, depth, start = [], 0, 0
    for k, char in enumerate(text):
        if char in "{[(":
            depth += 1
        elif char in "}])":
            depth -= 1
        elif char == "," and depth == 0:
            pieces.append(text[start:k].strip())
            start = k + 1
    return [*pieces, text[start:].strip()]


class OperandReader:
    """Resolves operands in a scope.

    Attributes:
        functions: names that a call may use.
    """

    def __init__(self, functions: frozenset[str], line: int, statement: str) -> None:
        self.functions = functions
        self.line = line
        self.statement = statement

    def read(self, text: str, scope: Scope) -> Operand:
        """One operand.

        Raises:
            PtxError: it is no operand, or names something that was never declared.
        """
        first = text[:1]
        if first == "{":
            return Vector(tuple(self.read(piece, scope) for piece in split_operands(text[1:-1].strip())))
        if first == "(":
            return Group(tuple(self.read(piece, scope) for piece in split_operands(text[1:-1].strip())))
        if first == "[":
            place, *coordinates = split_operands(text[1:-1].strip())
            address = self._address(place, scope)
            # "[map, {x, y}]": a tensor and coordinates in it
            return Group((address, *(self.read(piece, scope) for piece in coordinates))) if coordinates else address
        if first == "!":
            return Negated(self._register(text[1:].strip(), scope))
        if "|" in text:
            left, _, right = text.partition("|")
            return Pair(self.read(left.strip(), scope), self.read(right.strip(), scope))
        if text == "_":
            return Sink()
        return self._simple(text, scope)

    def _simple(self, text: str, scope: Scope) -> Operand:
        number = literal(text)
        if number is not None:
            return number
        found = scope.find(text)
        if found is not None:
            return found
        if text[:1] == "%" and text[1:].partition(".")[0] in _SPECIALS:
            return Special(text)
        if text in self.functions:
            return FunctionName(text)
        if _OFFSET.match(text):
            return self._address(text, scope)
        raise self.error(f"{text!r} was never declared")

    def _address(self, text: str, scope: Scope) -> Address:
        base, offset = text, 0
        if match := _OFFSET.match(text):
            number = literal(match[3].replace(" ", ""))
            if number is None:
                raise self.error(f"{match[3]!r} is not an offset")
            base, offset = match[1], -number.value if match[2] == "-" else number.value
        operand = self._simple(base, scope)
        if isinstance(operand, Imm):
            return Address(None, operand.value + offset)
        if isinstance(operand, Register | Variable):
            return Address(operand, offset)
        raise self.error(f"[{text}] is not an address")

    def _register(self, name: str, scope: Scope) -> Register:
        found = scope.find(name)
        if isinstance(found, Register):
            return found
        raise self.error(f"{name!r} is not a register")

    def label(self, name: str, scope: Scope) -> Label:
        """A label that a directive names."""
        found = scope.find(name)
        if isinstance(found, Label):
            return found
        raise self.error(f"{name!r} is not a label")

    def error(self, message: str) -> PtxError:
        """The error for the statement at hand."""
        return PtxError(message, line=self.line, statement=self.statement)
