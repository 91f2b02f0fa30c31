"""What a kernel does on a small call: its PTX is run by the emulator, which counts, checks, and gives the result."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flashgen.emulator import In, Module, Out, Report, Scratch, Struct
from flashgen.launch_plan import ARGUMENT_FORMAT, LaunchPlan, resolve
from flashgen.reference import default_scale
from flashgen.spec import AttentionSpec
from flashgen.verification import Inputs

Array = NDArray[Any]
Counts = dict[str, float]

_WAVEFRONTS, _PRODUCTS, _COPIED, _SECTORS = "wavefronts", "products", "copied sectors", "sectors of "
_PRODUCT = re.compile(r"mma\.sync\S*\.m(\d+)n(\d+)k(\d+)\.")


@dataclass(frozen=True, slots=True)
class StepCounts:
    """One launch.

    Attributes:
        units: warp-instructions by the emulator's units.
        wavefronts: of shared memory.
        products: multiply-adds on tensor cores; those of tf32 count twice, as they take twice as long.
        copied: 32-byte sectors of global memory that asynchronous copies brought.
        sectors: those and all other sectors that were touched, by array.
    """

    units: dict[str, float]
    wavefronts: float
    products: float
    copied: float
    sectors: dict[str, float]

    @property
    def flat(self) -> Counts:
        """All of them by name, to calculate with."""
        sectors = {_SECTORS + name: count for name, count in self.sectors.items()}
        return {**self.units, _WAVEFRONTS: self.wavefronts, _PRODUCTS: self.products, _COPIED: self.copied, **sectors}

    @classmethod
    def of(cls, flat: Counts) -> StepCounts:
        """The other way round."""
        sectors = {name.removeprefix(_SECTORS): n for name, n in flat.items() if name.startswith(_SECTORS)}
        own = (_WAVEFRONTS, _PRODUCTS, _COPIED)
        units = {name: n for name, n in flat.items() if name not in own and not name.startswith(_SECTORS)}
        return cls(units, flat[_WAVEFRONTS], flat[_PRODUCTS], flat[_COPIED], sectors)


@dataclass(frozen=True, slots=True)
class Run:
    """A call, emulated.

    Attributes:
        steps: counts of each launch; one that was left out did nothing.
        out, lse: (1, heads, seqlen_q, dv) and (1, heads, seqlen_q), as the kernel wrote them.
    """

    steps: tuple[StepCounts, ...]
    out: Array
    lse: Array


def count_unit(ptx: bytes, spec: AttentionSpec, launches: LaunchPlan, inputs: Inputs, row_ranges: int) -> Run:
    """Runs a call.

    Args:
        ptx: the kernel's.
        spec: what it computes.
        launches: its launches.
        inputs: of one batch entry, and one head of K and V.
        row_ranges: CTAs that share the query rows, or splits of the keys, where the launch plan has that argument.

    Raises:
        LaunchError: the emulator found a fault.
        PtxError: it does not know an instruction.
    """
    module = Module(ptx)
    compute = np.dtype(np.float64 if spec.dtype.compute_size == 8 else np.float32)
    q, k, v = (np.ascontiguousarray(x) for x in (inputs.q, inputs.k, inputs.v))
    _, heads, seqlen_q, _ = q.shape
    out = np.full((*q.shape[:3], spec.head_dim_v), np.nan, spec.dtype.numpy())
    lse = np.full(q.shape[:3], np.nan, compute)
    strides = tuple((array[0].size, array[0, 0].size, array.shape[3]) for array in (q, k, v, out))
    sizes = (1, heads, 1, seqlen_q, k.shape[2])
    geometry = resolve(launches, sizes, strides, 1, row_ranges=row_ranges)
    buffers = (
        *(In(_bits(array), name) for array, name in zip((q, k, v), "qkv", strict=True)),
        Out(_bits(out), "out"),
        Out(lse, "lse"),
        Scratch(np.empty(max(geometry.workspace_bytes, 1), np.uint8), "workspace"),
    )
    packed = np.frombuffer(geometry.sizes, np.int64).tolist()
    scale = default_scale(spec.head_dim)
    argument = Struct(ARGUMENT_FORMAT, *buffers[:5], 0, *packed, scale, buffers[5], geometry.row_ranges)
    memory = module.memory(*buffers)
    launched = geometry.launches(launches)
    counts = dict.fromkeys(
        (step.entry for step in launches.steps), StepCounts({}, wavefronts=0, products=0, copied=0, sectors={})
    )
    for step, grid in launched:
        report = module.launch(step.entry, grid, step.block, [argument], shared=step.shared_bytes, memory=memory)
        report.raise_for_findings()
        counts[step.entry] = _counts(report)
    memory.finish(launched[-1][0].entry)
    return Run(tuple(counts.values()), out, lse)


def _counts(report: Report) -> StepCounts:
    sectors: Counter[str] = Counter()
    for name, moved in report.traffic.items():
        sectors[name] += moved.load_sectors + moved.store_sectors
    products = sum(_products(line.site.ptx) * line.executed for line in report.lines if line.unit == "mma")
    copied = sum(line.sectors for line in report.lines if line.unit == "copy.async")
    return StepCounts(dict(report.instructions), report.shared.wavefronts, products, copied, dict(sectors))


def _products(ptx: str) -> int:
    """Multiply-adds of one matrix product instruction."""
    match = _PRODUCT.search(ptx)
    if match is None:
        return 0
    m, n, k = map(int, match.groups())
    return m * n * k * (2 if ".tf32" in ptx else 1)


def _bits(array: Array) -> Array:
    """16-bit floats as integers: the emulator moves bits, and NumPy's own bf16 is a guest type."""
    return array.view(np.uint16) if array.dtype.itemsize == 2 else array
