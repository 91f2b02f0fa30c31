"""flashgen: a compiler for attention kernels.

    import flashgen

    attn = flashgen.build(d=64, sram="96KB")
    out = attn(q, k, v)

Public names load on first use, so importing flashgen imports neither torch nor cupy nor jinja2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flashgen.api import attention, build, plan
    from flashgen.errors import (
        ArgumentError,
        BudgetError,
        CompileError,
        FlashgenError,
        LaunchError,
        RenderError,
        SpecError,
        ToolchainError,
        TuneError,
        VerificationError,
    )
    from flashgen.runtime.dispatch import Attention
    from flashgen.tile_plan import TilePlan
    from flashgen.tuning.api import autotune
    from flashgen.tuning.sweep.result import TuneResult

__version__ = "0.1.0"

_HOMES = {
    "attention": "flashgen.api",
    "autotune": "flashgen.tuning.api",
    "build": "flashgen.api",
    "plan": "flashgen.api",
    "Attention": "flashgen.runtime.dispatch",
    "TilePlan": "flashgen.tile_plan",
    "TuneResult": "flashgen.tuning.sweep.result",
} | dict.fromkeys(
    (
        "ArgumentError", "BudgetError", "CompileError", "FlashgenError", "LaunchError", "RenderError", "SpecError",
        "ToolchainError", "TuneError", "VerificationError",
    ),
    "flashgen.errors",
)  # fmt: skip

__all__ = [
    "ArgumentError", "Attention", "BudgetError", "CompileError", "FlashgenError", "LaunchError", "RenderError",
    "SpecError", "TilePlan", "ToolchainError", "TuneError", "TuneResult", "VerificationError", "attention", "autotune",
    "build", "plan",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'flashgen' has no attribute {name!r}")
    import importlib

    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
