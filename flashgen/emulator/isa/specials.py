"""Special registers that keep their value while a CTA runs, by the machine's number (machine.cpp)."""

from __future__ import annotations

_ORDER = (
    *(f"{name}.{axis}" for name in ("tid", "ntid", "ctaid", "nctaid") for axis in "xyz"),
    *("laneid", "warpid", "nwarpid"),
    *(f"lanemask_{relation}" for relation in ("eq", "le", "lt", "ge", "gt")),
    *("dynamic_smem_size", "total_smem_size", "nsmid", "smid"),
)
_ONE, _ZERO = 22, 23
SPECIALS = {f"%{name}": number for number, name in enumerate(_ORDER)}
SPECIALS |= {f"%clusterid.{axis}": SPECIALS[f"%ctaid.{axis}"] for axis in "xyz"}
SPECIALS |= {f"%nclusterid.{axis}": SPECIALS[f"%nctaid.{axis}"] for axis in "xyz"}
SPECIALS |= {f"%cluster_ctaid.{axis}": _ZERO for axis in "xyz"}
SPECIALS |= {f"%cluster_nctaid.{axis}": _ONE for axis in "xyz"}
SPECIALS |= {"%cluster_ctarank": _ZERO, "%cluster_nctarank": _ONE, "%gridid": _ZERO}
SPECIALS["%aggr_smem_size"] = SPECIALS["%total_smem_size"]

# Those that change: handler, and by how many bits the clock is shifted down.
CLOCKS = {
    "%clock": ("clock.b32", 0),
    "%clock_hi": ("clock.b32", 32),
    "%clock64": ("clock.b64", 0),
    "%globaltimer": ("clock.b64", 0),
    "%globaltimer_lo": ("clock.b32", 0),
    "%globaltimer_hi": ("clock.b32", 32),
}
