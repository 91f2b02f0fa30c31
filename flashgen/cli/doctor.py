"""`flashgen doctor`: what is here, what is missing."""

from __future__ import annotations

import sys
from dataclasses import asdict

import click

from flashgen.cli.options import json_option


@click.command()
@json_option
def doctor(as_json: bool) -> None:
    """Say what flashgen finds on this machine, what is missing, and how to install it.

    Exit code 4 if kernels cannot be built and run on this CPU.

    \b
    Example:
      flashgen doctor
    """
    from rich.markup import escape
    from rich.table import Table

    from flashgen.cli.output import console, print_json
    from flashgen.doctor import examine

    findings = examine()
    usable = all(finding.found for finding in findings if finding.needed)
    if as_json:
        print_json({"usable": usable, "findings": [asdict(finding) for finding in findings]})
    else:
        table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
        for finding in findings:
            mark = "[green]yes[/]" if finding.found else "[red]NO[/]" if finding.needed else "[yellow]no[/]"
            fix = f"\n[bold]{escape(finding.fix)}[/]" if finding.fix else ""
            table.add_row(mark, finding.what, escape(finding.detail) + fix)
        console().print(table)
        click.echo("Ready: kernels can be built and run on this CPU." if usable else "Not ready: see NO above.")
    if not usable:
        sys.exit(4)
