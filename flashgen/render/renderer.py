"""render(): a plan becomes one self-contained source file."""

from __future__ import annotations

import jinja2

from flashgen.errors import RenderError
from flashgen.families.base import Family
from flashgen.render.environment import environment, templates_dir
from flashgen.source import KernelSource
from flashgen.spec import AttentionSpec
from flashgen.target import Target
from flashgen.tile_plan import TilePlan


def render(family: Family, spec: AttentionSpec, plan: TilePlan, target: Target) -> KernelSource:
    """Renders the family's template.

    Equal arguments give equal bytes, in any process and on any day.

    Raises:
        RenderError: the template is missing or wrong; the message names it and the line.
    """
    context = {"spec": spec, "plan": plan, "target": target, "entry": family.entry}
    try:
        template = environment(templates_dir()).get_template(family.template)
        text = template.render(**context, **family.constants(spec, plan, target))
    except (jinja2.TemplateError, OSError) as error:
        raise RenderError(_explain(family.template, error)) from error
    return KernelSource(text, family.language, family.entry, spec, plan, target)


def _explain(template: str, error: Exception) -> str:
    where = template
    if isinstance(error, jinja2.TemplateSyntaxError):
        where = f"{error.name or template}, line {error.lineno}"
    reason = str(error) or type(error).__name__
    return f"The template {where} could not be rendered: {reason}. Templates are in {templates_dir()}."
