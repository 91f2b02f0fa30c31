"""The name of an artifact: a digest of everything that its bytes depend on."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from flashgen.source import Source

SCHEMA = "1"


def artifact_key(source: Source, flags: Iterable[str], toolchain: Iterable[tuple[str, str]]) -> str:
    """SHA-256 over labelled, length-prefixed fields, in hex.

    Paths, times and the order of sets and dicts never enter. Labels and lengths keep two different
    requests from running together into the same bytes.
    """
    fields = [("schema", SCHEMA), ("language", source.language), ("entry", source.entry)]
    fields += [("flag", flag) for flag in flags]
    fields += [(f"toolchain.{label}", value) for label, value in toolchain]
    fields.append(("source", source.text))
    digest = hashlib.sha256()
    for label, value in fields:
        for part in (label.encode(), value.encode()):
            digest.update(len(part).to_bytes(8, "little"))
            digest.update(part)
    return digest.hexdigest()
