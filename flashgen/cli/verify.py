"""`flashgen verify`: kernels against the float64 oracle."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from flashgen.cli.options import kernel_options, request, tuned_option

if TYPE_CHECKING:
    from flashgen.runtime.dispatch import Attention
    from flashgen.verification import VerificationReport


@click.command()
@kernel_options
@click.option(
    "--loader",
    default="auto",
    show_default=True,
    metavar="NAME",
    help="How to load it: auto; CPU: ctypes; CUDA: torch, cupy, emulator.",
)
@click.option("--seed", default=0, show_default=True, type=click.IntRange(min=0), help="Of the random values.")
@tuned_option
def verify(as_json: bool, loader: str, seed: int, tuned: bool | None, **options: Any) -> None:
    """Check a kernel against float64 on many shapes and hostile values; exit code 5 if it fails.

    \b
    Example:
      flashgen verify --d 64 --sram 96KB
      flashgen verify --d 40 --dtype bf16 --causal top_left
      flashgen verify --d 64 --sram 96KB --target sm_80 --loader emulator
    """
    import flashgen
    from flashgen.cli.output import print_json

    asked = request(options)
    attn = flashgen.build(**asked, loader=loader_to_verify(asked["target"], loader), tuned=tuned)
    report = run_verification(attn, seed=seed, show_progress=not as_json)
    if as_json:
        print_json(report_json(report))
    else:
        click.echo(f"{attn.source.filename}")
        print_report(report)
        print_emulation(attn)
    exit_unless_passed(report)


def loader_to_verify(target: str, loader: str) -> str:
    """The loader asked for; for a CUDA target that this machine cannot run, the emulator by itself.

    Raises:
        SpecError: a CPU target that this machine cannot run.
    """
    from flashgen.errors import SpecError
    from flashgen.runtime.device import resolve_target, runs_here

    where = resolve_target(target)
    if loader != "auto" or runs_here(where):
        return loader
    if where.kind == "cpu":
        raise SpecError(f"This CPU cannot run {where}, so the kernel cannot be verified here.")
    return "emulator"


def print_emulation(attn: Attention) -> None:
    """For a kernel in the emulator: what it did, beyond giving the right numbers."""
    from flashgen.cli.output import console

    totals = getattr(attn.kernel.executable, "totals", None)
    if totals is not None:
        console().print(
            f"emulated  {totals.launches} launches, {totals.warp_instructions:,} warp-instructions, no findings "
            f"(bounds, alignment, races, ...)\n"
            f"          global memory: {totals.load_bytes:,} bytes read, {totals.store_bytes:,} written; "
            f"{totals.conflicts:,} bank conflicts"
        )


def run_verification(attn: Attention, *, seed: int = 0, show_progress: bool = True) -> VerificationReport:
    """Runs every case, with a progress bar on a terminal."""
    from rich.progress import Progress

    from flashgen.cli.output import console
    from flashgen.verification import cases_for
    from flashgen.verification import verify as run_cases

    cases = cases_for(attn.spec)
    out = console()
    with Progress(console=out, transient=True, disable=not (show_progress and out.is_terminal)) as bar:
        task = bar.add_task("verifying", total=len(cases))
        return run_cases(attn, attn.spec, cases=cases, seed=seed, progress=lambda row: bar.advance(task))


def report_json(report: VerificationReport) -> dict[str, Any]:
    """The report as JSON; the keys are stable and documented in docs/cli.md."""
    return report.as_dict()


def print_report(report: VerificationReport) -> None:
    """Prints the largest error, the case nearest to its tolerance, and failures with their reasons."""
    from flashgen.cli.output import console

    out, worst = console(), report.worst
    verdict = "[green]passed[/]" if report.passed else "[red]FAILED[/]"
    failed = f", {len(report.failures)} of them wrong" if report.failures else ""
    out.print(f"verified  {verdict}: {report.cases} cases against float64{failed}")
    largest = max((row.max_abs_error for row in report.rows), default=0.0)
    out.print(f"          largest error {largest:.1e}; nearest to its own tolerance, at {worst.severity:.0%} of it:")
    out.print(
        f"          {worst.name} (max error {worst.max_abs_error:.1e}, rms {worst.rms_error:.1e}, "
        f"tolerance {worst.tolerance:.1e})",
        soft_wrap=True,
    )
    for row in report.failures[:10]:
        out.print(f"          {row.name}: {row.reason}", soft_wrap=True)


def exit_unless_passed(report: VerificationReport | None) -> None:
    """Leaves with exit code 5 if there is a report and it failed."""
    if report is not None and not report.passed:
        from flashgen.errors import VerificationError

        raise VerificationError(f"{len(report.failures)} of {report.cases} cases are outside the tolerance.")
