"""Bytes that a compiled CUDA kernel moves: its PTX is run on the CPU by the emulator, which counts them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np

from flashgen.emulator import In, InOut, Module, Out, Struct
from flashgen.families import family_named
from flashgen.inspect.io_ledger import Direction, Ledger, Sizes, Transfer
from flashgen.launch_plan import ARGUMENTS, LaunchPlan, resolve
from flashgen.pipeline import build_kernel
from flashgen.reference import Array, default_scale
from flashgen.spec import AttentionSpec
from flashgen.target import PRESETS, Target
from flashgen.tile_plan import TilePlan

_CODES = {"pointer": "Q", "int64": "q", "int64[3]": "3q", "double": "d"}
_LAYOUT = "=" + "".join(_CODES[argument.type] for argument in ARGUMENTS)

# The array of a call in which a matrix of the ledger lives. O, l and m of fa1, and S and P, are in the workspace.
_ARRAYS = {"Q": "q", "K": "k", "V": "v", "out": "out", "LSE": "lse", "L": "lse"}


@dataclass(frozen=True, slots=True)
class Emulated:
    """One head, or those that share a K and V, run by the emulator.

    Attributes:
        out: (heads * seqlen_q, dv), as the kernel wrote it.
        lse: (heads * seqlen_q,), or None if it was not wanted.
        workspace: the device memory between the steps, as bytes, NaN where nothing was written.
        traffic: bytes by launch (from 0), array and direction.
    """

    out: Array
    lse: Array | None
    workspace: Array
    traffic: dict[tuple[int, str, Direction], int]


def emulate_head(
    spec: AttentionSpec,
    plan: TilePlan,
    target: Target,
    q: Array,
    k: Array,
    v: Array,
    *,
    lse: bool = False,
    row_ranges: int = 1,
    heads: int = 1,
) -> Emulated:
    """Builds the kernel and runs one head of it, or several that share a K and V.

    Args:
        spec: what the kernel computes.
        plan: its tile.
        target: what it is compiled for.
        q: (heads * seqlen_q, d), one head after the other, contiguous, of the spec's dtype.
        k: (seqlen_k, d).
        v: (seqlen_k, dv).
        lse: whether the log-sum-exp is wanted.
        row_ranges: CTAs that share the query rows, or splits of the keys.
        heads: how many.

    Raises:
        ToolchainError: there is no CUDA compiler, or no C++ compiler for the emulator.
        LaunchError: the emulator found a fault in the kernel.
    """
    artifact = build_kernel(spec, plan, target).artifact
    module = Module(artifact.paths["ptx"].read_text(encoding="utf-8"))
    launches = family_named(plan.family).launch_plan(spec, plan)
    compute = np.dtype(np.float64 if spec.dtype.compute_size == 8 else np.float32)
    out = np.empty((len(q), spec.head_dim_v), spec.dtype.numpy())
    statistics = np.empty(len(q), compute) if lse else None
    workspace, traffic = _launch(module, launches, target, (q, k, v, out), statistics, row_ranges, compute, heads)
    return Emulated(out, statistics, workspace, dict(traffic))


def place_of(transfer: Transfer, ledger: Ledger) -> tuple[int, str, Direction]:
    """The launch, the array and the direction in which a transfer of the ledger is counted."""
    array = "out" if transfer.matrix == "O" and ledger.algorithm != "fa1" else _ARRAYS.get(transfer.matrix, "workspace")
    return _launch_of(transfer, ledger), array, transfer.direction


def _launch_of(transfer: Transfer, ledger: Ledger) -> int:
    """Standard attention launches each pass, decode the join if there is one."""
    number = int(transfer.step.rpartition(" ")[2])
    if ledger.algorithm == "standard":
        return number - 1
    joins = ledger.algorithm == "decode" and any(other.matrix == "O_s" for other in ledger.transfers)
    return int(joins and number > 12)


def random_head(spec: AttentionSpec, sizes: Sizes, seed: int = 0, heads: int = 1) -> tuple[Array, Array, Array]:
    """Q, K and V of one head, or of several that share a K and V, N(0, 1)."""
    rng = np.random.default_rng(seed)
    shapes = (
        (heads * sizes.seqlen_q, spec.head_dim),
        (sizes.seqlen_k, spec.head_dim),
        (sizes.seqlen_k, spec.head_dim_v),
    )
    q, k, v = (rng.standard_normal(shape).astype(spec.dtype.numpy()) for shape in shapes)
    return q, k, v


def _launch(
    module: Module,
    launches: LaunchPlan,
    target: Target,
    arrays: tuple[Array, Array, Array, Array],
    lse: Array | None,
    row_ranges: int,
    compute: np.dtype[Any],
    heads: int,
) -> tuple[Array, Counter[tuple[int, str, Direction]]]:
    q, k, v, out = arrays
    rows = (len(q) // heads, len(k), len(k), len(q) // heads)
    strides = tuple((array.size, n * array.shape[1], array.shape[1]) for array, n in zip(arrays, rows, strict=True))
    problem = (1, heads, 1, *rows[:2])
    geometry = resolve(launches, problem, strides, PRESETS[target].cores, row_ranges=row_ranges)
    workspace = np.full(max(geometry.workspace_bytes // compute.itemsize, 1), np.nan, compute)
    pointers = (
        In(_bits(q), "q"),
        In(_bits(k), "k"),
        In(_bits(v), "v"),
        Out(_bits(out), "out"),
        0 if lse is None else Out(lse, "lse"),
        0,
    )
    sizes = (*problem, *(stride for tensor in strides for stride in tensor))
    last = (default_scale(q.shape[1]), InOut(workspace, "workspace"), geometry.row_ranges)
    traffic: Counter[tuple[int, str, Direction]] = Counter()
    for index, (step, grid) in enumerate(geometry.launches(launches)):
        arguments = Struct(_LAYOUT, *pointers, *sizes, *last)
        report = module.launch(step.entry, grid, step.block, [arguments], shared=step.shared_bytes)
        for name, moved in report.traffic.items():
            traffic[index, name, "read"] += moved.load_bytes
            traffic[index, name, "write"] += moved.store_bytes
    return workspace, traffic


def _bits(array: Array) -> Array:
    """16-bit floats as integers: the emulator moves bits, and NumPy's own bf16 is a guest type."""
    return array.view(np.uint16) if array.dtype.itemsize == 2 else array
