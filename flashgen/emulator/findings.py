"""The machine's records to findings that people can read."""

from __future__ import annotations

from pathlib import PurePath
from typing import Any

import numpy as np

from flashgen.emulator.arena import Arena, Region
from flashgen.emulator.program.listing import Listing
from flashgen.emulator.program.ops import Op
from flashgen.emulator.ptx.ast import PtxModule
from flashgen.emulator.report import Finding, Site

KINDS = (
    "out-of-bounds",
    "misaligned",
    "uninitialised-read",
    "race",
    "forbidden-write",
    "barrier-divergence",
    "barrier-exited",
    "deadlock",
    "warp-sync",
    "inactive-lane",
    "uniform-branch",
    "step-limit",
    "trap",
    "in-flight",
)
_SPACES = ("global", "shared", "local", "constant", "parameter", "generic")
NOBODY = 0xFFFFFFFF


class Sites:
    """Where the instructions of a kernel came from."""

    def __init__(self, module: PtxModule, encoded: Listing, source: str) -> None:
        self.encoded = encoded
        self._module = module
        self._source = source.splitlines()

    def site(self, index: int) -> Site:
        """Where an instruction is; for a block marker, the instruction behind it."""
        listing = self.encoded.listing
        while index + 1 < len(listing) and listing[index].source is None:
            index += 1
        return self.site_of(listing[index])

    def site_of(self, op: Op) -> Site:
        """Where an operation came from."""
        if op.source is None:
            return Site()
        location = op.source.location
        if location is None or location.line == 0:
            return Site(op.source.line, op.source.text)
        # The innermost line may lie in a header; the line of the kernel's own file says more.
        own = location.inlined_at if location.inlined_at and location.file != 1 else location
        file = PurePath(self._module.files.get(own.file, "")).name
        text = self._source[own.line - 1].strip() if own.file == 1 and own.line <= len(self._source) else ""
        return Site(op.source.line, op.source.text, file, own.line, text)


class Narrator:
    """Tells findings of one launch."""

    def __init__(self, sites: Sites, arena: Arena, grid: tuple[int, int, int]) -> None:
        self._sites = sites
        self._arena = arena
        self._grid = grid

    def tell(self, record: Any) -> Finding:
        """One record of the machine."""
        kind = KINDS[int(record["kind"])]
        site = self._sites.site(int(record["ins"]))
        other = None if record["other_ins"] == NOBODY else self._sites.site(int(record["other_ins"]))
        block = self._block(int(record["cta"]))
        who = f"block {block}, warp {int(record['warp'])}, {lanes(int(record['lanes']))}"
        what = self._what(kind, record, other)
        times = f", {int(record['count']):,} times" if record["count"] > 1 else ""
        return Finding(
            kind, f"{kind}: {what}; {who}{times}; at {site}", self._sites.encoded.kernel.name, site, other, block,
            int(record["warp"]), int(record["lanes"]), int(record["address"]), int(record["count"]),
        )  # fmt: skip

    def _what(self, kind: str, record: Any, other: Site | None) -> str:
        place = self.place(int(record["space"]), int(record["address"]))
        size = int(record["size"])
        if kind in ("out-of-bounds", "misaligned", "uninitialised-read", "forbidden-write"):
            return f"{size} bytes at {place}"
        if kind == "race":
            return f"{size} bytes at {place}, against {self._counterpart(record)}; that one at {other}"
        if kind == "in-flight":
            copy = "read" if int(record["space"]) == 0 else "write"
            who = f"a copy of warp {int(record['other_warp'])}"
            return f"{size} bytes at {place}, which {who} is still to {copy}; that one at {other}"
        if kind == "deadlock":
            return f"waits for ever at barrier {int(record['barrier'])}"
        return {
            "barrier-divergence": "only some lanes of the warp reach this barrier",
            "barrier-exited": "this barrier of the whole block completes only because other warps have exited",
            "warp-sync": "these lanes and the member mask of the instruction do not agree",
            "inactive-lane": "reads the register of a lane that does not take part",
            "uniform-branch": "a branch declared uniform diverges",
            "step-limit": "still running at the step limit",
            "trap": "the kernel stopped itself, or jumped out of a table",
        }[kind]

    def _counterpart(self, record: Any) -> str:
        if record["other_cta"] != NOBODY:
            return f"block {self._block(int(record['other_cta']))}, with which nothing orders it"
        mine = record["other_warp"] == record["warp"]
        who = "another lane of this warp" if mine else f"warp {int(record['other_warp'])}"
        return f"{who} without a barrier between"

    def _block(self, cta: int) -> tuple[int, int, int]:
        x, y = self._grid[:2]
        return cta % x, cta // x % y, cta // x // y

    def place(self, space: int, address: int) -> str:
        """An address in words."""
        if space != 0:
            return f"{_SPACES[space]} address {address}"
        before: Region | None = None
        for region in self._arena.regions:
            if region.base <= address < region.end:
                return f"{region.name}{_element(region, address)}"
            if region.base <= address:
                before = region
        if before is None:
            return f"global address {address:#x}"
        return f"global address {address:#x}, {address - before.end:,} bytes behind the end of {before.name}"


def _element(region: Region, address: int) -> str:
    """``[i, j]`` of a contiguous array, else the byte offset."""
    if not region.buffers:
        return f" + {address - region.base} bytes"
    array = region.buffers[0].array
    offset = address - region.base
    if len(region.buffers) == 1 and array.flags.c_contiguous:
        index = np.unravel_index(offset // array.itemsize, array.shape)
        return f"[{', '.join(str(int(k)) for k in index)}]"
    return f" + {offset} bytes"


def lanes(mask: int) -> str:
    """A mask of lanes in words."""
    active = [lane for lane in range(32) if mask >> lane & 1]
    if len(active) == 32:
        return "all lanes"
    if len(active) == 1:
        return f"lane {active[0]}"
    if active and active == list(range(active[0], active[-1] + 1)):
        return f"lanes {active[0]}-{active[-1]}"
    return f"lanes {active} (mask {mask:#010x})"
