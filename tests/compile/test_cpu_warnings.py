"""Every CPU kernel compiles without a warning, at every instruction-set level."""

import subprocess
from pathlib import Path

import pytest

from flashgen.compilation.toolchains.host import HostToolchain, find_compiler
from flashgen.dtypes import ALL
from flashgen.families import FAMILIES
from flashgen.render.renderer import render
from flashgen.spec import Causal, make_spec
from flashgen.target import PRESETS, X86_LEVELS, parse_target
from flashgen.tiling import plan_tiles

CPU_FAMILIES = [family.name for family in FAMILIES if family.kind == "cpu"]
LEVELS = [f"cpu:{level}" for level in X86_LEVELS]
CAUSAL = [mode.as_json for mode in Causal]

# A thin slice through family x level x dtype x mask x head dims: every value of every axis appears.
CASES = [
    (family, LEVELS[(f + i) % len(LEVELS)], dtype.name, CAUSAL[i % 3], d, d_v)
    for f, family in enumerate(CPU_FAMILIES)
    for i, (dtype, (d, d_v)) in enumerate(
        (dtype, dims) for dtype in ALL for dims in ((64, None), (1, 3), (80, 160))
    )
]  # fmt: skip


@pytest.mark.parametrize(("family", "target", "dtype", "causal", "d", "d_v"), CASES)
def test_a_kernel_compiles_without_warnings(
    family: str, target: str, dtype: str, causal: bool | str, d: int, d_v: int | None, tmp_path: Path
) -> None:
    chosen = next(known for known in FAMILIES if known.name == family)
    where = parse_target(target)
    spec = make_spec(d, dtype, causal, d_v)  # type: ignore[arg-type]
    source = render(chosen, spec, plan_tiles(chosen, spec, where, PRESETS[where]), where)
    path = source.write_to(tmp_path)
    flags = HostToolchain().flags(where)
    command = [
        *find_compiler().command,
        *flags,
        "-Wall",
        "-Wextra",
        "-Wshadow",
        "-Werror",
        "-o",
        str(tmp_path / "k.so"),
        str(path),
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
