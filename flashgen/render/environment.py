"""The Jinja2 environment, and the one decision where templates are."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import jinja2

from flashgen.errors import RenderError


def templates_dir() -> Path:
    """The templates directory.

    In a wheel the templates are package data, ``flashgen/templates``; in a checkout (and under an
    editable install of one) they stand beside the package.

    Raises:
        RenderError: the installation has no templates.
    """
    package = Path(__file__).resolve().parents[1]
    for candidate in (package / "templates", package.parent / "templates"):
        if (candidate / "shared" / "banner.j2").is_file():
            return candidate
    raise RenderError(f"The templates are missing beside {package}. Reinstall flashgen.")


@cache
def environment(directory: Path) -> jinja2.Environment:
    """The environment for a templates directory: undefined names are errors, white space is exact.

    ``part(path)`` inserts a file as it is. Parts are C++ or CUDA without Jinja in them, because inline
    PTX such as ``"{%0, %1}"`` is a Jinja syntax error.
    """
    env = jinja2.Environment(
        loader=jinja2.FileSystemLoader(directory),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )
    env.globals["part"] = lambda path: (directory / path).read_text(encoding="utf-8")
    return env
