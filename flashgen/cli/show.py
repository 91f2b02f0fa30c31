"""`flashgen show`: look at a kernel."""

from __future__ import annotations

from typing import Any

import click

from flashgen.cli.options import kernel_options_and_targets, request


@click.command()
@kernel_options_and_targets
@click.option("--source", "part", flag_value="source", help="Only the source, bare, to pipe it somewhere.")
@click.option("--log", "part", flag_value="log", help="Only the compiler's log (compiles it if need be).")
@click.option(
    "--resources",
    "part",
    flag_value="resources",
    help="Registers, spills, shared memory, occupancy and the hot loop of a CUDA kernel.",
)
@click.option(
    "--sass",
    "part",
    flag_value="sass",
    help="What a CUDA kernel's hot loops are made of, beside what they need at least.",
)
@click.option(
    "--model",
    "part",
    flag_value="model",
    help="Predicted TFLOP/s of a CUDA kernel: cycles in each pipe; one row for each --target, or for every GPU.",
)
@click.option("--triton/--no-triton", default=True, help="With --sass: beside Triton's kernel, where it is installed.")
def show(as_json: bool, part: str | None, triton: bool, targets: tuple[str, ...], **options: Any) -> None:
    """Show a kernel: its plan, and its source with line numbers.

    \b
    Example:
      flashgen show --d 64 --sram 96KB
      flashgen show --d 64 --source > kernel.cpp
      flashgen show --d 64 --sram 96KB --target sm_80 --resources
      flashgen show --d 128 --target sm_80 --sass
      flashgen show --d 128 --model
    """
    import flashgen
    from flashgen.cli.model import show_model
    from flashgen.cli.output import plan_json, print_json, print_plan
    from flashgen.cli.resources import print_resources
    from flashgen.cli.sass import print_sass
    from flashgen.families import family_named
    from flashgen.pipeline import build_kernel
    from flashgen.render.renderer import render
    from flashgen.runtime.device import resolve_target
    from flashgen.spec import make_spec

    if part == "model":
        show_model(request(options | {"target": "auto"}), targets, as_json)
        return
    if len(targets) > 1:
        raise click.UsageError("Several targets are for --model; show one at a time.")
    asked = request(options | {"target": targets[0] if targets else "auto"})
    plan = flashgen.plan(**asked)
    spec = make_spec(asked["d"], asked["dtype"], asked["causal"], asked["d_v"])
    target = resolve_target(asked["target"])
    if part == "resources":
        print_resources(build_kernel(spec, plan, target), as_json)
        return
    if part == "sass":
        print_sass(build_kernel(spec, plan, target), as_json, triton)
        return
    log = build_kernel(spec, plan, target).artifact.log if part == "log" or as_json else ""
    source = render(family_named(plan.family), spec, plan, target)
    if as_json:
        print_json(
            {
                "plan": plan_json(spec, target, plan),
                "source": source.text,
                "digest": source.digest,
                "log": log,
            }
        )
    elif part == "log":
        click.echo(log or f"The compiler had nothing to say about {source.filename}.")
    elif part == "source":
        click.echo(source.text, nl=False)
    else:
        print_plan(spec, target, plan, asked["target"])
        _print_numbered(source.text)


def _print_numbered(text: str) -> None:
    from rich.syntax import Syntax

    from flashgen.cli.output import console

    out = console()
    if out.is_terminal:
        out.print(Syntax(text, "cpp", line_numbers=True, theme="ansi_dark", background_color="default"))
        return
    for number, line in enumerate(text.splitlines(), start=1):
        click.echo(f"{number:4d}  {line}")
