"""cvt: the plain conversions first, then the general ones."""

from __future__ import annotations

from flashgen.emulator.isa.builders import build_convert
from flashgen.emulator.isa.entry import Entry

_INT = "u8|u16|u32|u64|s8|s16|s32|s64"
_FLOAT = "f16|bf16|f32|f64"
_FP8 = "e4m3x2|e5m2x2"
_UNIT = "convert"

ENTRIES = (
    Entry("cvt.rn.f16.f32", "*d:f16 a:f32", "cvt.plain.f16.f32", _UNIT),
    Entry("cvt.rn.bf16.f32", "*d:bf16 a:f32", "cvt.plain.bf16.f32", _UNIT),
    Entry("cvt.f32.f16", "*d:f32 a:f16", "cvt.plain.f32.f16", _UNIT),
    Entry("cvt.f32.bf16", "*d:f32 a:bf16", "cvt.plain.f32.bf16", _UNIT),
    Entry("cvt.rn.<t:f16x2|bf16x2>.f32", "*d:{t} a:f32 b:f32", "cvt.plain.{t}.f32", _UNIT),
    Entry(
        "cvt.<rnd:rn|rz>[.relu][.satfinite].f16x2.f32",
        "*d:f16x2 a:f32 b:f32",
        "cvt.pair.f16",
        _UNIT,
        (0, 0, 0, 0, "rnd", 0, 0, "#finish"),
    ),
    Entry(
        "cvt.<rnd:rn|rz>[.relu][.satfinite].bf16x2.f32",
        "*d:bf16x2 a:f32 b:f32",
        "cvt.pair.bf16",
        _UNIT,
        (0, 0, 0, 0, "rnd", 0, 0, "#finish"),
    ),
    Entry(f"cvt.rn.satfinite[.relu].<t:{_FP8}>.f32", "*d:{t} a:f32 b:f32", "cvt.{t}.f32", _UNIT, ("relu",), since=89),
    Entry(f"cvt.rn.satfinite[.relu].<t:{_FP8}>.f16x2", "*d:{t} a:f16x2", "cvt.{t}.f16x2", _UNIT, ("relu",), since=89),
    Entry(f"cvt.rn[.relu].f16x2.<t:{_FP8}>", "*d:f16x2 a:{t}", "cvt.f16x2.{t}", _UNIT, ("relu",), since=89),
    Entry("cvt.rna.tf32.f32", "*d:b32 a:f32", "cvt.rna.tf32", _UNIT),
    Entry("cvt.rn.f32.s32", "*d:f32 a:s32", "cvt.plain.f32.s32", _UNIT),
    Entry(f"cvt[.sat].<d:{_INT}>.<s:{_INT}>", unit=_UNIT, build=build_convert),
    Entry(f"cvt.<rnd:RNDI>[.ftz][.sat].<d:{_INT}>.<s:{_FLOAT}>", unit=_UNIT, build=build_convert),
    Entry(f"cvt.<rnd:RND>[.sat].<d:{_FLOAT}>.<s:{_INT}>", unit=_UNIT, build=build_convert),
    Entry(
        f"cvt[.<rnd:RNDANY>][.ftz][.sat][.relu][.satfinite].<d:{_FLOAT}>.<s:{_FLOAT}>", unit=_UNIT, build=build_convert
    ),
)
