"""Names in nested scopes: inline assembly opens braces and declares its own registers and labels."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from flashgen.emulator.ptx.ast import Label, Register, Variable

_NUMBERED = re.compile(r"(.*?)(\d+)\Z")


@dataclass(eq=False, slots=True)
class Scope:
    """One pair of braces.

    Attributes:
        parent: the scope around it.
        ranges: ``%r<10>`` declares %r0 to %r9: prefix -> (count, type).
    """

    parent: Scope | None = None
    registers: dict[str, Register] = field(default_factory=dict)
    variables: dict[str, Variable] = field(default_factory=dict)
    labels: dict[str, Label] = field(default_factory=dict)
    ranges: dict[str, tuple[int, str]] = field(default_factory=dict)

    def find(self, name: str) -> Register | Variable | Label | None:
        """What a name stands for here, looking outwards."""
        scope: Scope | None = self
        while scope is not None:
            found = scope.registers.get(name) or scope.variables.get(name) or scope.labels.get(name)
            found = found or scope._from_range(name)
            if found is not None:
                return found
            scope = scope.parent
        return None

    def declare_registers(self, type_name: str, declaration: str) -> None:
        """Declares ``%p<4>`` or ``a``."""
        name, _, count = declaration.partition("<")
        if count:
            self.ranges[name] = (int(count.rstrip("> ")), type_name)
        else:
            self.registers[name] = Register(name, type_name)

    def _from_range(self, name: str) -> Register | None:
        if not self.ranges:
            return None
        match = _NUMBERED.match(name)
        if match is None:
            return None
        # "%r12" may be number 12 of %r or number 2 of %r1: try every split.
        for cut in range(len(match[1]), len(name)):
            count, type_name = self.ranges.get(name[:cut], (0, ""))
            digits = name[cut:]
            if int(digits) < count and (digits == "0" or digits[0] != "0"):
                register = self.registers[name] = Register(name, type_name)
                return register
        return None
