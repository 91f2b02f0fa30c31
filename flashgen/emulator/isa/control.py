"""Branches, calls, barriers, fences."""

from __future__ import annotations

from flashgen.emulator.isa.entry import Entry
from flashgen.emulator.isa.flow import (
    build_barrier,
    build_branch,
    build_call,
    build_indexed_branch,
    build_nothing,
    build_return,
)

ENTRIES = (
    Entry("bra[.uni]", unit="control", build=build_branch),
    Entry("brx.idx[.uni]", unit="control", build=build_indexed_branch),
    Entry("call[.uni]", unit="control", build=build_call),
    Entry("ret[.uni]", unit="control", build=build_return),
    Entry("exit", "", "exit", "control"),
    Entry("trap", "", "trap", "control"),
    Entry("brkpt", unit="control", build=build_nothing),
    Entry("pmevent[.mask]", unit="control", build=build_nothing),
    Entry("setmaxnreg.<way:inc|dec>.sync.aligned.u32", unit="control", build=build_nothing),
    Entry("griddepcontrol.<way:launch_dependents|wait>", unit="control", build=build_nothing),
    Entry("nanosleep.u32", "t:u32", "nanosleep", "control"),
    Entry("<name:bar|barrier>[.cta].<way:sync|arrive>[.aligned]", unit="barrier", build=build_barrier),
    Entry("<name:bar|barrier>[.cta].<way:red>.<barred:popc>[.aligned].u32", unit="barrier", build=build_barrier),
    Entry("<name:bar|barrier>[.cta].<way:red>.<barred:and|or>[.aligned].pred", unit="barrier", build=build_barrier),
    Entry("membar.<level:cta|gl|sys>", "", "fence", "control"),
    Entry("fence[.<sem:sc|acq_rel|acquire|release>].<scope:SCOPE>", "", "fence", "control"),
    Entry(
        "fence.proxy.<kind:alias|async|async.global|async.shared::cta|async.shared::cluster>", "", "fence", "control"
    ),
)
