"""`flashgen show --sass`: what a CUDA kernel's hot loops are made of."""

from __future__ import annotations

from rich.table import Table

from flashgen.cli.output import console, print_json
from flashgen.inspect.sass_ideal import OTHER
from flashgen.inspect.sass_report import FmaLoop, SassReport, TensorLoop, sass_report
from flashgen.pipeline import Built

_BY_ELEMENT = (
    "A head dim is no multiple of 8, so rows are copied by element, in loops that are not counted here; and every\n"
    "block takes the path that has a mask. What is counted is by far not all that this kernel does."
)


def print_sass(built: Built, as_json: bool, with_triton: bool) -> None:
    """Prints the hot loops of a kernel.

    Raises:
        SpecError: it is no CUDA kernel.
        ToolchainError: there is no nvdisasm, or no machine code.
    """
    source = built.source
    report = sass_report(source, built.artifact, with_triton=with_triton)
    if as_json:
        print_json({"sass": report.as_json()})
        return
    out = console()
    out.print(f"[bold]{source.filename}[/] on {source.target}", soft_wrap=True)
    if report.ours is None:
        out.print(_fma_table(report.loops))
        return
    out.print(f"Instructions of a warp for one block of keys{'' if report.by_element else ' that needs no mask'}:")
    out.print(_tensor_table(report))
    if report.by_element:
        out.print(_BY_ELEMENT, soft_wrap=True)
    for name, loop in (("other", report.ours), ("Triton's other", report.triton)):
        if loop:
            mix = ", ".join(f"{count} {opcode}" for opcode, count in loop.others.items())
            out.print(f"{name}: {mix}", soft_wrap=True)
    if report.no_triton:
        out.print(f"{report.no_triton}.", markup=False, soft_wrap=True)


def _tensor_table(report: SassReport) -> Table:
    ours, triton = report.ours, report.triton
    assert ours is not None
    loops = (ours, triton) if triton else (ours,)
    table = Table("", "ideal", "this kernel", *(["Triton"] if triton else []))
    for column in table.columns[1:]:
        column.justify = "right"
    for name in (*report.ideal, OTHER):
        table.add_row(name, str(report.ideal.get(name, 0)), *(str(loop.counts[name]) for loop in loops))
    total = sum(report.ideal.values())
    table.add_section()
    table.add_row("all", str(total), *(str(loop.instructions) for loop in loops))
    table.add_row("more than ideal", "", *(f"{loop.instructions / total - 1:.1%}" for loop in loops))
    table.add_row("for each mma", f"{total / ours.products:.2f}", *(f"{loop.per_product:.2f}" for loop in loops))
    table.add_section()
    table.add_row("registers", "", *(str(loop.registers) for loop in loops))
    table.add_row("stack frame, bytes", "", *(str(loop.stack_bytes) for loop in loops))
    table.add_row("spilled bytes", "", f"{sum(report.spills)}", *(["not known"] if triton else []))
    table.add_row("local memory in the loop", "0", *(str(loop.local) for loop in loops))
    table.add_section()
    for name, wanted in (("ldmatrix", ("LDSM",)), ("copies", ("LDGSTS", "LDG", "STS"))):
        table.add_row(name, "", *(_widths(loop, wanted) for loop in loops))
    return table


def _widths(loop: TensorLoop, wanted: tuple[str, ...]) -> str:
    """``32 x4`` of ldmatrix, ``8 of 16 bytes`` of copies: counts by width, however the opcodes differ otherwise."""
    found: dict[str, int] = {}
    for opcode, count in loop.widths.items():
        parts = opcode.split(".")
        if parts[0] not in wanted:
            continue
        if parts[0] == "LDSM":
            width = f"x{parts[-1]}" if parts[-1] in ("2", "4") else "x1"
        else:
            bits = next((int(part) for part in parts if part in ("64", "128")), 32)
            width = f"{parts[0]} of {bits // 8} bytes"
        found[width] = found.get(width, 0) + count
    return "\n".join(f"{count} {width}" for width, count in found.items())


def _fma_table(loops: tuple[FmaLoop, ...]) -> Table:
    table = Table("loop of", "instructions", "FMAs", "share", "loads from shared memory")
    for column in table.columns[1:4]:
        column.justify = "right"
    for loop in loops:
        loads = ", ".join(f"{count} {opcode}" for opcode, count in loop.widths.items())
        name = loop.entry.removeprefix("flashgen_")
        table.add_row(name, str(loop.instructions), str(loop.fmas), f"{loop.share:.1%}", loads)
    return table
