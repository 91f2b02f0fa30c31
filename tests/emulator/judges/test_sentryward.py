# ruff: noqa: E501 - rows of a table are lines
"""SentryWard, a static verifier of all schedules of one launch, as an outside judge of races.

Where it proves a kernel free of races both executors must be silent, and where it shows two accesses that nothing
orders they must tell of the same two lines.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flashgen.compilation.toolchains.nvrtc_library import find_nvrtc
from flashgen.emulator import In, Module, Out, Report
from flashgen.emulator.module import EXECUTORS

sentryward = pytest.importorskip("sentryward", reason="the judges extra installs SentryWard")
_HERE = Path(__file__).parent
_HANDOVER = (_HERE / "kernels" / "handover.cu").read_text()
_FLASH = (_HERE.parent / "kernels" / "flash_mma.cu").read_text()
_SCHEMA = "spverify.kernel-input/v1"
_BFI = re.compile(r"bfi\.b32\s+(%\w+),\s*(%\w+),\s*(%\w+),\s*(\d+),\s*(\d+);")


@cache
def compiled(source: str) -> str:
    found = find_nvrtc()
    if not found:
        pytest.skip("NVRTC is not installed")
    program = found[0].compile(source, "judged.cu", ("-arch=compute_80", "--std=c++17", "-lineinfo", "-default-device"))
    assert program.succeeded, program.log
    return program.ptx.rstrip(b"\0").decode()


def _without_bfi(match: re.Match[str]) -> str:
    """The judge does not know the integer bfi.b32; shifts and masks say the same."""
    d, a, b, position, length = match.groups()
    mask = ((1 << int(length)) - 1) << int(position)
    return (
        f"{{ .reg .b32 %field<3>; shl.b32 %field0, {a}, {position}; and.b32 %field1, %field0, {mask}; "
        f"and.b32 %field2, {b}, {0xFFFFFFFF & ~mask}; or.b32 {d}, %field1, %field2; }}"
    )


def judge(
    source: str,
    entry: str,
    grid: int,
    block: int,
    folder: Path,
    shared: int = 0,
    arguments: Sequence[dict[str, Any]] = (),
) -> tuple[bool, frozenset[int]]:
    """Whether it is free of races; else the two lines of the first witness."""
    ptx, config = folder / "judged.ptx", folder / "input.json"
    ptx.write_text(_BFI.sub(_without_bfi, compiled(source)))
    launch = {"grid_dim": [grid, 1, 1], "block_dim": [block, 1, 1], "dynamic_shared_bytes": shared}
    config.write_text(json.dumps({"schema": _SCHEMA, "entry": entry, "launch": launch, "arguments": list(arguments)}))
    verdict = sentryward.verify(ptx, input=config, timeout_seconds=300)
    assert verdict["result"] in ("race_free", "potential_race"), verdict["diagnostics"]
    if verdict["result"] == "race_free":
        return True, frozenset()
    witness = verdict["races"][0]
    return False, frozenset(witness[side]["location"]["line"] for side in ("first", "second"))


def agree(reports: list[Report], verdict: tuple[bool, frozenset[int]]) -> None:
    clean, lines = verdict
    for report in reports:
        assert report.ok == clean, f"{lines}\n{report}"
        if not clean:
            told = [f for f in report.findings if f.kind in ("race", "in-flight") and f.other]
            assert lines in {frozenset((f.site.line, f.other.line)) for f in told if f.other}, f"{lines}\n{report}"


def launch(source: str, entry: str, block: int, count: int) -> list[Report]:
    data, out = np.random.default_rng(0).standard_normal(2 * count).astype(np.float32), np.zeros(2 * block, np.float32)
    out = out[:2] if entry == "reduce" else out
    modules = [Module(compiled(source), source=source, executor=executor) for executor in EXECUTORS]
    return [module.launch(entry, 2, block, [In(data), Out(out)]) for module in modules]


_WAIT = "    wait_for_copies();\n"
_BARRIER = "    __syncthreads();  // of all threads; and nobody reads the other buffer any more\n"
_MUTANTS = {
    "as they are": [],
    "pipeline without its barrier": [(_BARRIER, "\n")],
    "pipeline without its wait": [(_WAIT, "\n")],
    "pipeline that waits behind the barrier": [(_WAIT, "\n"), (_BARRIER, "    __syncthreads();\n" + _WAIT.rstrip("\n"))],
    "pipeline that copies before the barrier": [(_WAIT + _BARRIER, ""), ("    commit();\n    const", f"    commit();\n{_WAIT}{_BARRIER}    const")],
    "reduction without its barrier": [("  __syncthreads();\n  if (t == 0)", "\n  if (t == 0)")],
}  # fmt: skip


@pytest.mark.parametrize("entry,block,count", [("pipeline", 64, 1024), ("reduce", 128, 128)])
@pytest.mark.parametrize("name", _MUTANTS)
def test_handing_over_through_shared_memory(name: str, entry: str, block: int, count: int, tmp_path: Path) -> None:
    source = _HANDOVER
    for old, new in _MUTANTS[name]:
        assert source.count(old) == 1, old
        source = source.replace(old, new)
    verdict = judge(source, entry, 2, block, tmp_path)
    assert verdict[0] == (not name.startswith({"pipeline": "pipeline", "reduce": "reduction"}[entry]))
    agree(launch(source, entry, block, count), verdict)


_K_BARRIER = "    __syncthreads();    // of all threads; and nobody needs the last V any more\n"
_V_BARRIER = "    __syncthreads();    // of all threads; and nobody needs K any more\n"


@pytest.mark.parametrize("barrier", [None, _K_BARRIER, _V_BARRIER], ids=["as it is", "K's barrier", "V's barrier"])
def test_attention_on_tensor_cores(barrier: str | None, tmp_path: Path) -> None:
    source = _FLASH if barrier is None else _FLASH.replace(barrier, "\n")
    assert (source == _FLASH) == (barrier is None)
    seqlen_q, seqlen_k, scale = 64, 64, 0.125
    values = (("u32", seqlen_q), ("u32", seqlen_k), ("f32", scale), ("u32", 0))
    arguments = [{"parameter": f"flash_mma_param_{k}", "type": t, "value": v} for k, (t, v) in enumerate(values, 5)]
    verdict = judge(source, "flash_mma", 1, 128, tmp_path, shared=3 * 64 * 128, arguments=arguments)
    assert verdict[0] == (barrier is None)
    rng = np.random.default_rng(1)
    q, k, v = (rng.standard_normal((n, 64)).astype(np.float16) for n in (seqlen_q, seqlen_k, seqlen_k))
    out, lse = np.zeros_like(q), np.zeros(seqlen_q, np.float32)
    args = [In(q), In(k), In(v), Out(out), Out(lse), seqlen_q, seqlen_k, scale, 0]
    modules = [Module(compiled(source), source=source, executor=executor) for executor in EXECUTORS]
    reports = [module.launch("flash_mma", 1, 128, args, shared=3 * 64 * 128) for module in modules]
    agree(reports, verdict)
