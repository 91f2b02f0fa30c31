"""Closed forms of the paper's own algorithms, and its printed figures beside them.

The convention is the paper's: the rule's tile as it is, matrices (O and the gradients too) in the dtype, l and m
in 4 bytes, no mask, no dropout, every block loaded and stored as Algorithms 0, 1, 3 and 4 of FlashAttention
(arXiv 2205.14135 v2) and Algorithms 1 and 2 of FlashAttention-2 (arXiv 2307.08691) say. The zeros that O, dQ,
dK and dV are born with are not counted; `initial_zeros` says how much they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from flashgen.errors import SpecError
from flashgen.inspect.io_ledger import Direction, Ledger, Phase, Quantity, Sizes, Transfer
from flashgen.spec import AttentionSpec
from flashgen.tiling import m4d_rule

STATISTIC_BYTES = 4
_STATISTICS = frozenset({"l", "m", "L", "D"})


@dataclass(frozen=True, slots=True)
class PrintedFigure:
    """Figure 2, left, of arXiv 2205.14135 v2: GPT-2 medium, forward and backward, on an A100.

    Attributes:
        gigabytes: HBM read and written, as printed, in 10^9 bytes, by algorithm.
        n, d, heads, batch: its setting.
        sram_bytes: on-chip memory of one multiprocessor of an A100.
    """

    gigabytes: tuple[tuple[str, float], ...] = (("standard", 40.3), ("fa1", 4.4))
    n: int = 1024
    d: int = 64
    heads: int = 16
    batch: int = 64
    sram_bytes: int = 192 * 1024

    def matches(self, spec: AttentionSpec, sizes: Sizes, sram_bytes: int, backward: bool) -> bool:
        """Whether a request has the figure's setting."""
        asked = (sizes.seqlen_q, sizes.seqlen_k, spec.head_dim, spec.head_dim_v, sizes.heads, sizes.batch)
        ours = (self.n, self.n, self.d, self.d, self.heads, self.batch)
        return asked == ours and spec.dtype.size == 2 and sram_bytes == self.sram_bytes and backward


PRINTED = PrintedFigure()


