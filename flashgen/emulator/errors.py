"""What the emulator raises before a kernel runs."""

from __future__ import annotations

from flashgen.errors import FlashgenError


class PtxError(FlashgenError):
    """PTX that the emulator cannot read, or an opcode that it does not know.

    Attributes:
        line: line of the PTX text, from 1.
        statement: what stands there.
    """

    exit_code = 4

    def __init__(self, message: str, *, line: int = 0, statement: str = "") -> None:
        where = f"PTX line {line}: " if line else ""
        shown = f"\n  {line:5d} | {statement}" if line and statement else ""
        super().__init__(f"{where}{message}{shown}")
        self.line = line
        self.statement = statement
