"""One command for any machine with an NVIDIA GPU and torch: is it right there, and how fast?

    python benchmarks/gpu/run.py                      everything, within 9 minutes
    python benchmarks/gpu/run.py --dry-run            only compile, no GPU needed
    python benchmarks/gpu/run.py --dry-run --target sm_90 --pack DIR
                                                      compile ahead, for a machine without a compiler

It writes gpu-report.json and gpu-report.md into --out (default: $OUT, else ./gpu-report), and exits with 5
if a check failed.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1])]

from kernels import Pack, Wanted, decoding, grid, timed  # noqa: E402 (after the path)

from flashgen.families import FAMILIES  # noqa: E402
from flashgen.target import Target, parse_target  # noqa: E402

CUDA_FAMILIES = tuple(family.name for family in FAMILIES if family.kind == "cuda")
BUDGET_SECONDS = 510.0  # of 9 minutes; the rest is for start-up and for writing the report
SANITIZER_SECONDS = 40.0
FAILED = 5


class Clock:
    """What is left of the budget."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    def left(self) -> float:
        """Seconds."""
        return self._end - time.monotonic()

    def past(self, reserve: float) -> Callable[[], bool]:
        """Tells when less than ``reserve`` seconds are left."""
        return lambda: self.left() < reserve


def main() -> int:
    arguments = _arguments()
    families = tuple(arguments.families.split(",")) if arguments.families else CUDA_FAMILIES
    target = _target(arguments)
    pack = Pack(arguments.pack, target)
    if arguments.sanitized_calls:
        return _sanitized_calls(pack, families)
    report: dict[str, Any] = {"target": str(target), "families": families}
    report["compiled"] = _compile(pack, families)
    if not arguments.dry_run:
        _on_device(report, pack, families, Clock(arguments.seconds), arguments.pack)
    _write(report, arguments.out)
    failed = [name for name, outcome in report.get("checks", {}).items() if outcome != "passed"]
    sanitizer = report.get("sanitizer", {})
    unclean = [tool for tool, outcome in sanitizer.items() if isinstance(outcome, dict) and outcome["exit"]]
    return FAILED if failed or unclean or report["compiled"]["complaints"] else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dry-run", action="store_true", help="compile everything, run nothing")
    parser.add_argument("--target", default="auto", help="auto: this GPU; with --dry-run: sm_90")
    parser.add_argument("--pack", type=Path, default=HERE / "pack", help="folder of compiled kernels")
    parser.add_argument("--out", type=Path, default=Path(os.environ.get("OUT", "gpu-report")))
    parser.add_argument("--seconds", type=float, default=BUDGET_SECONDS, help="time for all of it")
    parser.add_argument("--families", default="", help="comma-separated; default: all CUDA families")
    parser.add_argument("--sanitized-calls", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def _target(arguments: argparse.Namespace) -> Target:
    if arguments.target != "auto":
        return parse_target(arguments.target)
    if arguments.dry_run:
        return parse_target("sm_90")
    from flashgen.runtime.cuda_device import gpu_target

    return gpu_target()


def _compile(pack: Pack, families: tuple[str, ...]) -> dict[str, Any]:
    complaints, kernels = [], dict.fromkeys((*grid(families), *timed(families), *decoding(families)))
    for wanted in kernels:
        report = pack.ensure(wanted)
        for entry, found in report["kernels"].items():
            if found["stack_bytes"] > 64:  # 64: what the fullest tensor-core kernels keep in local memory
                complaints.append(f"{wanted} {entry}: {found}")
        complaints += [f"{wanted}: {line}" for line in report["warnings"]]
    seconds = pack.seconds
    print(f"compiled {len(seconds)} of {len(kernels)} kernels for {pack.target}; the rest lay in {pack.directory}")
    return {
        "kernels": len(kernels),
        "compiled_now": len(seconds),
        "median_seconds": round(statistics.median(seconds), 3) if seconds else None,
        "complaints": complaints,
    }


def _on_device(report: dict[str, Any], pack: Pack, families: tuple[str, ...], clock: Clock, folder: Path) -> None:
    import torch
    from checks import behaviour, conformance
    from sanitize import sanitize
    from timing import measure, peaks

    properties = torch.cuda.get_device_properties(0)
    report["device"] = {
        "name": properties.name, "sms": properties.multi_processor_count, "torch": torch.__version__,
        "memory": properties.total_memory,
    }  # fmt: skip
    report["checks"] = _run_checks(behaviour(pack, families), clock.past(330))
    report["checks"] |= _run_checks(conformance(pack, families), clock.past(240))
    report["peak_tflops"] = {name: round(value, 1) for name, value in peaks().items()}
    report["timings"] = [vars(result) for result in measure(pack, families, clock.past(4 * SANITIZER_SECONDS + 10))]
    each = min(SANITIZER_SECONDS, (clock.left() - 10) / 4)
    arguments = ["--pack", str(folder), "--target", str(pack.target), "--families", ",".join(families)]
    report["sanitizer"] = sanitize(Path(__file__), arguments, each) if each > 10 else {"not run": "no time left"}


def _run_checks(checks: Iterable[tuple[str, Callable[[], None]]], past: Callable[[], bool]) -> dict[str, str]:
    outcomes: dict[str, str] = {}
    for name, check in checks:
        if past():
            print(f"  time is up after {len(outcomes)} checks")
            break
        try:
            check()
            outcomes[name] = "passed"
        except Exception as error:  # whatever it is, the others still run and the report says it
            outcomes[name] = f"{type(error).__name__}: {error}"
            print(f"  FAILED {name}: {outcomes[name]}")
            traceback.print_exc(limit=3)
    print(f"  {sum(outcome == 'passed' for outcome in outcomes.values())} of {len(outcomes)} checks passed")
    return outcomes


def _sanitized_calls(pack: Pack, families: tuple[str, ...]) -> int:
    from checks import compare, tensors

    for family in families:
        for wanted in (Wanted(family, 64, "fp16", "bottom_right"), Wanted(family, 33, "bf16", "top_left", 17)):
            compare(pack, wanted, tensors(wanted, (1, 2, 1, 70, 90)), lengths=[61])
    return 0


def _write(report: dict[str, Any], out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    (out / "gpu-report.json").write_text(json.dumps(report, indent=2) + "\n")
    table = _table(report)
    (out / "gpu-report.md").write_text(table)
    print(table)


def _table(report: dict[str, Any]) -> str:
    compiled = report["compiled"]
    lines = [f"# {report.get('device', {}).get('name', 'no GPU (dry run)')}, {report['target']}", ""]
    lines.append(f"{compiled['kernels']} kernels, {len(compiled['complaints'])} complaints of ptxas")
    lines += [f"* {complaint}" for complaint in compiled["complaints"]]
    if "checks" in report:
        failed = {name: outcome for name, outcome in report["checks"].items() if outcome != "passed"}
        lines.append(f"{len(report['checks']) - len(failed)} checks passed, {len(failed)} failed")
        lines += [f"* {name}: {outcome}" for name, outcome in failed.items()]
    if "peak_tflops" in report:
        lines.append(f"peak (matrix product) TFLOP/s: {report['peak_tflops']}")
        lines += ["", "| problem | contender | ms (median) | quartiles | TFLOP/s |", "|---|---|---|---|---|"]
        for row in report["timings"]:
            spread = f"{row['low']:.3f}-{row['high']:.3f}"
            cells = (row["problem"], row["contender"], f"{row['milliseconds']:.3f}", spread, f"{row['tflops']:.1f}")
            lines.append(f"| {' | '.join(cells)} |")
        lines += ["", f"compute-sanitizer: {report['sanitizer']}"]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
