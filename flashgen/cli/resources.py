"""`flashgen show --resources`: what ptxas and nvdisasm say of a CUDA kernel."""

from __future__ import annotations

from rich.table import Table

from flashgen.cli.output import console, print_json
from flashgen.errors import SpecError
from flashgen.inspect.resources import KernelResources, complaints, resources
from flashgen.inspect.sass import find_nvdisasm
from flashgen.pipeline import Built
from flashgen.target import PRESETS

_ROWS = (
    ("registers of a thread", "registers"),
    ("stack frame", "stack_bytes"),
    ("spill stores", "spill_store_bytes"),
    ("spill loads", "spill_load_bytes"),
    ("shared memory, dynamic", "shared_bytes"),
    ("shared memory, static", "static_shared_bytes"),
    ("barriers", "barriers"),
    ("threads of a CTA", "threads"),
)


def print_resources(built: Built, as_json: bool) -> None:
    """Prints the resources of each launch of a kernel.

    Raises:
        SpecError: it is no CUDA kernel.
    """
    source = built.source
    if source.target.kind != "cuda":
        raise SpecError(f"--resources is about CUDA kernels, and {source.target} is no CUDA target.")
    found = resources(source, built.artifact)
    if as_json:
        print_json({"resources": [kernel.as_json() for kernel in found]})
        return
    out = console()
    out.print(f"[bold]{source.filename}[/] on {PRESETS[source.target].device}, {source.target}", soft_wrap=True)
    out.print(_table(found))
    for kernel in found:
        if kernel.hot_loop:
            mix = ", ".join(f"{count} {opcode}" for opcode, count in kernel.hot_loop.items())
            out.print(f"hot loop of {kernel.entry}: {mix}", soft_wrap=True)
    if find_nvdisasm() is None:
        out.print("The hot loop needs nvdisasm: pip install 'flashgen\\[inspect]'")
    for complaint in (*complaints(found, source), *built.artifact.report.get("warnings", ())):
        out.print(f"[bold]warning[/]: {complaint}", soft_wrap=True)


def _table(found: tuple[KernelResources, ...]) -> Table:
    table = Table("", *(kernel.entry.removeprefix("flashgen_") for kernel in found))
    for label, name in _ROWS:
        table.add_row(label, *(_shown(getattr(kernel, name)) for kernel in found))
    table.add_row("CTAs of an SM", *(_occupancy(kernel) for kernel in found))
    return table


def _shown(value: int | None) -> str:
    return "not known" if value is None else f"{value:,}"


def _occupancy(kernel: KernelResources) -> str:
    fits = kernel.occupancy
    return "not known" if fits is None else f"{fits.ctas} ({fits.share:.0%} of the warps; {fits.limiter})"
