"""Byte sizes: read them as people write them, print them as people read them."""

from __future__ import annotations

import re
from fractions import Fraction

from flashgen.errors import SpecError

# On-chip memory is sold in powers of two, so KB and KiB both mean 1024 bytes here.
_UNITS = {"": 1, "B": 1, "KB": 1024, "KIB": 1024, "K": 1024, "MB": 1024**2, "MIB": 1024**2, "M": 1024**2}
_SIZE = re.compile(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*([A-Za-z]*)\s*", re.ASCII)


def parse_bytes(text: str | int) -> int:
    """Reads a size such as ``"96KB"``, ``"96KiB"``, ``"0.5MB"`` or ``98304``, in bytes.

    KB and KiB are both 1024 bytes, MB and MiB both 1024 * 1024.

    Raises:
        SpecError: the text is no size, is not a whole number of bytes, or is not positive.
    """
    if isinstance(text, bool) or not isinstance(text, (int, str)):
        raise SpecError(f"A size must be a number of bytes or text such as '96KB', not {text!r}.")
    match = _SIZE.fullmatch(str(text))
    unit = _UNITS.get(match[2].upper()) if match else None
    if match is None or unit is None:
        raise SpecError(f"{text!r} is not a size. Write bytes (98304) or use KB, KiB, MB or MiB (96KB = 98,304 bytes).")
    size = Fraction(match[1]) * unit
    if size.denominator != 1 or size <= 0:
        raise SpecError(f"{text!r} is not a positive whole number of bytes.")
    return int(size)


def format_bytes(size: int) -> str:
    """Renders a size exactly: ``98,304 bytes (96 KiB)``, ``1,000 bytes``."""
    plain = f"{size:,} bytes"
    if size and size % 1024**2 == 0:
        return f"{plain} ({size // 1024**2} MiB)"
    if size and size % 1024 == 0:
        return f"{plain} ({size // 1024} KiB)"
    return plain
