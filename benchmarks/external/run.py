"""Runs other people's kernels on the emulator: right results, findings, bank conflicts.

python benchmarks/external/run.py --cuda-samples DIR --llm-c DIR [--write]

See README.md beside this file for where the sources come from.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import lab
import llmc
import samples

_HERE = Path(__file__).parent
_COLUMNS = ("kernel", "grid x block", "warp-instructions", "shared wavefronts", "conflicts", "findings")


def table(records: list[dict[str, Any]]) -> str:
    """The records as Markdown, a table for each file."""
    lines = []
    for file in dict.fromkeys(record["file"] for record in records):
        rows = [record for record in records if record["file"] == file]
        lines += [f"\n### {file}\n", f"| {' | '.join(_COLUMNS)} |", "|" + "---|" * len(_COLUMNS)]
        lines += [_row(record) for record in rows]
        notes = {f"* {record['case']}: {kind}, {why}." for record in rows for kind, why in record["expected"].items()}
        notes |= {f"* {record['case']}: {claim}, as its authors say." for record in rows for claim in record["claims"]}
        lines += ["", *sorted(notes)] if notes else []
    return "\n".join(lines)


def _row(record: dict[str, Any]) -> str:
    shape = f"{'x'.join(map(str, record['grid']))} x {'x'.join(map(str, record['block']))}"
    detail = record["case"].split(", ")[-1]
    name = f"`{record['kernel']}`" + ("" if detail == record["kernel"] else f" ({detail})")
    found = ", ".join(f"{finding.replace(' at ', ' (')})" for finding in record["findings"]) or "none"
    counts = (record["warp_instructions"], record["wavefronts"], record["conflicts"])
    return f"| {name} | {shape} | {' | '.join(f'{count:,}' for count in counts)} | {found} |"


def run_all(cases: Iterable[lab.Case], checkout: Path) -> list[dict[str, Any]]:
    """Runs cases, telling of each."""
    records = []
    for case in cases:
        mine = lab.run(case, checkout)
        records += mine
        found = sum(len(record["findings"]) for record in mine)
        print(f"{case.name}: error {mine[0]['error']:.1e}, {found} findings, both executors agree", flush=True)
    return records


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cuda-samples", type=Path, help="a checkout of NVIDIA/cuda-samples")
    parser.add_argument("--llm-c", type=Path, help="a checkout of karpathy/llm.c")
    parser.add_argument("--write", action="store_true", help="write results.json and results.md beside this file")
    options = parser.parse_args()
    records = []
    for checkout, module in ((options.cuda_samples, samples), (options.llm_c, llmc)):
        if checkout is not None:
            records += run_all(module.cases(), checkout)
    if not records:
        parser.error("no checkout was named")
    if options.write:
        lines = ",\n".join(json.dumps(record) for record in records)
        (_HERE / "results.json").write_text(f"[\n{lines}\n]\n")
        (_HERE / "results.md").write_text(f"{_HEADING}{table(records)}\n")


_HEADING = """# Other people's kernels on the emulator

Written by `run.py --write`. Every result was compared with NumPy, and both executors agree on all counters and
findings. Wavefronts are passes through the banks of shared memory, conflicts those beyond the least.
"""

if __name__ == "__main__":
    main()
