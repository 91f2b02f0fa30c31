"""What `flashgen io` reports: ledgers with their three columns, rooflines, and the paper's figures."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from flashgen.errors import BudgetError, SpecError
from flashgen.families import decoding, serving
from flashgen.inspect.io_counted import Count, Counted, counted
from flashgen.inspect.io_kernel import kernel_ledger
from flashgen.inspect.io_ledger import Direction, Ledger, Sizes, Transfer
from flashgen.inspect.io_measured import Measured, measured
from flashgen.inspect.io_paper import PAPER_ALGORITHMS, PRINTED, comparison, paper_ledger
from flashgen.inspect.io_roofline import PEAKS, Verdict, gpus, verdicts
from flashgen.inspect.io_sweep import LARGEST, Sweep, sweep
from flashgen.runtime.device import limits_of
from flashgen.spec import AttentionSpec, Causal
from flashgen.target import PRESETS, Target
from flashgen.tile_plan import TilePlan
from flashgen.tiling import plan_tiles


@dataclass(frozen=True, slots=True)
class IoRequest:
    """What is asked.

    Attributes:
        spec, sizes, target: what, how large, where.
        algorithms: which.
        convention: ``kernel`` or ``paper``.
        sram_bytes: the budget; None for the families' own tiles (kernel only).
        backward: with the backward pass (paper only).
        every_gpu: a roofline for each GPU that is known, and not for the target.
        count: who counts: ``auto``, ``emulator``, ``executor`` or ``none`` (kernel only).
    """

    spec: AttentionSpec
    sizes: Sizes
    target: Target
    algorithms: tuple[str, ...]
    convention: str
    sram_bytes: int | None
    backward: bool = False
    every_gpu: bool = False
    count: str = "auto"

    def check(self) -> None:
        """Refuses what has no answer.

        Raises:
            SpecError: saying what to change.
        """
        if self.convention == "kernel" and self.backward:
            raise SpecError("There is no backward kernel to count. The paper's can be: --convention paper --backward.")
        if self.convention == "paper" and self.spec.causal is not Causal.NONE:
            raise SpecError("The paper's algorithms have no mask. Leave out --causal, or use --convention kernel.")

    def budget(self) -> int:
        """The budget, which the paper's rule cannot do without.

        Raises:
            SpecError: there is none.
        """
        if self.sram_bytes is None:
            raise SpecError("The paper's rule needs an on-chip memory: --sram 192KiB is an A100 multiprocessor's.")
        return self.sram_bytes


@dataclass(frozen=True, slots=True)
class Entry:
    """One algorithm's ledger with the other two columns, and its rooflines by target."""

    ledger: Ledger
    counted: Counted
    measured: Measured
    rooflines: tuple[tuple[Target, tuple[Verdict, ...]], ...]

    def count_of(self, transfer: Transfer) -> Count | None:
        """What was counted for a transfer, perhaps together with others; None if nothing was."""
        return next((count for count in self.counted.counts or () if transfer.key in count.keys), None)

    def counted_total(self, direction: Direction) -> int | None:
        """Bytes that were counted in a direction, all heads; None if nothing was."""
        if self.counted.counts is None:
            return None
        found = (count.bytes_per_head for count in self.counted.counts if count.direction == direction)
        return self.ledger.heads * sum(found)


@dataclass(frozen=True, slots=True)
class Report:
    """Everything that was asked for.

    Attributes:
        request: the question.
        entries: one for each algorithm that has an answer.
        skipped: algorithms without one, and why.
        paper: the printed figures beside ours, where the request has their setting.
    """

    request: IoRequest
    entries: tuple[Entry, ...]
    skipped: tuple[tuple[str, str], ...]
    paper: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """For JSON; the keys are stable and documented in docs/cli.md."""
        return {
            **_request_dict(self.request),
            "ledgers": [_entry_dict(entry) for entry in self.entries],
            "skipped": [{"algorithm": algorithm, "reason": reason} for algorithm, reason in self.skipped],
            "paper": list(self.paper),
        }


def usual_algorithms(spec: AttentionSpec, target: Target, sizes: Sizes, convention: str) -> tuple[str, ...]:
    """What is compared unless something else is asked for: the papers', and decode where builds would take it."""
    family = decoding(spec, target) if convention == "kernel" else None
    if family is None or sizes.group * sizes.seqlen_q > family.most_packed_rows(spec, target, sizes.group):
        return PAPER_ALGORITHMS
    return (*PAPER_ALGORITHMS, "decode")


def make_report(request: IoRequest) -> Report:
    """Answers a request.

    Raises:
        SpecError: the request makes no sense, or no algorithm of it can be had.
        BudgetError: no tile fits.
    """
    request.check()
    entries, skipped = [], []
    for algorithm in request.algorithms:
        try:
            entries.append(_entry(request, algorithm))
        except (SpecError, BudgetError) as error:
            if len(request.algorithms) == 1:
                raise
            skipped.append((algorithm, str(error)))
            refusal = error
    if not entries:
        raise refusal
    return Report(request, tuple(entries), tuple(skipped), _paper_lines(request, entries))


def sweep_report(request: IoRequest) -> Sweep:
    """The request's total bytes at one budget after the other.

    Raises:
        SpecError: as `make_report`.
    """
    request.check()
    kernel = request.convention == "kernel"
    able = tuple(a for a in request.algorithms if (_is_served(request, a) if kernel else a in PAPER_ALGORITHMS))

    def ledger_of(algorithm: str, budget: int) -> Ledger:
        if not kernel:
            return paper_ledger(algorithm, request.spec, request.sizes, budget, request.backward)
        return _kernel(request, algorithm, budget)[1]

    if not able:
        ledger_of(request.algorithms[0], LARGEST)  # raises, and says why
    largest = limits_of(request.target).onchip_bytes if kernel else LARGEST
    return sweep(ledger_of, able, request.spec, request.sizes, largest=largest, backward=request.backward)


