"""Every error that flashgen raises on purpose, and the exit code the command line gives it.

A message is one short paragraph: what happened, why, and what to do about it. The structured fields
beside it (`required`, `log`, ...) are for programs. All errors survive pickling, so that they cross
process borders unchanged.
"""

from __future__ import annotations

from typing import Any


class FlashgenError(Exception):
    """Base of all flashgen errors; `except FlashgenError` catches every one of them."""

    exit_code = 1

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.args, self.__dict__)


def _rebuild(cls: type[FlashgenError], args: tuple[Any, ...], fields: dict[str, Any]) -> Any:
    error = cls.__new__(cls)
    error.args = args
    error.__dict__.update(fields)
    return error


class SpecError(FlashgenError):
    """What was asked for makes no sense, or no kernel family computes it here."""

    exit_code = 2


class ArgumentError(FlashgenError):
    """A tensor handed to a kernel does not fit it."""

    exit_code = 2

    def __init__(self, message: str, *, tensor: str = "", expected: str = "", got: str = "") -> None:
        super().__init__(message)
        self.tensor = tensor
        self.expected = expected
        self.got = got


class BudgetError(FlashgenError):
    """No tile fits the on-chip memory that was allowed.

    Attributes:
        required: bytes that the smallest (or the asked-for) tile needs.
        limit: bytes that were available.
        hint: what to change.
    """

    exit_code = 3

    def __init__(self, message: str, *, required: int = 0, limit: int = 0, hint: str = "") -> None:
        super().__init__(message)
        self.required = required
        self.limit = limit
        self.hint = hint


class RenderError(FlashgenError):
    """A template could not be rendered."""

    exit_code = 4


class ToolchainError(FlashgenError):
    """A compiler, or a place to put its output, is missing or unusable."""

    exit_code = 4


class CompileError(FlashgenError):
    """The compiler refused a generated source.

    Attributes:
        log: the compiler's whole output.
        command: the command line, as one string.
        excerpt: the numbered source lines around the first error.
    """

    exit_code = 4

    def __init__(self, message: str, *, log: str = "", command: str = "", excerpt: str = "") -> None:
        super().__init__(message)
        self.log = log
        self.command = command
        self.excerpt = excerpt


class VerificationError(FlashgenError):
    """A kernel's result lies outside the tolerance."""

    exit_code = 5


class TuneError(FlashgenError):
    """Every candidate of a sweep failed; `trials` says why each did."""

    exit_code = 5

    def __init__(self, message: str, *, trials: tuple[Any, ...] = ()) -> None:
        super().__init__(message)
        self.trials = trials


class LaunchError(FlashgenError):
    """A built kernel could not be loaded or run on this machine."""

    exit_code = 6
