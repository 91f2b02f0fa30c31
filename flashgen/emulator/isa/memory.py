"""Loads, stores, atomics, and what is said about addresses."""

from __future__ import annotations

from flashgen.emulator.isa.access import (
    build_atomic,
    build_cvta,
    build_isspacep,
    build_load,
    build_mapa,
    build_policy,
    build_prefetch,
    build_store,
)
from flashgen.emulator.isa.entry import Entry

_ATOMIC_TYPES = {
    "add": "u32|s32|u64|s64|f32|f64|f16|f16x2|bf16|bf16x2",
    "min|max": "u32|s32|u64|s64",
    "and|or|xor": "b32|b64",
    "exch": "b32|b64",
    "cas": "b16|b32|b64",
    "inc|dec": "u32",
}
# As the manual has it, and in the orders that Triton writes, which ptxas takes as well.
_ATOMIC_PLACES = (
    "[.<sem:SEM>][.<scope:SCOPE>][.<space:SPACE>]",
    ".<space:SPACE>.<sem:SEM>[.<scope:SCOPE>]",
    ".<space:SPACE>.<scope:SCOPE>[.<sem:SEM>]",
)
_PRIORITIES = "evict_last|evict_normal|evict_first|evict_unchanged"
_WINDOWS = "global|shared|shared::cta|shared::cluster|local|const|param|param::entry"

ENTRIES = (
    Entry(
        "ld[.<sem:SEM>][.<scope:SCOPE>][.<space:SPACE>][.<cop:ca|cg|cs|lu|cv>][.nc]*CACHE[.<vec:v2|v4|v8>].<t:ANY>",
        unit="load",
        build=build_load,
    ),
    Entry("ldu[.<sem:SEM>][.<space:SPACE>]*CACHE[.<vec:v2|v4>].<t:ANY>", unit="load", build=build_load),
    Entry(
        "st[.<sem:SEM>][.<scope:SCOPE>][.<space:SPACE>][.<cop:wb|cg|cs|wt>]*CACHE[.<vec:v2|v4|v8>].<t:ANY>",
        unit="store",
        build=build_store,
    ),
    *(
        Entry(
            f"<name:atom|red>{place}.<op:{ops}>[.noftz]*CACHE[.<vec:v2|v4|v8>].<t:{types}>",
            unit="atomic",
            build=build_atomic,
        )
        for place in _ATOMIC_PLACES
        for ops, types in _ATOMIC_TYPES.items()
    ),
    Entry("prefetch[.<space:global|local>].<level:L1|L2>", unit="control", build=build_prefetch),
    Entry("prefetch.global.L2::<policy:evict_last|evict_normal>", unit="control", build=build_prefetch),
    Entry("prefetchu.L1", unit="control", build=build_prefetch),
    Entry("discard[.global].L2", unit="control", build=build_prefetch),
    Entry(
        f"createpolicy.fractional.L2::<first:{_PRIORITIES}>[.L2::<second:evict_first|evict_unchanged>].b64",
        unit="move",
        build=build_policy,
        since=80,
    ),
    Entry(f"cvta[.to].<space:{_WINDOWS}>.u64", unit="move", build=build_cvta),
    Entry(f"isspacep.<space:{_WINDOWS}>", unit="compare", build=build_isspacep),
    Entry("mapa[.<space:shared::cluster>].<t:u32|u64>", unit="move", build=build_mapa),
)
