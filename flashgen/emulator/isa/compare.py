"""Comparisons and selections."""

from __future__ import annotations

from flashgen.emulator.isa.builders import build_lop3, build_move, build_set, build_setp
from flashgen.emulator.isa.entry import Entry

_COMPARED = "u16|u32|u64|s16|s32|s64|b16|b32|b64|f16|f16x2|bf16|bf16x2|f32|f64"
_SELECTED = "b16|b32|b64|u16|u32|u64|s16|s32|s64|f32|f64"

ENTRIES = (
    Entry(f"setp.<cmp:CMP>[.<bool:BOOL>][.ftz].<t:{_COMPARED}>", unit="compare", build=build_setp),
    Entry(
        "set.<cmp:CMP>[.<bool:BOOL>][.ftz].<d:u32|s32|f32|f16|bf16|u16|s16>.<s:b16|b32|b64|u16|u32|u64|s16|s32|s64|f16|bf16|f32|f64>",
        unit="compare",
        build=build_set,
    ),
    Entry(f"selp.<t:{_SELECTED}>", "*d:{t} a:{t} b:{t} p:pred", "selp.b{t_w}", "compare", ("!p",)),
    Entry(f"slct[.ftz].<t:{_SELECTED}>.<s:s32|f32>", "*d:{t} a:{t} b:{t} c:{s}", "slct.b{t_w}{ftz_}.{s}", "compare"),
    Entry("lop3[.<bool:and|or|xor>].b32", unit="int", build=build_lop3),
    Entry(
        "mov.<t:b16|b32|b64|u16|u32|u64|s16|s32|s64|f16|bf16|f16x2|bf16x2|f32|f64|pred>", unit="move", build=build_move
    ),
)
