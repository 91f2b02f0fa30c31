"""The manifest: all that a program in any language needs to launch a CUDA kernel with the driver alone."""

from __future__ import annotations

import hashlib
from typing import Any

from flashgen.compilation.artifact import Artifact
from flashgen.families import family_named
from flashgen.launch_plan import ARGUMENT_BYTES, ARGUMENTS, VARIABLES
from flashgen.source import KernelSource

SCHEMA = 1


def manifest(source: KernelSource, artifact: Artifact) -> dict[str, Any]:
    """Describes a compiled kernel, JSON-like; docs/cuda.md explains the keys."""
    spec, plan = source.spec, source.plan
    launch = family_named(plan.family).launch_plan(spec, plan)
    return {
        "schema": SCHEMA,
        "family": plan.family,
        "algorithm": family_named(plan.family).algorithm,
        "target": str(source.target),
        "spec": {
            "d": spec.head_dim,
            "dv": spec.head_dim_v,
            "dtype": spec.dtype.name,
            "causal": spec.causal.as_json,
        },
        "launches": [
            {
                "entry": step.entry,
                "grid": list(step.grid),
                "block": [step.block, 1, 1],
                "shared_bytes": step.shared_bytes,
            }
            for step in launch.steps
        ],
        "workspace_bytes": launch.workspace_bytes,
        "row_ranges": launch.row_ranges,
        "formulas": {
            "variables": list(VARIABLES),
            "functions": ["ceil_div(a, b)", "min(a, b)", "max(a, b)"],
        },
        "arguments": {
            "passing": "one struct, by value, to every launch",
            "bytes": ARGUMENT_BYTES,
            "fields": [
                {"name": field.name, "type": field.type, "offset": field.offset, "meaning": field.meaning}
                for field in ARGUMENTS
            ],
        },
        "plan": {
            "br": plan.br,
            "bc": plan.bc,
            "knobs": dict(plan.knobs_dict),
            "footprint_bytes": plan.footprint.as_dict(),
            "origin": plan.origin,
            "trail": list(plan.trail),
            "sram_bytes": plan.sram_bytes,
        },
        "resources": dict(artifact.report),
        "compiler": dict(artifact.toolchain),
        "sha256": {"cu": source.digest}
        | {suffix: hashlib.sha256(path.read_bytes()).hexdigest() for suffix, path in artifact.paths.items()},
    }
