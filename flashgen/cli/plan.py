"""`flashgen plan`: which tile, and why."""

from __future__ import annotations

from typing import Any

import click

from flashgen.cli.options import kernel_options, request


@click.command()
@kernel_options
def plan(as_json: bool, **options: Any) -> None:
    """Choose the tile of a kernel and say how, without building anything.

    \b
    Example:
      flashgen plan --d 64 --sram 96KB
      flashgen plan --d 80 --dtype fp32 --causal --br 64
    """
    import flashgen
    from flashgen.cli.output import plan_json, print_json, print_plan
    from flashgen.runtime.device import resolve_target
    from flashgen.spec import make_spec

    asked = request(options)
    made = flashgen.plan(**asked)
    spec = make_spec(asked["d"], asked["dtype"], asked["causal"], asked["d_v"])
    target = resolve_target(asked["target"])
    if as_json:
        print_json(plan_json(spec, target, made))
    else:
        print_plan(spec, target, made, asked["target"])
