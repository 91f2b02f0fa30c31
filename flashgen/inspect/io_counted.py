"""The counted column: the same bytes, found by running the algorithm."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from flashgen.errors import ToolchainError
from flashgen.inspect.io_kernel import row_ranges
from flashgen.inspect.io_ledger import Direction, Key, Ledger, Sizes
from flashgen.inspect.trace import Run
from flashgen.inspect.trace_run import execute
from flashgen.spec import AttentionSpec
from flashgen.target import Target
from flashgen.tile_plan import TilePlan

METHODS = ("auto", "emulator", "executor", "none")

_EMULATOR = "the emulator, which ran the compiled kernel"
_EXECUTOR = "the reference executor, which takes the kernel's steps one by one"

# Up to these sizes a run of one head takes about a second.
MAX_EXECUTOR_PAIRS = 1 << 21
MAX_EMULATOR_WORK = 1 << 27  # pairs of a query and a key, times d + dv


@dataclass(frozen=True, slots=True)
class Count:
    """Bytes of one head that were counted together.

    Attributes:
        keys: the ledger's entries that they belong to; several if they share an array that is counted whole, none
            if the ledger does not know of them.
        direction: ``read`` or ``write``.
        bytes_per_head: how many.
    """

    keys: tuple[Key, ...]
    direction: Direction
    bytes_per_head: int


@dataclass(frozen=True, slots=True)
class Counted:
    """What a run moved, or why there is no such run.

    Attributes:
        counts: None if nothing was run.
        by: who counted, for people; an empty text if nobody did.
        reason: what is missing; an empty text if nothing is.
    """

    counts: tuple[Count, ...] | None
    by: str = ""
    reason: str = ""


def counted(
    spec: AttentionSpec,
    plan: TilePlan,
    target: Target,
    sizes: Sizes,
    ledger: Ledger,
    *,
    cores: int = 1,
    method: str = "auto",
) -> Counted:
    """Runs one head of the plan, or the heads that are packed, and counts what they move; all are alike.

    Args:
        spec: what is computed.
        plan: the tile.
        target: whose kernel is followed.
        sizes: the problem.
        ledger: the closed form, for what there is to count.
        cores: multiprocessors of the device.
        method: ``emulator`` (the compiled kernel; CUDA only), ``executor`` (the reference executor), ``none``, or
            ``auto``: the emulator where it can be had, else the executor.

    Raises:
        ToolchainError: the emulator was asked for and lacks a compiler.
    """
    if method == "none":
        return Counted(None, reason="not asked for")
    ranges = row_ranges(spec, plan, sizes, cores) if target.kind == "cuda" else 1
    heads = _packed(ledger, sizes)
    why = _why_not_emulated(spec, target, sizes, heads)
    if method == "emulator" or (method == "auto" and not why):
        if why:
            return Counted(None, reason=why)
        try:
            return _by_emulator(spec, plan, target, sizes, ledger, ranges)
        except ToolchainError as error:
            if method == "emulator":
                raise
            why = f"the emulator was not to be had: {error}"
    return _by_executor(spec, plan, sizes, ranges, heads, why if target.kind == "cuda" else "")


def _packed(ledger: Ledger, sizes: Sizes) -> int:
    """Heads that one unit of the ledger stands for."""
    return sizes.batch * sizes.heads // max(ledger.heads, 1)


def _why_not_emulated(spec: AttentionSpec, target: Target, sizes: Sizes, heads: int) -> str:
    if target.kind != "cuda":
        return "the emulator runs CUDA kernels only"
    if heads * sizes.seqlen_q * sizes.seqlen_k * (spec.head_dim + spec.head_dim_v) > MAX_EMULATOR_WORK:
        return "too large for the emulator; use a smaller --n"
    return ""


def _by_emulator(
    spec: AttentionSpec, plan: TilePlan, target: Target, sizes: Sizes, ledger: Ledger, ranges: int
) -> Counted:
    from flashgen.inspect.io_emulated import emulate_head, place_of, random_head

    heads = _packed(ledger, sizes)
    q, k, v = random_head(spec, sizes, heads=heads)
    moved = emulate_head(spec, plan, target, q, k, v, lse=sizes.lse, row_ranges=ranges, heads=heads).traffic
    keys: dict[tuple[int, str, Direction], list[Key]] = defaultdict(list)
    for transfer in ledger.transfers:
        keys[place_of(transfer, ledger)].append(transfer.key)
    counts = tuple(
        Count(tuple(keys.get(place, ())), place[-1], moved.get(place, 0)) for place in dict.fromkeys([*keys, *moved])
    )
    return Counted(tuple(count for count in counts if count.keys or count.bytes_per_head), by=_EMULATOR)


def _by_executor(spec: AttentionSpec, plan: TilePlan, sizes: Sizes, ranges: int, heads: int, note: str) -> Counted:
    if heads * sizes.seqlen_q * sizes.seqlen_k > MAX_EXECUTOR_PAIRS:
        limit = f"at most {MAX_EXECUTOR_PAIRS:,} pairs of a query and a key; use a smaller --n"
        return Counted(None, reason=f"needs {limit}")
    from flashgen.inspect.io_emulated import random_head

    run = Run(spec, plan, *random_head(spec, sizes, heads=heads), lse=sizes.lse, keep_values=False, packed=heads)
    execute(run, ranges)
    counts = tuple(Count((key,), _direction(key), size) for key, size in run.bytes_by_key().items())
    return Counted(counts, by=_EXECUTOR, reason=note)


def _direction(key: Key) -> Direction:
    return "read" if key[-1] == "read" else "write"