def paper_ledger(algorithm: str, spec: AttentionSpec, sizes: Sizes, sram_bytes: int, backward: bool) -> Ledger:
    """The ledger of the paper's algorithm at the rule's tile for ``sram_bytes``.

    Args:
        algorithm: one of `PAPER_ALGORITHMS`.
        spec: head dims and dtype; its mask is not looked at.
        sizes: the problem.
        sram_bytes: on-chip memory, M times the size of an element.
        backward: whether the backward pass follows.

    Raises:
        SpecError: no paper cuts the algorithm into blocks by the rule.
    """
    if algorithm not in _PASSES:
        raise SpecError(f"The papers have no block rule for {algorithm}. --convention kernel counts its kernel.")
    rule = m4d_rule(spec.head_dim, sram_bytes, spec.dtype.size)
    count = _Counts(spec, sizes, -(-sizes.seqlen_q // rule.br), -(-sizes.seqlen_k // rule.bc))
    forward, backwards = _PASSES[algorithm]
    transfers = [*forward(count), *(backwards(count) if backward else ())]
    pairs = sizes.batch * sizes.heads * sizes.seqlen_q * sizes.seqlen_k
    remarks = [
        f"N = {sizes.seqlen_q:,}, M = {rule.m_elements:,} elements: Bc = ceil(M / 4d) = {rule.bc}, "
        f"Br = min(Bc, d) = {rule.br}, Tr = {count.tr.value}, Tc = {count.tc.value}"
    ]
    if algorithm == "standard":
        remarks = [f"N = {sizes.seqlen_q:,}"]
    if algorithm == "fa2":
        remarks.append("The rule was made for fa1's order of loops; with the queries outside, a large Br saves more.")
    return Ledger(
        algorithm,
        "",
        sizes.batch * sizes.heads,
        rule.br,
        rule.bc,
        tuple(transfers),
        pairs * _flops_of_a_pair(algorithm, spec, backward),
        tuple(remarks),
    )


def initial_zeros(spec: AttentionSpec, sizes: Sizes, backward: bool) -> int:
    """Bytes of the zeros of Algorithm 1, line 2 (O, l, m) and Algorithm 4, line 5 (dQ, dK, dV), all heads."""
    size, n, nk = spec.dtype.size, sizes.seqlen_q, sizes.seqlen_k
    zeros = n * spec.head_dim_v * size + 2 * n * STATISTIC_BYTES
    if backward:
        zeros += (n * spec.head_dim + nk * (spec.head_dim + spec.head_dim_v)) * size
    return zeros * sizes.batch * sizes.heads


def comparison(ledgers: dict[str, Ledger], spec: AttentionSpec, sizes: Sizes) -> list[str]:
    """The printed figures beside ours, each with what accounts for the difference."""
    explain = {"standard": _why_standard, "fa1": _why_fa1}
    return [
        f"{algorithm}: {printed} GB printed, {ledgers[algorithm].total / 1e9:.2f} GB by this count. "
        + explain[algorithm](ledgers[algorithm], printed, spec, sizes)
        for algorithm, printed in PRINTED.gigabytes
        if algorithm in ledgers
    ]


def _why_standard(ledger: Ledger, printed: float, spec: AttentionSpec, sizes: Sizes) -> str:
    matrix = PRINTED.n**2 * spec.dtype.size * ledger.heads
    square = sum(transfer.elements == PRINTED.n**2 for transfer in ledger.transfers)
    return (
        f"The algorithms move {square} matrices of N x N, {matrix / 1e9:.2f} GB each; the difference is "
        f"{(printed * 1e9 - ledger.total) / matrix:.1f} more. The printed program also masks and drops out, forward "
        "and backward; in kernels of their own, each of these reads and writes such a matrix."
    )


def _why_fa1(ledger: Ledger, printed: float, spec: AttentionSpec, sizes: Sizes) -> str:
    zeros = initial_zeros(spec, sizes, backward=True)
    a_round_more = paper_ledger("fa1", spec, sizes, PRINTED.sram_bytes * 3 // 4, backward=True)
    return (
        f"No M gives the printed figure: Tc is a whole number, and Tc = 4 gives {a_round_more.total / 1e9:.2f} GB. "
        "Not counted are the zeros that O, l, m, dQ, dK and dV start with; writing them too makes it "
        f"{(ledger.total + zeros) / 1e9:.2f} GB, so that the printed figure lies in between."
    )


def _flops_of_a_pair(algorithm: str, spec: AttentionSpec, backward: bool) -> int:
    """Forward: S and O. Backward: dV, dP, dQ, dK, and S again where it was not stored."""
    forward = 2 * (spec.head_dim + spec.head_dim_v)
    if not backward:
        return forward
    again = 0 if algorithm == "standard" else 2 * spec.head_dim
    return forward + 2 * (2 * spec.head_dim_v + 2 * spec.head_dim) + again


class _Counts:
    """Quantities in the paper's symbols, and transfers made of them."""

    def __init__(self, spec: AttentionSpec, sizes: Sizes, tr: int, tc: int) -> None:
        same, square = sizes.seqlen_q == sizes.seqlen_k, spec.head_dim == spec.head_dim_v
        self.n, self.nk = Quantity(sizes.seqlen_q, "N"), Quantity(sizes.seqlen_k, "N" if same else "Nk")
        self.d, self.dv = Quantity(spec.head_dim, "d"), Quantity(spec.head_dim_v, "d" if square else "dv")
        self.tr, self.tc = Quantity(tr, "Tr"), Quantity(tc, "Tc")
        self.size = spec.dtype.size
        self.dims = {"Q": self.d, "K": self.d, "V": self.dv, "O": self.dv}
        self.rows = {"Q": self.n, "O": self.n, "K": self.nk, "V": self.nk}

    def move(
        self, phase: Phase, step: str, direction: Direction, matrices: str, times: Quantity | None = None
    ) -> Iterator[Transfer]:
        """Transfers of several matrices, separated by blanks; ``dQ`` is shaped as ``Q``."""
        for matrix in matrices.split(" "):
            amount = self._shape(matrix)
            if times is not None:
                amount = times * amount
            size = STATISTIC_BYTES if matrix in _STATISTICS else self.size
            yield Transfer(step, matrix, direction, amount.value, size, amount.symbol, phase)

    def _shape(self, matrix: str) -> Quantity:
        if matrix in _STATISTICS:
            return self.n
        name = matrix.removeprefix("d")
        return self.n * self.nk if name in ("S", "P") else self.rows[name] * self.dims[name]


def _standard_forward(c: _Counts) -> Iterator[Transfer]:
    yield from c.move("forward", "line 1", "read", "Q K")
    yield from c.move("forward", "line 1", "write", "S")
    yield from c.move("forward", "line 2", "read", "S")
    yield from c.move("forward", "line 2", "write", "P")
    yield from c.move("forward", "line 3", "read", "P V")
    yield from c.move("forward", "line 3", "write", "O")


def _standard_backward(c: _Counts) -> Iterator[Transfer]:
    for step, reads, write in (
        ("line 1", "P dO", "dV"),
        ("line 2", "dO V", "dP"),
        ("line 3", "P dP", "dS"),
        ("line 4", "dS K", "dQ"),
        ("line 5", "dS Q", "dK"),
    ):
        yield from c.move("backward", step, "read", reads)
        yield from c.move("backward", step, "write", write)


def _fa1_forward(c: _Counts) -> Iterator[Transfer]:
    yield from c.move("forward", "line 6", "read", "K V")
    yield from c.move("forward", "line 8", "read", "Q O l m", c.tc)
    yield from c.move("forward", "line 12", "write", "O", c.tc)
    yield from c.move("forward", "line 13", "write", "l m", c.tc)


def _fa1_backward(c: _Counts) -> Iterator[Transfer]:
    yield from c.move("backward", "line 7", "read", "K V")
    yield from c.move("backward", "line 10", "read", "Q O dO dQ l m", c.tc)
    yield from c.move("backward", "line 21", "write", "dQ", c.tc)
    yield from c.move("backward", "line 24", "write", "dK dV")


def _fa2_forward(c: _Counts) -> Iterator[Transfer]:
    yield from c.move("forward", "outer loop", "read", "Q")
    yield from c.move("forward", "inner loop", "read", "K V", c.tr)
    yield from c.move("forward", "outer loop", "write", "O L")


def _fa2_backward(c: _Counts) -> Iterator[Transfer]:
    yield from c.move("backward", "before", "read", "dO O")
    yield from c.move("backward", "before", "write", "D")
    yield from c.move("backward", "outer loop", "read", "K V")
    yield from c.move("backward", "inner loop", "read", "Q dO dQ L D", c.tc)
    yield from c.move("backward", "inner loop", "write", "dQ", c.tc)
    yield from c.move("backward", "outer loop", "write", "dK dV")


_PASSES = {
    "standard": (_standard_forward, _standard_backward),
    "fa1": (_fa1_forward, _fa1_backward),
    "fa2": (_fa2_forward, _fa2_backward),
}
PAPER_ALGORITHMS = tuple(_PASSES)
