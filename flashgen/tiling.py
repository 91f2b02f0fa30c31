"""The planner: the paper's block rule, then what the kernel needs, then what really fits.

    rule   Bc = ceil(M / 4d), Br = min(ceil(M / 4d), d)                      (FlashAttention, Algorithm 1, line 1)
    snap   the largest legal tile that does not exceed the rule's
    fit    thrifty knobs, then smaller tiles, until the exact bytes of this kernel family are within the budget

The rule counts K, V, Q and O ("4d") and forgets S, so it can overshoot its own budget; hence the fit.
Every step that changes a number leaves one sentence in the plan's trail.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from flashgen.errors import BudgetError, SpecError
from flashgen.families.base import Family, TileGrid, snap
from flashgen.spec import AttentionSpec
from flashgen.target import DeviceLimits, Target
from flashgen.tile_plan import Footprint, RuleTile, TilePlan
from flashgen.units import format_bytes


def m4d_rule(d: int, sram_bytes: int, itemsize: int) -> RuleTile:
    """The paper's block sizes for an on-chip memory of ``sram_bytes``.

    M counts elements, so the same memory holds twice as many fp16 values as fp32 ones.
    """
    m = sram_bytes // itemsize
    bc = -(-m // (4 * d))
    return RuleTile(m_elements=m, br=min(bc, d), bc=bc)


def plan_tiles(
    family: Family,
    spec: AttentionSpec,
    target: Target,
    limits: DeviceLimits,
    *,
    sram_bytes: int | None = None,
    br: int | None = None,
    bc: int | None = None,
) -> TilePlan:
    """Chooses the tile of a kernel.

    Args:
        family: the kernel family, which knows its own bytes and legal tiles.
        spec: what is computed.
        target: where.
        limits: what the device allows; planning needs no device.
        sram_bytes: the budget; without one, the family's default tile is used.
        br: query rows that the user insists on, or None.
        bc: keys that the user insists on, or None.

    Raises:
        BudgetError: nothing fits, or the budget exceeds what the device has.
        SpecError: the family has no such tile.
    """
    return _Planner(family, spec, target, limits, sram_bytes, br, bc).plan()


@dataclass
class _Planner:
    family: Family
    spec: AttentionSpec
    target: Target
    limits: DeviceLimits
    sram_bytes: int | None
    user_br: int | None
    user_bc: int | None

    def plan(self) -> TilePlan:
        self._check_budget()
        self._check_user_tile()
        trail: list[str] = []
        rule = None
        if self.sram_bytes is not None:
            rule = m4d_rule(self.spec.head_dim, self.sram_bytes, self.spec.dtype.size)
        br, bc = self._start(rule, trail)
        br, bc = self._fit(br, bc, trail)
        origin = "user" if self.user_br or self.user_bc else "rule" if rule else "default"
        knobs, footprint = self._knobs(br, bc), self._footprint(br, bc)
        if not trail:
            trail.append(f"default: {self.family.name} uses a {br} x {bc} tile when no budget is given")
        return TilePlan(self.family.name, br, bc, knobs, footprint, origin, tuple(trail), self.sram_bytes, rule)

    def _check_budget(self) -> None:
        if self.sram_bytes is None or self.sram_bytes <= self.limits.onchip_bytes:
            return
        have = self.limits.onchip_bytes
        what = "L2 cache of one core" if self.target.kind == "cpu" else "shared memory of one block"
        raise BudgetError(
            f"A budget of {format_bytes(self.sram_bytes)} exceeds the {what} on {self.target} "
            f"({self.limits.device}): {format_bytes(have)}. Ask for at most that.",
            required=self.sram_bytes,
            limit=have,
            hint=f"--sram {have}",
        )

    def _check_user_tile(self) -> None:
        for name, value in (("br", self.user_br), ("bc", self.user_bc)):
            if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
                raise SpecError(f"{name}={value!r} must be a positive whole number.")
        default_br, default_bc = self.family.default_tile(self.spec, self.target)
        refusal = self.family.tile_refusal(
            self.spec, self.target, self.user_br or default_br, self.user_bc or default_bc
        )
        if refusal and (self.user_br or self.user_bc):
            raise SpecError(refusal[0].upper() + refusal[1:])

    def _start(self, rule: RuleTile | None, trail: list[str]) -> tuple[int, int]:
        """The tile before fitting: the rule's or the default, snapped, with the user's wishes put in."""
        if rule is None:
            br, bc = self.family.default_tile(self.spec, self.target)
        else:
            br, bc = self._snapped(rule, trail)
        for name, wish in (("br", self.user_br), ("bc", self.user_bc)):
            if wish:
                trail.append(f"user: {name} = {wish}, as asked")
        return self.user_br or br, self.user_bc or bc

    def _snapped(self, rule: RuleTile, trail: list[str]) -> tuple[int, int]:
        d = self.spec.head_dim
        trail.append(
            f"rule: M = {rule.m_elements:,} {self.spec.dtype} elements; "
            f"Bc = ceil(M / 4d) = {rule.bc:,}, Br = min(Bc, d={d}) = {rule.br}"
        )
        grid = self.family.grid(self.spec, self.target)
        br, bc = snap(rule.br, grid.br), snap(rule.bc, grid.bc)
        if (br, bc) != (rule.br, rule.bc):
            trail.append(f"snap: {rule.br} x {rule.bc:,} -> {br} x {bc}, which {self.family.name} has")
        return br, bc

    def _fit(self, br: int, bc: int, trail: list[str]) -> tuple[int, int]:
        grid = self.family.grid(self.spec, self.target)
        start, needed = (br, bc), self._usual_footprint(br, bc).total
        while self._footprint(br, bc).total > self.limit:
            smaller = self._shrink(br, bc, grid)
            if smaller is None:
                raise self._nothing_fits(start, br, bc)
            br, bc = smaller
        found = f"{br} x {bc} takes {self._footprint(br, bc).total:,}"
        if self._footprint(br, bc) != self._usual_footprint(br, bc):
            found += f" with {self.family.describe_knobs(self._knobs(br, bc))}"
        if needed > self.limit:
            trail.append(f"fit: {start[0]} x {start[1]} takes {needed:,} bytes of {self.limit:,}; {found}")
        elif self.sram_bytes is not None:
            trail.append(f"fit: {br} x {bc} takes {needed:,} bytes of {self.limit:,}")
        return br, bc

    def _shrink(self, br: int, bc: int, grid: TileGrid) -> tuple[int, int] | None:
        """One step smaller: the longer side first, and never a side that the user fixed."""
        next_br = None if self.user_br else _below(br, grid.br)
        next_bc = None if self.user_bc else _below(bc, grid.bc)
        if next_bc is not None and (bc >= br or next_br is None):
            return br, next_bc
        return (next_br, bc) if next_br is not None else None

    @property
    def limit(self) -> int:
        """Bytes that a plan may take."""
        return self.limits.onchip_bytes if self.sram_bytes is None else self.sram_bytes

    def _knobs(self, br: int, bc: int) -> Any:
        """The family's usual knobs, or thrifty ones where those exceed the limit."""
        fits = self._usual_footprint(br, bc).total <= self.limit
        return (self.family.knobs if fits else self.family.thrifty_knobs)(self.spec, self.target, br, bc)

    def _footprint(self, br: int, bc: int) -> Footprint:
        return self.family.footprint(self.spec, br, bc, self._knobs(br, bc))

    def _usual_footprint(self, br: int, bc: int) -> Footprint:
        return self.family.footprint(self.spec, br, bc, self.family.knobs(self.spec, self.target, br, bc))

    def _nothing_fits(self, start: tuple[int, int], br: int, bc: int) -> BudgetError:
        fixed = bool(self.user_br and self.user_bc)
        br, bc = start if fixed else (br, bc)
        required = self._footprint(br, bc).total
        tile = f"The {br} x {bc} tile" if fixed else f"The smallest tile of {self.family.name}, {br} x {bc},"
        hint = (
            "a smaller --br or --bc, or a larger --sram" if fixed or self.user_br or self.user_bc else "a larger --sram"
        )
        return BudgetError(
            f"{tile} needs {format_bytes(required)} on chip for {self.spec.summary}, "
            f"but {format_bytes(self.limit)} are available. Use {hint}.",
            required=required,
            limit=self.limit,
            hint=hint,
        )


def _below(value: int, legal: tuple[int, ...]) -> int | None:
    """The next smaller legal value, or None at the bottom."""
    smaller = snap(value - 1, legal)
    return smaller if smaller < value else None
