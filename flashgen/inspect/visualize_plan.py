"""The plan of a page: the planner's, or, for a tile too small for the kernel, the tile as it was asked for."""

from __future__ import annotations

from flashgen.errors import BudgetError, SpecError
from flashgen.families import serving
from flashgen.families.base import Family, snap
from flashgen.runtime.device import limits_of
from flashgen.spec import AttentionSpec
from flashgen.target import Target
from flashgen.tile_plan import Footprint, TilePlan
from flashgen.tiling import plan_tiles

SHOWN = ("standard", "fa1", "fa2")


def plan_to_show(
    spec: AttentionSpec, target: Target, algorithm: str, budget: int | None, br: int | None, bc: int | None
) -> TilePlan:
    """Plans as `flashgen.plan` does, except that any br and bc given together are honoured.

    A kernel whose rows are SIMD lanes or warps has no 2 x 4 tile, but its algorithm has, and that is what one
    wants to look at with small numbers. Such a plan's trail says that the kernel itself has no such tile.

    Raises:
        SpecError: the request makes no sense, nothing serves it, or the algorithm has no page.
        BudgetError: the tile does not fit.
    """
    if algorithm not in SHOWN:
        raise SpecError(
            f"There is no page of {algorithm}, only of {', '.join(SHOWN)}; for each split of the keys decode takes the "
            "steps of fa2, and `flashgen explain --algorithm decode` shows how the splits are joined."
        )
    family = serving(spec, target, algorithm)[0]
    limits = limits_of(target)
    if br is None or bc is None or family.tile_refusal(spec, target, br, bc) is None:
        return plan_tiles(family, spec, target, limits, sram_bytes=budget, br=br, bc=bc)
    if min(br, bc) < 1:
        raise SpecError(f"A {br} x {bc} tile makes no sense.")
    plan = _as_asked(family, spec, target, budget, br, bc)
    limit = limits.onchip_bytes if budget is None else budget
    if plan.footprint.total > limit:
        raise BudgetError(
            f"The {br} x {bc} tile needs {plan.footprint.total:,} bytes on chip, but {limit:,} are available. "
            "Use a smaller --br or --bc, or a larger --sram.",
            required=plan.footprint.total,
            limit=limit,
            hint="a smaller --br or --bc, or a larger --sram",
        )
    return plan


def _as_asked(family: Family, spec: AttentionSpec, target: Target, budget: int | None, br: int, bc: int) -> TilePlan:
    """The tile with the bytes that the algorithm's blocks take in the compute type, and the nearest tile's knobs."""
    grid = family.grid(spec, target)
    knobs = family.knobs(spec, target, snap(br, grid.br), snap(bc, grid.bc))
    size = spec.dtype.compute_size
    footprint = Footprint((
        ("Q", br * spec.head_dim * size),
        ("K", bc * spec.head_dim * size),
        ("V", bc * spec.head_dim_v * size),
        ("O", br * spec.head_dim_v * size),
        ("S", br * bc * size),
        ("l,m", 2 * br * size),
    ))  # fmt: skip
    trail = (f"user: {br} x {bc}, as asked; {family.name} itself has no such tile",)
    return TilePlan(family.name, br, bc, knobs, footprint, "user", trail, budget)
