"""Single, double and half precision arithmetic."""

from __future__ import annotations

from flashgen.emulator.isa.entry import Entry

_A = "*d:{t} a:{t}"
_AB = "*d:{t} a:{t} b:{t}"
_ABC = "*d:{t} a:{t} b:{t} c:{t}"
_DIRECTED = ("rnd", "ftz", "sat")
_HALF = ("ftz", "sat", "relu")

_F32 = (
    Entry("<op:add|sub|mul>[.rn][.ftz].<t:f32>", _AB, "{op}{ftz_}.f32", "fp32"),
    Entry("<op:add|sub|mul>[.<rnd:RND>][.ftz][.sat].<t:f32>", _AB, "{op}.rnd.f32", "fp32", _DIRECTED),
    Entry("<op:fma|mad>.rn[.ftz].<t:f32>", _ABC, "fma{ftz_}.f32", "fp32"),
    Entry("<op:fma|mad>.<rnd:RND>[.ftz][.sat].<t:f32>", _ABC, "fma.rnd.f32", "fp32", _DIRECTED),
    Entry("<op:add|sub|mul>[.rn][.ftz].<t:f32x2>", _AB, "{op}{ftz_}.f32x2", "fp32"),
    Entry("fma.rn[.ftz].<t:f32x2>", _ABC, "fma{ftz_}.f32x2", "fp32"),
    Entry("div.rn[.ftz].<t:f32>", _AB, "div{ftz_}.f32", "fp32"),
    Entry("div.full[.ftz].<t:f32>", _AB, "div{ftz_}.f32", "fp32"),
    Entry("div.approx[.ftz].<t:f32>", _AB, "div.approx{ftz_}.f32", "fp32"),
    Entry("div.<rnd:RND>[.ftz].<t:f32>", _AB, "div.rnd.f32", "fp32", _DIRECTED),
    Entry("<op:rcp|sqrt>.rn[.ftz].<t:f32>", _A, "{op}{ftz_}.f32", "fp32"),
    Entry("<op:rcp|sqrt>.<rnd:RND>[.ftz].<t:f32>", _A, "{op}.rnd.f32", "fp32", _DIRECTED),
    Entry("<op:rcp|sqrt|rsqrt|ex2|lg2|sin|cos|tanh>.approx[.ftz].<t:f32>", _A, "{op}.approx{ftz_}.f32", "special"),
    Entry("<op:abs|neg>[.ftz].<t:f32>", _A, "{op}{ftz_}.f32", "fp32"),
    Entry("copysign.<t:f32|f64>", _AB, "copysign.{t}", "fp32"),
    Entry(
        "testp.<is:finite|infinite|number|notanumber|normal|subnormal>.<t:f32|f64>",
        "*p:pred a:{t}",
        "testp.{t}",
        "compare",
        ("is",),
    ),
    Entry("<op:min|max>[.ftz][.NaN].<t:f32>", _AB, "{op}{ftz_}{NaN_}.f32", "fp32"),
    Entry("<op:min|max>[.ftz][.NaN].<t:f32>", _ABC, "{op}3{ftz_}{NaN_}.f32", "fp32"),
    Entry("<op:min|max>[.ftz][.NaN].xorsign.abs.<t:f32>", _AB, "{op}{ftz_}{NaN_}.xorsign.f32", "fp32"),
)
_F64 = (
    Entry("<op:add|sub|mul>[.rn].<t:f64>", _AB, "{op}.f64", "fp64"),
    Entry("<op:add|sub|mul>.<rnd:RND>.<t:f64>", _AB, "{op}.rnd.f64", "fp64", _DIRECTED),
    Entry("<op:fma|mad>.rn.<t:f64>", _ABC, "fma.f64", "fp64"),
    Entry("<op:fma|mad>.<rnd:RND>.<t:f64>", _ABC, "fma.rnd.f64", "fp64", _DIRECTED),
    Entry("div.rn.<t:f64>", _AB, "div.f64", "fp64"),
    Entry("div.<rnd:RND>.<t:f64>", _AB, "div.rnd.f64", "fp64", _DIRECTED),
    Entry("<op:rcp|sqrt>.rn.<t:f64>", _A, "{op}.f64", "fp64"),
    Entry("<op:rcp|sqrt>.<rnd:RND>.<t:f64>", _A, "{op}.rnd.f64", "fp64", _DIRECTED),
    Entry("<op:rcp|rsqrt>.approx.ftz.<t:f64>", _A, "{op}.approx.ftz.f64", "special"),
    Entry("rsqrt.approx.<t:f64>", _A, "rsqrt.approx.f64", "special"),
    Entry("<op:abs|neg>.<t:f64>", _A, "{op}.f64", "fp64"),
    Entry("<op:min|max>.<t:f64>", _AB, "{op}.f64", "fp64"),
)
_HALVES = (
    Entry("<op:add|sub|mul>[.rn][.ftz][.sat].<t:HALF>", _AB, "{op}.{t}", "fp16", _HALF),
    Entry("fma.rn[.ftz][.sat][.relu].<t:HALF>", _ABC, "fma.{t}", "fp16", _HALF),
    Entry("<op:abs|neg>[.ftz].<t:HALF>", _A, "{op}.{t}", "fp16", _HALF),
    Entry("<op:min|max>[.ftz][.NaN].<t:HALF>", _AB, "{op}{NaN_}.{t}", "fp16", _HALF),
    Entry("<op:min|max>[.ftz][.NaN].xorsign.abs.<t:HALF>", _AB, "{op}{NaN_}.xorsign.{t}", "fp16", _HALF),
    Entry("<op:ex2|tanh>.approx[.ftz].<t:HALF>", _A, "{op}.{t}", "special", _HALF),
)

ENTRIES = (*_F32, *_F64, *_HALVES)
