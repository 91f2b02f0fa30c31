"""What a record is valid for: labelled facts of the machine, the compiler and flashgen itself.

A kernel's best tile depends on all of them. A record repeats them in its header, and is used only where each
of them is the same.
"""

from __future__ import annotations

import hashlib
import os
import platform
from collections.abc import Mapping
from pathlib import Path

from flashgen import __version__
from flashgen.compilation.artifact import Toolchain
from flashgen.pipeline import toolchain_for
from flashgen.render.environment import templates_dir
from flashgen.runtime.device import host_features, host_name, limits_of, runs_here
from flashgen.target import Target

MEASURED, PREDICTED = "measured", "predicted"
# The model's results go stale with the model; raise this whenever it changes.
MODEL_VERSION = "2"

Validity = Mapping[str, str]


def validity_here(target: Target, toolchain: Toolchain | None = None) -> Validity:
    """What a record must be valid for to serve this process.

    Args:
        target: what is built for. Where this machine runs it, only measurements made on this very device count;
            else only predictions for the target's preset device do.
        toolchain: what compiles; the target's own if None.

    Raises:
        ToolchainError: there is no compiler.
    """
    measured = runs_here(target)
    device = _cpu() if target.kind == "cpu" else _gpu() if measured else {}
    limits = limits_of(target)
    facts = {
        "how": MEASURED if measured else PREDICTED,
        "flashgen": __version__,
        "templates": templates_digest(target.kind),
        "target": str(target),
        "device": device.pop("name", limits.device),
        "onchip_bytes": str(limits.onchip_bytes),
        "l2_bytes": str(limits.l2_bytes),
        "cores": str(limits.cores),
        **device,
    }
    if not measured:
        facts["model"] = MODEL_VERSION
    labels: dict[str, list[str]] = {}
    for label, value in (toolchain or toolchain_for(target)).identity():
        labels.setdefault(f"toolchain {label}", []).append(value)
    return facts | {label: " ".join(values) for label, values in labels.items()}


def digest(validity: Validity) -> str:
    """A short name for a set of facts; records of different machines have different file names."""
    text = "\n".join(f"{label}={len(value)}:{value}" for label, value in sorted(validity.items()))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def differences(recorded: Validity, here: Validity) -> tuple[str, ...]:
    """One phrase for each fact in which a record differs from this machine; empty if it is valid here."""
    labels = [*here, *(label for label in recorded if label not in here)]
    return tuple(
        f"{label} {_shown(recorded.get(label))}, here {_shown(here.get(label))}"
        for label in labels
        if recorded.get(label) != here.get(label)
    )


def place_of(validity: Validity) -> str:
    """The machine in a phrase: ``AMD EPYC, 2 threads``."""
    threads = validity.get("threads")
    return validity.get("device", "unknown device") + (f", {threads} threads" if threads else "")


def templates_digest(kind: str) -> str:
    """Digest of all templates that kernels of a kind may be rendered from."""
    root = templates_dir()
    found = hashlib.sha256()
    for path in sorted(path for part in (kind, "shared") for path in (root / part).rglob("*") if path.is_file()):
        contents = path.read_bytes()
        found.update(f"{path.relative_to(root).as_posix()}:{len(contents)}\n".encode() + contents)
    return found.hexdigest()[:16]


def _cpu() -> dict[str, str]:
    """The model by name and number (clouds give many CPUs one name), its instructions, and the threads used."""
    from flashgen.runtime.openmp import thread_pool

    features = " ".join(sorted(host_features()))
    return {
        "name": host_name(),
        "cpu model": _model_numbers(),
        "instructions": hashlib.sha256(features.encode()).hexdigest()[:16],
        "threads": str(thread_pool().max_threads()),
    }


def _gpu() -> dict[str, str]:
    from flashgen.runtime.cuda_driver import open_driver

    facts = open_driver().facts(0)
    return {
        "name": facts.name,
        "capability": str(facts.capability),
        "multiprocessors": str(facts.sm_count),
        "shared_bytes": str(facts.shared_bytes),
    }


def _model_numbers() -> str:
    labels = {"vendor_id", "cpu family", "model", "stepping", "CPU implementer", "CPU part", "CPU variant"}
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").split("\n\n")[0].splitlines()
    except OSError:
        return platform.machine()
    pairs = (line.partition(":")[::2] for line in lines)
    return " ".join(value.strip() for label, value in pairs if label.strip() in labels) or platform.machine()


def _shown(value: str | None) -> str:
    return "unknown" if value is None else repr(value)


def host_of_lock() -> str:
    """This machine's name, for locks in a home directory that several machines share."""
    return "".join(char if char.isalnum() or char in "-." else "_" for char in os.uname().nodename)