def sweep_dict(request: IoRequest, found: Sweep) -> dict[str, Any]:
    """A sweep for JSON."""
    return {
        **_request_dict(request),
        "sweep": {
            "sram_bytes": list(found.budgets),
            "total_bytes": {name: list(row) for name, row in found.bytes.items()},
            "line_bytes": list(found.line),
            "line": f"{found.line_factor} N^2 d^2 / M",
            "floor_bytes": found.floor,
        },
    }


def _entry(request: IoRequest, algorithm: str) -> Entry:
    spec, sizes, target = request.spec, request.sizes, request.target
    if request.convention == "paper":
        ledger = paper_ledger(algorithm, spec, sizes, request.budget(), request.backward)
        why = "nothing runs the paper's own tile; --convention kernel counts what runs"
        return Entry(ledger, Counted(None, reason=why), Measured(reason=why), tuple(_rooflines(request, ledger)))
    plan, ledger = _kernel(request, algorithm, request.sram_bytes)
    cores = limits_of(target).cores or 1
    found = counted(spec, plan, target, sizes, ledger, cores=cores, method=request.count)
    seen = (
        Measured(reason="not asked for") if request.count == "none" else measured(spec, plan, target, sizes, algorithm)
    )
    return Entry(ledger, found, seen, tuple(_rooflines(request, ledger)))


def _kernel(request: IoRequest, algorithm: str, budget: int | None) -> tuple[TilePlan, Ledger]:
    spec, target = request.spec, request.target
    limits = limits_of(target)
    plan = plan_tiles(serving(spec, target, algorithm)[0], spec, target, limits, sram_bytes=budget)
    return plan, kernel_ledger(spec, plan, target, request.sizes, limits.cores or 1)


def _rooflines(request: IoRequest, ledger: Ledger) -> Iterator[tuple[Target, tuple[Verdict, ...]]]:
    for target in gpus() if request.every_gpu else (request.target,):
        yield target, verdicts(ledger.flops, ledger.total, target, request.spec.dtype)


def _paper_lines(request: IoRequest, entries: list[Entry]) -> tuple[str, ...]:
    if request.convention != "paper":
        return ()
    if PRINTED.matches(request.spec, request.sizes, request.budget(), request.backward):
        return tuple(comparison({e.ledger.algorithm: e.ledger for e in entries}, request.spec, request.sizes))
    return (
        f"The paper prints figures for N = {PRINTED.n}, d = {PRINTED.d}, {PRINTED.heads} heads, batch {PRINTED.batch}, "
        f"16 bits, forward and backward: --n {PRINTED.n} --d {PRINTED.d} --heads {PRINTED.heads} "
        f"--batch {PRINTED.batch} --sram 192KiB --backward.",
    )


def _is_served(request: IoRequest, algorithm: str) -> bool:
    try:
        return bool(serving(request.spec, request.target, algorithm))
    except SpecError:
        return False


def _request_dict(request: IoRequest) -> dict[str, Any]:
    spec, sizes = request.spec, request.sizes
    return {
        "convention": request.convention,
        "target": str(request.target),
        "dtype": spec.dtype.name,
        "d": spec.head_dim,
        "dv": spec.head_dim_v,
        "causal": spec.causal.as_json,
        "n": sizes.seqlen_q,
        "nk": sizes.seqlen_k,
        "heads": sizes.heads,
        "heads_kv": sizes.heads_kv,
        "batch": sizes.batch,
        "backward": request.backward,
        "sram_bytes": request.sram_bytes,
    }


def _alone(entry: Entry, transfer: Transfer) -> int | None:
    """What was counted for a transfer and nothing else."""
    count = entry.count_of(transfer)
    return None if count is None or len(count.keys) > 1 else count.bytes_per_head * entry.ledger.heads


def _entry_dict(entry: Entry) -> dict[str, Any]:
    return {
        **entry.ledger.as_dict(),
        "transfers": [
            {
                "phase": transfer.phase,
                "step": transfer.step,
                "matrix": transfer.matrix,
                "direction": transfer.direction,
                "formula": transfer.formula,
                "elements_per_head": transfer.elements,
                "bytes": transfer.bytes_per_head * entry.ledger.heads,
                "counted_bytes": _alone(entry, transfer),
            }
            for transfer in entry.ledger.transfers
        ],
        "counted": [
            {
                "transfers": [{"step": key[1], "matrix": key[2]} for key in count.keys],
                "direction": count.direction,
                "bytes": count.bytes_per_head * entry.ledger.heads,
            }
            for count in entry.counted.counts or ()
        ],
        "counted_by": entry.counted.by or None,
        "counted_needs": entry.counted.reason or None,
        "measured_read_bytes": entry.measured.read,
        "measured_written_bytes": entry.measured.written,
        "measured_by": entry.measured.by or None,
        "measured_needs": entry.measured.reason or None,
        "rooflines": [
            {
                "target": str(target),
                "device": PRESETS[target].device,
                "source": PEAKS[target].source if target in PEAKS else None,
                "verdicts": [asdict(verdict) for verdict in found],
            }
            for target, found in entry.rooflines
        ],
    }
