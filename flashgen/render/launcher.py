"""A short C file that launches a compiled CUDA kernel with the driver alone."""

from __future__ import annotations

import re

import jinja2

from flashgen.errors import RenderError
from flashgen.families import family_named
from flashgen.launch_plan import ARGUMENT_BYTES, ARGUMENTS, VARIABLES, Argument
from flashgen.render.environment import environment, templates_dir
from flashgen.source import KernelSource

_TEMPLATE = "cuda/launcher.c.j2"
_C_TYPES = {"pointer": "CUdeviceptr", "int64": "int64_t", "int64[3]": "int64_t", "double": "double"}


def render_launcher(source: KernelSource, stem: str) -> str:
    """Renders the launcher of a kernel whose files are called ``stem``.

    Raises:
        RenderError: the template is missing or wrong.
    """
    launch = family_named(source.plan.family).launch_plan(source.spec, source.plan)
    try:
        return (
            environment(templates_dir())
            .get_template(_TEMPLATE)
            .render(
                stem=stem,
                arguments=[{"declaration": _declaration(field), "meaning": field.meaning} for field in ARGUMENTS],
                argument_bytes=ARGUMENT_BYTES,
                steps=launch.steps,
                grids=[formula for step in launch.steps for formula in step.grid],
                workspace_bytes=launch.workspace_bytes,
                row_ranges=launch.row_ranges,
                used=_used,
            )
        )
    except (jinja2.TemplateError, OSError) as error:
        raise RenderError(f"The template {_TEMPLATE} could not be rendered: {error}.") from error


def _declaration(field: Argument) -> str:
    extent = "[3]" if field.type.endswith("[3]") else ""
    return f"{_C_TYPES[field.type]} {field.name}{extent};"


def _used(*formulas: str) -> str:
    """Declarators for the fields of ``args`` that formulas mention: ``batch = args->batch, ...``."""
    mentioned = {name for formula in formulas for name in re.findall(r"[a-z_]+", formula)}
    return ", ".join(f"{name} = args->{name}" for name in VARIABLES if name in mentioned and name != "sm_count")
