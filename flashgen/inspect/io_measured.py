"""The measured column: DRAM bytes that a GPU's own counters saw, read with Nsight Compute.

`ncu` runs `python -m flashgen.inspect.io_measured REQUEST`, which calls the kernel once, and tells what each of
its launches read from and wrote to DRAM. Caches lie in between, so this may be less than what the kernel asks for.
"""

from __future__ import annotations

import csv
import io
import json
import shutil
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

from flashgen.errors import FlashgenError, LaunchError
from flashgen.inspect.io_ledger import Sizes
from flashgen.spec import AttentionSpec
from flashgen.target import Target
from flashgen.tile_plan import TilePlan

_METRICS = {"dram__bytes_read.sum": "read", "dram__bytes_write.sum": "write"}
_MINUTES = 5


@dataclass(frozen=True, slots=True)
class Measured:
    """What the profiler says of one call, all heads.

    Attributes:
        read, written: bytes of DRAM; None if nothing was measured.
        by: what measured, for people; an empty text if nothing did.
        reason: what is missing; an empty text if nothing is.
    """

    read: int | None = None
    written: int | None = None
    by: str = ""
    reason: str = ""


def measured(spec: AttentionSpec, plan: TilePlan, target: Target, sizes: Sizes, algorithm: str) -> Measured:
    """Profiles one call of the kernel, if this machine has the GPU and the profiler for it.

    Args:
        spec: what is computed.
        plan: the tile.
        target: the GPU; a CPU has no such counters.
        sizes: the problem.
        algorithm: the plan's.
    """
    if target.kind == "cpu":
        return Measured(reason="only on a GPU; a CPU does not count what its caches let through")
    profiler = shutil.which("ncu")
    missing = _why_no_gpu(target) or ("" if profiler else "needs Nsight Compute (ncu) on the PATH")
    if missing or profiler is None:
        return Measured(reason=missing)
    request = {
        "call": {
            "d": spec.head_dim,
            "d_v": spec.head_dim_v,
            "dtype": spec.dtype.name,
            "causal": spec.causal.as_json,
            "target": str(target),
            "algorithm": algorithm,
            "br": plan.br,
            "bc": plan.bc,
        },
        "shape": [sizes.batch, sizes.heads, sizes.seqlen_q, sizes.seqlen_k],
        "heads_kv": sizes.heads_kv,
    }
    command = [profiler, "--csv", "--print-units", "base", "--metrics", ",".join(_METRICS)]
    command += ["--kernel-name", "regex:^flashgen_", sys.executable, "-m", __name__, json.dumps(request)]
    try:
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60 * _MINUTES)
    except (OSError, subprocess.TimeoutExpired) as error:
        return Measured(reason=f"ncu did not finish: {error}")
    return read_csv(done.stdout) if done.returncode == 0 else Measured(reason=f"ncu failed: {_complaint(done)}")


def read_csv(text: str) -> Measured:
    """Adds up the counters of all launches in what `ncu --csv --print-units base` prints."""
    lines = text.splitlines()
    start = next((index for index, line in enumerate(lines) if line.startswith('"ID"')), len(lines))
    sums = {"read": 0, "write": 0}
    launches = set()
    for row in csv.DictReader(io.StringIO("\n".join(lines[start:]))):
        direction = _METRICS.get(row["Metric Name"])
        if direction is not None:
            sums[direction] += round(float(row["Metric Value"].replace(",", "")))
            launches.add(row["ID"])
    if not launches:
        return Measured(reason="ncu saw no launch of the kernel")
    return Measured(sums["read"], sums["write"], by=f"Nsight Compute, DRAM bytes of {len(launches)} launches")


def _why_no_gpu(target: Target) -> str:
    from flashgen.runtime.cuda_device import gpu_target

    try:
        here = gpu_target(0)
    except FlashgenError:
        return "needs a CUDA GPU and its profiler"
    return "" if here == target else f"needs {target}; this machine's GPU is {here}"


def _complaint(done: subprocess.CompletedProcess[str]) -> str:
    """The profiler's own error line (permissions, say), or the last thing that was said."""
    said = [line.strip() for line in (done.stdout + done.stderr).splitlines() if line.strip()]
    errors = [line.removeprefix("==ERROR==").strip() for line in said if line.startswith("==ERROR==")]
    return (errors or said or ["it said nothing"])[-1 if not errors else 0]


def _call_once(request: dict[str, Any]) -> None:
    """What the profiled process does: one call, on random tensors."""
    try:
        import torch
    except ImportError as error:
        raise LaunchError("Measuring on a GPU needs torch: pip install torch.") from error
    import flashgen

    call, (batch, heads, seqlen_q, seqlen_k) = request["call"], request["shape"]
    attn = flashgen.build(**call)
    dtype = {"fp16": "float16", "bf16": "bfloat16", "fp32": "float32", "fp64": "float64"}[call["dtype"]]
    heads_kv = request["heads_kv"]
    shapes = ((heads, seqlen_q, call["d"]), (heads_kv, seqlen_k, call["d"]), (heads_kv, seqlen_k, call["d_v"]))
    q, k, v = (torch.randn(batch, *shape, device="cuda", dtype=getattr(torch, dtype)) for shape in shapes)
    attn(q, k, v)
    torch.cuda.synchronize()


if __name__ == "__main__":
    _call_once(json.loads(sys.argv[1]))
