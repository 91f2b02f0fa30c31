"""What a CUDA kernel's hot loops are made of, beside what they need at least and what Triton makes of the problem."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

from flashgen.compilation.artifact import Artifact
from flashgen.errors import SpecError, ToolchainError
from flashgen.families import family_named
from flashgen.inspect.sass import Code, disassemble
from flashgen.inspect.sass_ideal import classified, ideal_mix, others
from flashgen.inspect.sass_paths import FMAS, Path, fma_paths, kind_of, product_paths
from flashgen.inspect.sass_triton import triton_code
from flashgen.source import KernelSource

LOCAL = ("LDL", "STL")
_WIDE = ("LDSM", "LDGSTS", "LDG", "STS", "LDS")


@dataclass(frozen=True, slots=True)
class TensorLoop:
    """The loop of a kernel on tensor cores that needs no mask: a warp's instructions for one block of keys.

    Attributes:
        counts: instructions by class, with ``other`` last.
        others: the opcodes of that, most frequent first.
        instructions: all of them.
        products: mma instructions; one of wgmma counts as the mma.m16n8k16 that a warp would need for its share.
        widths: how wide copies and loads from shared memory are: opcode with modifiers -> instructions.
        local: loads from and stores to local memory in the loop.
        registers, stack_bytes: of a thread.
    """

    counts: dict[str, int]
    others: dict[str, int]
    instructions: int
    products: int
    widths: dict[str, int]
    local: int
    registers: int
    stack_bytes: int

    @property
    def per_product(self) -> float:
        """Instructions for each mma."""
        return self.instructions / self.products


@dataclass(frozen=True, slots=True)
class FmaLoop:
    """A loop that multiplies by FMAs: one turn of it.

    Attributes:
        entry: the kernel that has it.
        instructions: all.
        fmas: FFMA or DFMA.
        widths: how wide loads from shared memory are.
    """

    entry: str
    instructions: int
    fmas: int
    widths: dict[str, int]

    @property
    def share(self) -> float:
        """Of the instructions that are FMAs."""
        return self.fmas / self.instructions


@dataclass(frozen=True, slots=True)
class SassReport:
    """The hot loops of a CUDA kernel.

    Attributes:
        ideal: class -> instructions that a tensor-core loop needs at least; empty for kernels of plain FMAs.
        ours: the tensor-core loop; None for kernels of plain FMAs.
        triton: Triton's.
        no_triton: why there is none; empty if there is, or if it was not asked for.
        spills: bytes of spill stores and loads, as ptxas reports them.
        loops: those of plain FMAs, in the order of launches and code.
        by_element: whether rows are copied by element, in loops that are not counted, see `copies_by_element`.
    """

    ideal: dict[str, int]
    ours: TensorLoop | None
    triton: TensorLoop | None
    no_triton: str
    spills: tuple[int, int]
    loops: tuple[FmaLoop, ...]
    by_element: bool = False

    @property
    def overhead(self) -> float | None:
        """Instructions beyond the ideal, over the ideal."""
        return self.ours.instructions / sum(self.ideal.values()) - 1 if self.ours else None

    def as_json(self) -> dict[str, Any]:
        """Plain values; the keys are stable and documented in docs/cli.md."""
        tensor = None
        if self.ours:
            tensor = {
                "ideal": {**self.ideal, "total": sum(self.ideal.values())},
                "flashgen": {**_loop_json(self.ours), "overhead": self.overhead},
                "triton": _loop_json(self.triton) if self.triton else None,
                "no_triton": self.no_triton,
                "copies_by_element": self.by_element,
            }
        stores, loads = self.spills
        return {
            "spill_store_bytes": stores,
            "spill_load_bytes": loads,
            "tensor_loop": tensor,
            "fma_loops": [{**asdict(loop), "share": loop.share} for loop in self.loops],
        }


def sass_report(source: KernelSource, artifact: Artifact, *, with_triton: bool = True) -> SassReport:
    """Looks at the hot loops of a built kernel.

    Args:
        source: a rendered CUDA kernel.
        artifact: what was made of it.
        with_triton: compile Triton's kernel, too, where Triton is installed and has the tile.

    Raises:
        SpecError: it is no CUDA kernel, or one whose loop has no ideal to stand beside.
        ToolchainError: there is no nvdisasm, or no machine code.
    """
    if source.target.kind != "cuda":
        raise SpecError(f"SASS is what GPUs of NVIDIA execute, and {source.target} is no CUDA target; try sm_80.")
    if family_named(source.plan.family).algorithm == "decode":
        raise SpecError(
            f"{source.plan.family} is as fast as memory gives it K and V, so its instructions have no ideal count; "
            "flashgen io counts these bytes."
        )
    entries = kernel_code(source, artifact)
    reported = artifact.report.get("kernels", {}).values()
    stores, loads = (sum(kernel[f"spill_{kind}_bytes"] for kernel in reported) for kind in ("store", "load"))
    code = entries[next(iter(entries))]
    if not product_paths(code):
        loops = tuple(_fma_loop(entry, path) for entry, code in entries.items() for path in fma_paths(code))
        return SassReport({}, None, None, "", (stores, loads), loops)
    ideal = ideal_mix(source.spec, source.plan, source.target)
    other, why = triton_code(source.spec, source.plan, source.target) if with_triton else (None, "")
    ours, theirs = tensor_loop(code, ideal), tensor_loop(other, ideal) if other else None
    return SassReport(ideal, ours, theirs, why, (stores, loads), (), copies_by_element(source))


def copies_by_element(source: KernelSource) -> bool:
    """Whether a kernel on tensor cores copies its rows by element: they are no whole chunks of 16 bytes.

    It does so in loops of their own, within the one that multiplies, whose instructions nobody counts here; and all
    of its blocks take the path that has a mask.
    """
    row_bytes = (source.spec.head_dim * source.spec.dtype.size, source.spec.head_dim_v * source.spec.dtype.size)
    return source.plan.family == "cuda_fa2_mma" and any(size % 16 for size in row_bytes)


def kernel_code(source: KernelSource, artifact: Artifact) -> dict[str, Code]:
    """The code of each launch, in stream order.

    Raises:
        ToolchainError: there is no nvdisasm, or no machine code.
    """
    cubin = artifact.paths.get("cubin")
    if cubin is None:
        raise ToolchainError(f"There is no machine code for {source.target}: the compiler at hand only made PTX.")
    functions = disassemble(cubin)
    if functions is None:
        raise ToolchainError("SASS needs nvdisasm, and there is none. Install it: pip install 'flashgen[inspect]'")
    steps = family_named(source.plan.family).launch_plan(source.spec, source.plan).steps
    return {step.entry: functions[step.entry] for step in steps}


def tensor_loop(code: Code, classes: dict[str, int]) -> TensorLoop:
    """The hot path of a function that uses tensor cores, by the classes of an ideal mix."""
    path = product_paths(code)[0]
    return TensorLoop(
        counts=classified(path, classes),
        others=others(path, classes),
        instructions=len(path.opcodes),
        products=path.products,
        widths=_widths(path, _WIDE),
        local=path.count(*LOCAL),
        registers=code.registers,
        stack_bytes=code.stack_bytes,
    )


def _fma_loop(entry: str, path: Path) -> FmaLoop:
    return FmaLoop(entry, len(path.opcodes), path.count(*FMAS), _widths(path, ("LDS",)))


def _widths(path: Path, kinds: tuple[str, ...]) -> dict[str, int]:
    return dict(Counter(opcode for opcode in path.opcodes if kind_of(opcode) in kinds).most_common())


def _loop_json(loop: TensorLoop) -> dict[str, Any]:
    return {**asdict(loop), "per_product": loop.per_product}
