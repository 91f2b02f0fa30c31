"""PTX's types, by name."""

from __future__ import annotations

WIDTHS = {
    "pred": 1,
    **{f"{kind}{width}": width for kind in "usb" for width in (8, 16, 32, 64)},
    "f16": 16,
    "bf16": 16,
    "f16x2": 32,
    "bf16x2": 32,
    "u16x2": 32,
    "s16x2": 32,
    "f32": 32,
    "tf32": 32,
    "e4m3": 8,
    "e5m2": 8,
    "e4m3x2": 16,
    "e5m2x2": 16,
    "f64": 64,
    "f32x2": 64,
}
FLOATS = frozenset({"f16", "bf16", "f32", "f64"})
HALVES = frozenset({"f16", "bf16", "f16x2", "bf16x2"})


def width_of(name: str) -> int:
    """Bits of a type."""
    return WIDTHS[name]


def register_width(name: str) -> int:
    """Bits of the register that holds a type: bytes live in 16 bits."""
    return max(WIDTHS[name], 16) if name != "pred" else 1


def is_signed(name: str) -> bool:
    """Whether it is a signed integer type."""
    return name[0] == "s"
