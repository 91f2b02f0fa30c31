"""Runs a few PTX instructions on arrays of operands, one thread to an element."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from flashgen.emulator import In, InOut, Module, Schedule
from flashgen.emulator.module import EXECUTORS

WIDTHS = {"pred": 1, "b16": 16, "b32": 32, "b64": 64}
_DTYPES = {1: np.uint16, 16: np.uint16, 32: np.uint32, 64: np.uint64}
SENTINEL = 0xA5A5


@dataclass(frozen=True)
class Case:
    """Instructions and what they compute.

    Attributes:
        body: PTX; sources are %a, %b, %c, %e, %f, destinations %d, %g.
        sources, results: widths of those, as register types.
        values: one sequence of bits for each source, all of the same length.
        expected: bits of each element's sources -> bits of the results.
        ulps: results may differ by that many units in the last place.
    """

    body: str
    sources: tuple[str, ...]
    results: tuple[str, ...]
    values: tuple[Sequence[int], ...]
    expected: Callable[..., int | tuple[int, ...]]
    name: str = ""
    ulps: int = 0

    @property
    def label(self) -> str:
        return self.name or self.body.split()[0].rstrip(";")


def ptx(body: str, sources: Sequence[str], results: Sequence[str], target: str = "sm_90") -> str:
    """A kernel that loads sources, runs ``body`` in the lanes that ``lanes`` selects, stores results."""
    names, outs = "abcef"[: len(sources)], "dg"[: len(results)]
    params = [f".param .u64 p_{name}" for name in (*names, *outs)]
    lines = [f".reg .{kind} %{name};" for name, kind in zip((*names, *outs), (*sources, *results), strict=True)]
    load, store = [], []
    for name, kind in zip(names, sources, strict=True):
        load += [f"ld.param.u64 %ptr, [p_{name}];", f"mad.wide.u32 %ptr, %i, {_DTYPES[WIDTHS[kind]]().itemsize}, %ptr;"]
        if kind == "pred":
            load += ["ld.global.u16 %h, [%ptr];", f"setp.ne.u16 %{name}, %h, 0;"]
        else:
            load.append(f"ld.global.{kind} %{name}, [%ptr];")
    for name, kind in zip(outs, results, strict=True):
        store += [
            f"ld.param.u64 %ptr, [p_{name}];",
            f"mad.wide.u32 %ptr, %i, {_DTYPES[WIDTHS[kind]]().itemsize}, %ptr;",
        ]
        if kind == "pred":
            store += [f"selp.u16 %h, 1, 0, %{name};", "st.global.u16 [%ptr], %h;"]
        else:
            store.append(f"st.global.{kind} [%ptr], %{name};")
    text = "\n\t".join([*lines, *load, body, *store])
    return f"""
.version 8.6
.target {target}
.address_size 64
.visible .entry op({", ".join(params)}, .param .u32 lanes)
{{
	.reg .pred %skip;
	.reg .b16 %h;
	.reg .b32 %i, %lane, %mask, %t;
	.reg .b64 %ptr;
	mov.u32 %i, %ctaid.x;
	mov.u32 %t, %ntid.x;
	mov.u32 %lane, %tid.x;
	mad.lo.u32 %i, %i, %t, %lane;
	mov.u32 %lane, %laneid;
	ld.param.u32 %mask, [lanes];
	shr.u32 %mask, %mask, %lane;
	and.b32 %mask, %mask, 1;
	setp.eq.u32 %skip, %mask, 0;
	@%skip bra END;
	{text}
END:
	ret;
}}
"""


def pad(values: Sequence[int], count: int) -> list[int]:
    """Repeats values up to a multiple of a warp."""
    return [values[k % len(values)] for k in range(count)]


def run(module: Module, case: Case, lanes: int) -> list[np.ndarray]:
    """The results of all elements; in lanes that do not run, the sentinel."""
    count = -(-len(case.values[0]) // 32) * 32
    sources = [
        np.array(pad(v, count), _DTYPES[WIDTHS[kind]]) for v, kind in zip(case.values, case.sources, strict=True)
    ]
    results = [np.full(count, SENTINEL, _DTYPES[WIDTHS[kind]]) for kind in case.results]
    args = [*(In(array) for array in sources), *(InOut(array) for array in results), lanes]
    module.launch("op", count // 32, 32, args, schedule=Schedule(threads=1)).raise_for_findings()
    return results


def check(case: Case) -> None:
    """Compares both executors with the formula, with all lanes active and with every third one."""
    count = len(case.values[0])
    expected = [case.expected(*(values[k] for values in case.values)) for k in range(count)]
    wanted = [e if isinstance(e, tuple) else (e,) for e in expected]
    for executor in EXECUTORS:
        module = Module(ptx(case.body, case.sources, case.results), executor=executor)
        full, some = run(module, case, 0xFFFFFFFF), run(module, case, 0x49249249)
        _compare(case, f"{executor}: {case.body}", wanted, full, some)


def _compare(case: Case, name: str, wanted: list, full: list[np.ndarray], some: list[np.ndarray]) -> None:
    count = len(wanted)
    for which in range(len(case.results)):
        for k in range(len(full[which])):
            got, want = int(full[which][k]), int(wanted[k % count][which])
            inputs = ", ".join(f"{values[k % count]:#x}" for values in case.values)
            close = abs(got - want) <= case.ulps if case.ulps else got == want
            assert close, f"{name} of {inputs}: got {got:#x}, expected {want:#x}"
            partial = int(some[which][k])
            active = 0x49249249 >> (k % 32) & 1
            assert partial == (got if active else SENTINEL), f"{name} of {inputs}, lane {k % 32}: {partial:#x}"
