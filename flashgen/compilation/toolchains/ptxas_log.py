"""What ptxas says of a kernel (``-v``): registers, stack, spills, shared memory, barriers, warnings."""

from __future__ import annotations

import re
from typing import Any

_ENTRY = re.compile(r"Compiling entry function '(\w+)' for '(\w+)'")
_PROPERTIES = re.compile(r"Function properties for (\w+)")
_FRAME = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"Used (\d+) registers")
_BARRIERS = re.compile(r"used (\d+) barriers")
_SMEM = re.compile(r"(\d+)(?:\+\d+)? bytes smem")
_ADVICE = re.compile(r"\(C\d{4}\)|warning\b", re.IGNORECASE)
_DEPRECATION = "Architectures prior to"  # NVRTC 12.9 on sm_70: about the compiler's future, not the kernel


def parse_ptxas_log(log: str) -> dict[str, Any]:
    """Reads the log of ``ptxas -v``.

    Returns:
        ``{"kernels": {entry: {"arch", "registers", "stack_bytes", "spill_store_bytes",
        "spill_load_bytes", "static_smem_bytes", "barriers"}}, "warnings": [line, ...]}``
    """
    kernels: dict[str, dict[str, Any]] = {}
    current = described = ""
    for line in log.splitlines():
        if match := _ENTRY.search(line):
            current = described = match[1]
            kernels[current] = {"arch": match[2]}
        elif match := _PROPERTIES.search(line):
            described = match[1]
        elif (match := _FRAME.search(line)) and described in kernels:
            stack, stores, loads = map(int, match.groups())
            kernels[described] |= {
                "stack_bytes": stack,
                "spill_store_bytes": stores,
                "spill_load_bytes": loads,
            }
        elif (match := _USED.search(line)) and current:
            barriers, smem = _BARRIERS.search(line), _SMEM.search(line)
            kernels[current] |= {
                "registers": int(match[1]),
                "barriers": int(barriers[1]) if barriers else 0,
                "static_smem_bytes": int(smem[1]) if smem else 0,
            }
    warnings = [line.strip() for line in log.splitlines() if _ADVICE.search(line) and _DEPRECATION not in line]
    return {"kernels": kernels, "warnings": warnings}
