"""CompiledKernel, and what a loader gives it: the backend-neutral half of a launch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

from flashgen.compilation.artifact import Artifact
from flashgen.source import KernelSource
from flashgen.tile_plan import TilePlan

Strides = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Problem:
    """Sizes and strides of one call; strides count elements, of batch, head and row.

    ``device`` (``cpu``, ``cuda:1``) and ``library`` (``numpy``, ``torch``, ``cupy``) say whose tensors they are:
    a kernel runs on that device, on that library's current stream.
    """

    batch: int
    num_heads: int
    num_heads_kv: int
    seqlen_q: int
    seqlen_k: int
    q_strides: Strides
    k_strides: Strides
    v_strides: Strides
    out_strides: Strides
    device: str = "cpu"
    library: str = "numpy"

    @classmethod
    def of_sizes(cls, batch: int, num_heads: int, num_heads_kv: int, seqlen_q: int, seqlen_k: int) -> Problem:
        """One to be classified only, without tensors."""
        zero = (0, 0, 0)
        return cls(batch, num_heads, num_heads_kv, seqlen_q, seqlen_k, zero, zero, zero, zero)


class Launch(Protocol):
    """A kernel made ready for one problem: only addresses and the scale are missing."""

    def __call__(self, q: int, k: int, v: int, out: int, lse: int, seqlens_k: int, scale: float) -> None:
        """Runs the kernel, or raises LaunchError. An address of 0 means that the tensor is absent."""
        ...


class Executable(Protocol):
    """A loaded artifact."""

    def prepare(self, problem: Problem) -> Launch:
        """Makes the kernel ready for a problem."""
        ...


class Loader(Protocol):
    """Turns an artifact into something that runs on this machine.

    Attributes:
        name: as ``loader=`` takes it.
        device_kind: of the tensors that its kernels take, ``cpu`` or ``cuda``.
    """

    name: ClassVar[str]
    device_kind: ClassVar[str]

    def load(self, artifact: Artifact, source: KernelSource) -> Executable:
        """Loads it.

        Raises:
            LaunchError: this machine cannot run it.
        """
        ...


@dataclass(frozen=True)
class CompiledKernel:
    """One kernel: source, artifact, and the means to launch it.

    Attributes:
        source: the rendered file.
        artifact: what the toolchain made of it.
        executable: what the loader made of that.
        seconds: time of the stages: ``render``, ``compile``, ``load``.
    """

    source: KernelSource
    artifact: Artifact
    executable: Executable
    seconds: Mapping[str, float] = field(default_factory=dict)

    @property
    def plan(self) -> TilePlan:
        """The tile plan that it was rendered from."""
        return self.source.plan
