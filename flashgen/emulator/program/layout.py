"""Where variables live: an address, in the space that the machine accesses, for each of them."""

from __future__ import annotations

from dataclasses import dataclass, field

from flashgen.emulator.errors import PtxError
from flashgen.emulator.ptx.ast import PtxModule, Register, Variable

# Device addresses of global memory start here; the module's own variables come first.
GLOBAL_BASE = 0x7F0000000000
# CUDA keeps the first kilobyte of shared memory for itself from sm_80 on. Here always: an address of 0
# then never is a valid one, and dynamic memory starts where a kernel finds it on such a device.
SHARED_BASE = 1024
SPACES = {"global": 0, "shared": 1, "local": 2, "const": 3, "param": 4, "generic": 5}
_WINDOW_BITS = 40


def window(space: str) -> int:
    """Generic address of a space's first byte."""
    return SPACES[space] << _WINDOW_BITS if space != "global" else 0


def align_up(value: int, alignment: int) -> int:
    """The next multiple."""
    return -(-value // alignment) * alignment


@dataclass(slots=True)
class Segment:
    """A space that fills up: what is placed gets the next aligned address."""

    base: int = 0
    size: int = 0

    def place(self, size: int, alignment: int) -> int:
        """Address of a new piece."""
        start = align_up(self.base + self.size, max(alignment, 1))
        self.size = start + size - self.base
        return start


@dataclass(slots=True)
class ModuleLayout:
    """The variables of a module that all its kernels share.

    Attributes:
        addresses: variable -> address in its space.
        global_segment, const_segment: how far they are filled.
    """

    addresses: dict[Variable, int] = field(default_factory=dict)
    global_segment: Segment = field(default_factory=lambda: Segment(GLOBAL_BASE))
    const_segment: Segment = field(default_factory=Segment)

    @classmethod
    def of(cls, module: PtxModule) -> ModuleLayout:
        """Places .global and .const variables."""
        layout = cls()
        for variable in module.variables:
            if variable.space in ("global", "const"):
                if variable.extern:
                    raise PtxError(f"{variable.name} is extern: the module does not define it")
                segment = layout.global_segment if variable.space == "global" else layout.const_segment
                layout.addresses[variable] = segment.place(variable.size, variable.align)
        return layout

    def image(self, space: str) -> bytes:
        """Initial bytes of a space."""
        segment = self.global_segment if space == "global" else self.const_segment
        data = bytearray(segment.size)
        for variable, address in self.addresses.items():
            if variable.space == space and variable.init is not None:
                at = address - segment.base
                data[at : at + len(variable.init)] = variable.init
        return bytes(data)


class KernelLayout:
    """Addresses of everything that one kernel names.

    Attributes:
        shared, local, param: how far they are filled.
        dynamic_align: what the ``extern .shared`` arrays ask for; they all start where the static ones end.
    """

    def __init__(self, module: PtxModule, shared_by_all: ModuleLayout, params: list[Variable | Register]) -> None:
        self._addresses: dict[Variable, tuple[str, int]] = {}
        self._module = shared_by_all
        self.shared = Segment(SHARED_BASE)
        self.local = Segment()
        self.param = Segment()
        self.param_offsets: list[int] = []
        self.dynamic_align = 1
        self._dynamic: list[Variable] = []
        for variable in module.variables:
            if variable.space == "shared" and variable.extern:
                self.add_dynamic(variable)
        for param in params:
            assert isinstance(param, Variable)
            offset = self.param.place(param.size, param.align)
            self.param_offsets.append(offset)
            self._addresses[param] = ("param", offset)

    def add_dynamic(self, variable: Variable) -> None:
        """An ``extern .shared`` array."""
        self._dynamic.append(variable)
        self.dynamic_align = max(self.dynamic_align, variable.align)

    def declare(self, variable: Variable) -> None:
        """A variable of a function's body. Parameters of calls are local memory of the thread."""
        if variable in self._addresses:
            return
        if variable.space == "shared":
            if variable.extern:
                self.add_dynamic(variable)
            else:
                self._addresses[variable] = ("shared", self.shared.place(variable.size, variable.align))
        elif variable.space in ("local", "param"):
            self._addresses[variable] = ("local", self.local.place(variable.size, variable.align))
        else:
            raise PtxError(f"{variable.name}: a .{variable.space} variable inside a function")

    def use_module_shared(self, variable: Variable) -> None:
        """Static shared memory at module level belongs to a kernel only if that names it."""
        if variable.space == "shared" and not variable.extern:
            self.declare(variable)

    def address(self, variable: Variable) -> tuple[str, int]:
        """(space, address) of a variable. Dynamic shared memory starts at ``dynamic_start``."""
        if variable in self._module.addresses:
            return variable.space, self._module.addresses[variable]
        if variable in self._dynamic:
            return "shared", self.dynamic_start
        self.use_module_shared(variable)
        return self._addresses[variable]

    @property
    def dynamic_start(self) -> int:
        """Address at which dynamic shared memory starts."""
        return align_up(self.shared.base + self.shared.size, self.dynamic_align)
