"""`flashgen show --model`: what the model of pipes predicts of a CUDA kernel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table

import flashgen
from flashgen.cli.output import console, print_json
from flashgen.errors import FlashgenError
from flashgen.pipeline import build_kernel
from flashgen.pipes.prediction import KernelPrediction, LoopPrediction, predict_kernel, require_model
from flashgen.runtime.device import resolve_target
from flashgen.spec import make_spec
from flashgen.target import PRESETS, Target

_UNITS = {"tensor": "tensor cores", "fma": "FMA units", "fp64": "fp64 units"}
_COLUMNS = (
    "warps: on a scheduler. How much of the time the unit that multiplies works: lo if nothing overlapped,\n"
    "hi if everything did, busy as predicted. TFLOP/s and share of the device's peak are predicted, too."
)
_OF_FMAS = (
    "Every FMA counts as work, also of columns that pad a head dim; and loads from shared memory as if no two\n"
    "lanes read the same bytes. Where they do, the shared pipe is less busy."
)
_ABOUT = (
    "Predicted from machine code and published rates; nothing was measured. The hot loop alone: long sequences,\n"
    "no mask. Latencies, barriers and clocks under load are not in the model."
)


def show_model(asked: dict[str, Any], targets: tuple[str, ...], as_json: bool) -> None:
    """Compiles and predicts a kernel for one target in full, or for several in a row each.

    Args:
        asked: arguments of `flashgen.plan`; the target is replaced.
        targets: where; empty for one architecture of every GPU that has a preset.
        as_json: print JSON instead.

    Raises:
        FlashgenError: there is no prediction for any target.
    """
    found: list[KernelPrediction] = []
    failed: dict[str, FlashgenError] = {}
    for target in targets or _every_gpu():
        try:
            found.append(_predicted(asked | {"target": target}))
        except FlashgenError as error:
            failed[target] = error
    if not found:
        raise next(iter(failed.values()))
    if as_json:
        why = {target: str(error) for target, error in failed.items()}
        print_json({"model": [kernel.as_json() for kernel in found], "failed": why})
    elif len(targets) == 1:
        _print_one(found[0])
        _print_notes(found, failed)
    else:
        _print_rows(found)
        _print_notes(found, failed)


def _every_gpu() -> tuple[str, ...]:
    """The first architecture of each preset device."""
    devices: dict[str, Target] = {}
    for target, limits in PRESETS.items():
        if target.kind == "cuda":
            devices.setdefault(limits.device, target)
    return tuple(map(str, devices.values()))


def _predicted(asked: dict[str, Any]) -> KernelPrediction:
    spec, target = make_spec(asked["d"], asked["dtype"], asked["causal"], asked["d_v"]), resolve_target(asked["target"])
    plan = flashgen.plan(**asked)
    require_model(plan.family, target)
    built = build_kernel(spec, plan, target)
    return predict_kernel(built.source, built.artifact)


def _print_notes(found: Sequence[KernelPrediction], failed: Mapping[str, FlashgenError]) -> None:
    out = console()
    for target, error in failed.items():
        out.print(f"{target}: {error}", markup=False, soft_wrap=True)
    unsure = [
        f"{kernel.source.target} ({', '.join(kernel.machine.rates.unverified)})"
        for kernel in found
        if kernel.machine.rates.unverified
    ]
    if unsure:
        out.print(f"Rates that no primary source states: {', '.join(unsure)}.", soft_wrap=True)
    if any(loop.work.unit != "tensor" for kernel in found for loop in kernel.loops):
        out.print(_OF_FMAS, soft_wrap=True)
    out.print(_ABOUT, soft_wrap=True)


def _print_one(kernel: KernelPrediction) -> None:
    out, source = console(), kernel.source
    out.print(f"[bold]{source.filename}[/] on {PRESETS[source.target].device}, {source.target}", soft_wrap=True)
    out.print("Cycles of a scheduler for a warp's turn of the hot loop:")
    table = Table("", *(_short(loop.entry) for loop in kernel.loops))
    for column in table.columns[1:]:
        column.justify = "right"
    for pipe in kernel.loops[0].work.cycles.as_dict():
        cycles = [loop.work.cycles.as_dict()[pipe] for loop in kernel.loops]
        if any(cycles):
            table.add_row(pipe, *(f"{count:,.0f}" for count in cycles))
    table.add_section()
    table.add_row("busiest", *(loop.work.cycles.busiest for loop in kernel.loops))
    table.add_row("warps on a scheduler", *(f"{loop.warps:g}" for loop in kernel.loops))
    table.add_row("CTAs on an SM", *(f"{loop.occupancy.ctas} ({loop.occupancy.limiter})" for loop in kernel.loops))
    table.add_section()
    unit = _UNITS[kernel.loops[0].work.unit]
    table.add_row(f"{unit} busy, nothing overlaps", *(f"{loop.util_lo:.0%}" for loop in kernel.loops))
    table.add_row(f"{unit} busy, all overlaps", *(f"{loop.util_hi:.0%}" for loop in kernel.loops))
    table.add_row(f"{unit} busy, predicted", *(f"{loop.utilisation:.0%}" for loop in kernel.loops))
    table.add_row("predicted TFLOP/s", *(_tflops(loop) for loop in kernel.loops))
    table.add_row("of the device's peak", *(f"{loop.share_of_peak:.0%}" for loop in kernel.loops))
    out.print(table)
    for entry in kernel.without:
        out.print(f"{_short(entry)} multiplies no matrices; the model says nothing of it.", soft_wrap=True)


def _print_rows(found: Sequence[KernelPrediction]) -> None:
    out = console()
    entries = {_short(loop.entry) for kernel in found for loop in kernel.loops}
    several = len(entries) > 1
    if not several:
        out.print(f"[bold]{found[0].source.spec.summary}[/], {next(iter(entries))}")
    names = ("target", "device", *(["kernel"] if several else []), "tile", "busiest")
    numbers = ("warps", "lo", "hi", "busy", "TFLOP/s", "of peak")
    table = Table(*names, *numbers)
    for column in table.columns[len(names) :]:
        column.justify = "right"
    for kernel in found:
        plan, target = kernel.source.plan, kernel.source.target
        for loop in kernel.loops:
            table.add_row(
                str(target),
                PRESETS[target].device,
                *([_short(loop.entry)] if several else []),
                f"{plan.br} x {plan.bc}",
                loop.work.cycles.busiest,
                f"{loop.warps:g}",
                *(f"{share:.0%}" for share in (loop.util_lo, loop.util_hi, loop.utilisation)),
                _tflops(loop),
                f"{loop.share_of_peak:.0%}",
            )
    out.print(table)
    out.print(_COLUMNS, soft_wrap=True)


def _short(entry: str) -> str:
    return entry.removeprefix("flashgen_").removeprefix("cuda_")


def _tflops(loop: LoopPrediction) -> str:
    if loop.tflops is None:
        return "?"
    return f"{loop.tflops:.0f}" if loop.tflops >= 10 else f"{loop.tflops:.1f}"
