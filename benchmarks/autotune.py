"""Does autotune keep its promises on this CPU? Sweeps, then an independent race of tuned, default and rule's plan.

    python benchmarks/autotune.py
    python benchmarks/autotune.py --d 64 --dtype fp32 --time-limit 60

For each head dim and dtype: how long the sweep took (at most 120 s are promised), and, in one interleaved run by the
hygiene of `flashgen bench`, what the tuned build takes of the default's time (at most 1.02) and of the time of the
M/4d rule's own plan (at most 1.02). Exit code 1 if a promise is broken.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable

import flashgen
from flashgen.measure.clock import Comparison, compare
from flashgen.measure.peak import PeakProbe
from flashgen.spec import make_spec
from flashgen.tuning.sweep.result import ShapeResult
from flashgen.tuning.sweep.table import regret_text

PROMISED_SECONDS, PROMISED_RATIO = 120.0, 1.02
ROUNDS = 15


def main() -> int:
    options = _options()
    probe, kept = PeakProbe(), True
    for dtype in options.dtype.split(","):
        for d in map(int, options.d.split(",")):
            start = time.perf_counter()
            result = flashgen.autotune(d, dtype, [options.n], time_limit=options.time_limit, fresh=True)
            seconds = time.perf_counter() - start
            shape = result.shapes[0]
            race = _race(d, dtype, shape, probe)
            flops = shape.shape.flops(result.request.spec)
            kept &= _report(f"{dtype} d={d} N={options.n}", seconds, shape, race, flops)
    return 0 if kept else 1


def _race(d: int, dtype: str, shape: ShapeResult, probe: PeakProbe) -> Comparison:
    """Times three builds as users get them, on arrays of their own."""
    tensors = shape.shape.inputs(make_spec(d, dtype), seed=1)

    def call(**options: object) -> Callable[[], object]:
        attn = flashgen.build(d, dtype, **options)  # type: ignore[arg-type]
        return lambda: attn(*tensors)

    peers = {"tuned": call(), "default": call(tuned=False)}
    if shape.rule is not None:
        plan = shape.rule.candidate.plan
        peers["rule"] = call(br=plan.br, bc=plan.bc)
    return compare(peers, probe.measure, known_peak=probe.best, rounds=ROUNDS)


def _report(title: str, seconds: float, shape: ShapeResult, race: Comparison, flops: int) -> bool:
    medians = {name: timing.median_s for name, timing in race.timings.items()}
    ratios = {name: medians["tuned"] / median for name, median in medians.items() if name != "tuned"}
    print(f"{title}: {seconds:.0f} s, {len(shape.ranking)} plans, {shape.stopped_by}; {shape.verdict}")
    print(f"  {regret_text(shape)}")
    timing = race.timings["tuned"]
    gflops = flops / medians["tuned"] / 1e9
    print(
        f"  race: tuned {medians['tuned'] * 1e3:.3f} ms ({gflops:.0f} GFLOP/s of {race.peak_gflops:.0f}), "
        + ", ".join(f"{ratio:.3f} of the {name}'s time" for name, ratio in ratios.items())
        + f"; spread {timing.spread:.1%}, {timing.discarded} rounds discarded",
        flush=True,
    )
    return seconds <= PROMISED_SECONDS and all(ratio <= PROMISED_RATIO for ratio in ratios.values())


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--d", default="64,80,128")
    parser.add_argument("--dtype", default="fp32,bf16")
    parser.add_argument("--n", type=int, default=1024)
    parser.add_argument("--time-limit", type=float, default=60.0)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
