"""PTX text to a PtxModule.

Two passes: the first walks the statements and builds scopes, the second resolves operands, because a
branch may name a label that comes later.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from flashgen.emulator.errors import PtxError
from flashgen.emulator.ptx.ast import Function, Instruction, Label, Location, Operand, PtxModule, Register, Variable
from flashgen.emulator.ptx.lexer import Statement, statements
from flashgen.emulator.ptx.operands import OperandReader, split_operands
from flashgen.emulator.ptx.scope import Scope
from flashgen.emulator.ptx.variables import parse_variable

_HEADER = re.compile(
    r"(?:\.(?:visible|extern|weak|common)\s+)*\.(?P<kind>entry|func)\s*(?:\.\w+\s+)*(?P<returns>\([^)]*\))?\s*"
    r"(?P<name>[\w$.%]+)\s*(?P<params>\([^)]*\))?(?P<rest>.*)\Z",
    re.DOTALL,
)
_INSTRUCTION = re.compile(r"(?:@\s*(!?)\s*([\w$%]+)\s+)?([a-z][\w.:]*)\s*(.*)\Z", re.DOTALL)
_LOC = re.compile(r"\.loc\s+(\d+)\s+(\d+)\s+\d+(?:\s*,\s*function_name\s+\S+\s*,\s*inlined_at\s+(\d+)\s+(\d+))?")
_FILE = re.compile(r'\.file\s+(\d+)\s+"([^"]*)"')
_REG = re.compile(r"\.reg\s*(?:\.v[24]\s*)?\.(\w+)\s+(.*)\Z", re.DOTALL)
_IGNORED = (
    ".pragma",
    ".section",
    ".alias",
    ".maxn",
    ".minn",
    ".reqn",
    ".noreturn",
    ".callprototype",
    ".weak",
    ".extern .func",
)
_MAX_THREADS = re.compile(r"\.(?:maxntid|reqntid)\s+(\d+)(?:\s*,\s*(\d+))?(?:\s*,\s*(\d+))?")


@dataclass(slots=True)
class _Pending:
    """An instruction whose operands wait for the second pass."""

    statement: Statement
    scope: Scope
    location: Location | None


@dataclass(slots=True)
class _Body:
    """A function while it is being read."""

    function: Function
    scope: Scope
    items: list[_Pending | Label] = field(default_factory=list)
    targets: list[tuple[Label, str, Scope, Statement]] = field(default_factory=list)


class _Parser:
    def __init__(self) -> None:
        self.module = PtxModule()
        self.top = Scope()
        self.bodies: list[_Body] = []
        self.location: Location | None = None
        self.declared: set[str] = set()

    def parse(self, text: str) -> PtxModule:
        """The first pass, then the second."""
        stream = iter(statements(text))
        for statement in stream:
            if statement.kind == "header":
                self._function(statement, stream)
            elif statement.kind == "line":
                self._line(statement)
            elif statement.kind == ";":
                self._module_statement(statement)
            else:
                raise PtxError(f"{statement.text!r} outside a function", line=statement.line, statement=statement.text)
        for body in self.bodies:
            self._resolve(body)
        return self.module

    def _module_statement(self, statement: Statement) -> None:
        text = statement.text
        if text.startswith(".version"):
            self.module.version = text.split()[1]
        elif text.startswith(".target"):
            self.module.target = text.split()[1].rstrip(",")
        elif not text.startswith((*_IGNORED, ".address_size")):
            variable = parse_variable(text, statement.line)
            self.module.variables.append(variable)
            self.top.variables[variable.name] = variable

    def _line(self, statement: Statement) -> None:
        if match := _FILE.match(statement.text):
            self.module.files[int(match[1])] = match[2]
        elif match := _LOC.match(statement.text):
            outer = Location(int(match[3]), int(match[4])) if match[3] else None
            self.location = Location(int(match[1]), int(match[2]), outer)

    def _function(self, header: Statement, stream: object) -> None:
        match = _HEADER.match(header.text.rstrip(";"))
        if match is None:
            raise PtxError("a function header that the emulator does not know", line=header.line, statement=header.text)
        self.declared.add(match["name"])
        if header.text.endswith(";"):
            return
        scope = Scope(self.top)
        function = Function(match["name"], match["kind"] == "entry", [], [])
        function.returns = _parameters(match["returns"], scope, header.line)
        function.params = _parameters(match["params"], scope, header.line)
        if limit := _MAX_THREADS.search(match["rest"]):
            function.max_threads = int(limit[1]) * int(limit[2] or 1) * int(limit[3] or 1)
        self.module.functions[function.name] = function
        self.location = None
        self._body(_Body(function, scope), stream)

    def _body(self, body: _Body, stream: object) -> None:
        scope, depth = body.scope, 0
        self.bodies.append(body)
        for statement in stream:  # type: ignore[attr-defined]
            if statement.kind == "{":
                scope = Scope(scope) if depth else scope
                depth += 1
            elif statement.kind == "}":
                depth -= 1
                if depth == 0:
                    return
                assert scope.parent is not None
                scope = scope.parent
            else:
                self._body_statement(body, scope, statement)
        raise PtxError(f"the body of {body.function.name} has no end")

    def _body_statement(self, body: _Body, scope: Scope, statement: Statement) -> None:
        text = statement.text
        if statement.kind == "line":
            self._line(statement)
        elif statement.kind == "label":
            label = scope.labels[text] = Label(text)
            body.items.append(label)
        elif not text.startswith("."):
            if text:
                body.items.append(_Pending(statement, scope, self.location))
        elif match := _REG.match(text):
            for declaration in match[2].split(","):
                scope.declare_registers(match[1], declaration.strip())
        elif text.startswith(".branchtargets"):
            table = body.items.pop()
            assert isinstance(table, Label)
            body.targets.append((table, text.removeprefix(".branchtargets"), scope, statement))
        elif not text.startswith(_IGNORED):
            variable = parse_variable(text, statement.line)
            scope.variables[variable.name] = variable
            body.function.variables.append(variable)

    def _resolve(self, body: _Body) -> None:
        functions = frozenset(self.declared)
        for label, text, scope, statement in body.targets:
            reader = OperandReader(functions, statement.line, statement.text)
            body.function.branch_targets[label] = tuple(reader.label(name.strip(), scope) for name in text.split(","))
        for item in body.items:
            body.function.body.append(item if isinstance(item, Label) else _instruction(item, functions))


def _parameters(text: str | None, scope: Scope, line: int) -> list[Variable | Register]:
    result: list[Variable | Register] = []
    for piece in split_operands((text or "()")[1:-1].strip()):
        if match := _REG.match(piece):
            scope.declare_registers(match[1], match[2].strip())
            found = scope.find(match[2].strip())
            assert isinstance(found, Register)
            result.append(found)
        elif piece != "_":
            # ".param .u64 .ptr .global .align 16 q": what a pointer points to is not its own layout.
            variable = parse_variable(
                re.sub(r"\.ptr(?:\s+\.(?:global|shared|const|local))?(?:\s+\.align\s+\d+)?", "", piece), line
            )
            scope.variables[variable.name] = variable
            result.append(variable)
    return result


def _instruction(pending: _Pending, functions: frozenset[str]) -> Instruction:
    _, text, line = pending.statement
    match = _INSTRUCTION.match(text)
    reader = OperandReader(functions, line, text)
    if match is None:
        raise reader.error("this is not an instruction")
    negated, guard_name, opcode, rest = match.groups()
    operands: tuple[Operand, ...] = tuple(reader.read(piece, pending.scope) for piece in split_operands(rest.strip()))
    guard = None
    if guard_name:
        found = pending.scope.find(guard_name)
        if not isinstance(found, Register) or found.type != "pred":
            raise reader.error(f"{guard_name!r} is not a predicate")
        guard = found
    return Instruction(opcode, operands, guard, negated == "!", line, pending.location, text)


def parse(text: str) -> PtxModule:
    """Reads a PTX text.

    Raises:
        PtxError: it is malformed, or uses a name that was never declared; with the line.
    """
    return _Parser().parse(text)
