"""Puts the templates into the wheel.

They stand at the top level of the repository and inside the package in a wheel. An editable install
gets no copy: it reads the repository's own, so that an edit shows in the next render.
"""

from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class TemplatesHook(BuildHookInterface):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version != "editable":
            build_data["force_include"]["templates"] = "flashgen/templates"
