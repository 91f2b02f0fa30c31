"""Bytes against on-chip memory: the ledger at one budget after the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from flashgen.errors import BudgetError
from flashgen.inspect.io_ledger import Ledger, Sizes
from flashgen.spec import AttentionSpec

SMALLEST, LARGEST = 1024, 4 * 1024 * 1024
_PER_OCTAVE = 6


@dataclass(frozen=True, slots=True)
class Sweep:
    """Bytes of each algorithm at each budget.

    Attributes:
        budgets: on-chip bytes, ascending.
        bytes: by algorithm, one number for each budget; None where no tile fits.
        line: 12 (with the backward pass 32) N^2 d^2 / M elements in bytes: what fa1 tends to as M shrinks.
        line_factor: that 12 or 32.
        floor: bytes of reading Q, K and V and writing O once.
    """

    budgets: tuple[int, ...]
    bytes: Mapping[str, tuple[int | None, ...]]
    line: tuple[float, ...]
    line_factor: int
    floor: int


def sweep(
    ledger_of: Callable[[str, int], Ledger],
    algorithms: tuple[str, ...],
    spec: AttentionSpec,
    sizes: Sizes,
    *,
    largest: int = LARGEST,
    backward: bool = False,
) -> Sweep:
    """Computes ledgers at budgets a sixth of an octave apart.

    Args:
        ledger_of: the ledger of an algorithm at a budget; may raise BudgetError.
        algorithms: which.
        spec: head dims and dtype.
        sizes: the problem.
        largest: the last budget; what the device has.
        backward: whether the ledgers hold the backward pass.
    """
    budgets = _budgets(min(largest, LARGEST))
    found = {name: tuple(_total(ledger_of, name, budget) for budget in budgets) for name in algorithms}
    n, nk, d, dv = sizes.seqlen_q, sizes.seqlen_k, spec.head_dim, spec.head_dim_v
    # fa1 moves 3 (backward: 5 more) matrices of N x d in each of its Tc = 4 d N / M rounds.
    factor = 32 if backward else 12
    area = n * nk * d * (d + 2 * dv) / 3 if not backward else n * nk * d * (4 * d + 4 * dv) / 8
    heads = sizes.batch * sizes.heads
    line = tuple(factor * area * spec.dtype.size**2 / budget * heads for budget in budgets)
    floor = (n * heads + nk * sizes.batch * sizes.heads_kv) * (d + dv) * spec.dtype.size
    return Sweep(budgets, found, line, factor, floor)


def _budgets(largest: int) -> tuple[int, ...]:
    budgets, step = [], 0
    while (budget := round(SMALLEST * 2 ** (step / _PER_OCTAVE))) <= largest:
        budgets.append(budget)
        step += 1
    return tuple(budgets)


def _total(ledger_of: Callable[[str, int], Ledger], algorithm: str, budget: int) -> int | None:
    try:
        return ledger_of(algorithm, budget).total
    except BudgetError:
        return None
