"""Logging: one logger, phase timings, and warnings that are said once."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from flashgen.settings import read_settings

logger = logging.getLogger("flashgen")
_said: set[str] = set()


class _Stderr(logging.Handler):
    """Writes to the stderr of the moment, which may have been redirected and closed since the last time."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            print(self.format(record), file=sys.stderr)
        except (OSError, ValueError):
            self.handleError(record)


def configure(level: str | None = None) -> None:
    """Sends flashgen's log to stderr at FLASHGEN_LOG's level (the command line calls this)."""
    name = (level or read_settings().log_level or "warning").upper()
    logger.setLevel(name if isinstance(logging.getLevelName(name), int) else "WARNING")
    if not logger.handlers:
        handler = _Stderr()
        handler.setFormatter(logging.Formatter("flashgen: %(message)s"))
        logger.addHandler(handler)


def warn_once(message: str) -> None:
    """Logs a warning unless this process has already said it."""
    if message not in _said:
        _said.add(message)
        logger.warning("%s", message)


@contextmanager
def phase(name: str, seconds: dict[str, float]) -> Iterator[None]:
    """Times a stage of the corridor into ``seconds[name]`` and logs it at debug level."""
    start = time.perf_counter()
    try:
        yield
    finally:
        seconds[name] = time.perf_counter() - start
        logger.debug("%s: %.1f ms", name, seconds[name] * 1e3)


if read_settings().log_level:  # whoever sets FLASHGEN_LOG wants to see it, in a script as well
    configure()
