"""How a CUDA kernel is launched, as data: grid, block, shared memory, workspace, arguments.

Sizes that depend on a call's shapes are formulas, short texts such as ``batch * num_heads``. The loaders
evaluate them, the manifest states them and the C launcher contains them, so that there is one truth.
"""

from __future__ import annotations

import ast
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache

# What formulas may refer to, beside a launch plan's own parameters.
VARIABLES = ("batch", "num_heads", "num_heads_kv", "seqlen_q", "seqlen_k", "sm_count")


@dataclass(frozen=True, slots=True)
class LaunchStep:
    """One kernel launch.

    Attributes:
        entry: the symbol in the module.
        grid: formulas of the three grid dimensions.
        block: threads of a CTA, in one dimension.
        shared_bytes: dynamic shared memory of a CTA.
        optional: whether the grid may come out empty; then the step is left out.
    """

    entry: str
    grid: tuple[str, str, str]
    block: int
    shared_bytes: int
    optional: bool = False


@dataclass(frozen=True, slots=True)
class LaunchPlan:
    """All launches of one call, in stream order; each gets the same arguments.

    Attributes:
        steps: the launches.
        workspace_bytes: formula of the device memory that ``workspace`` must point to.
        row_ranges: formula of the argument of that name.
    """

    steps: tuple[LaunchStep, ...]
    workspace_bytes: str = "0"
    row_ranges: str = "1"


@dataclass(frozen=True, slots=True)
class Argument:
    """A field of struct AttentionArgs (templates/cuda/parts/abi.cuh).

    Attributes:
        name: its name.
        type: ``pointer``, ``int64``, ``int64[3]`` or ``double``.
        offset: bytes from the start of the struct.
        meaning: one phrase.
    """

    name: str
    type: str
    offset: int
    meaning: str


_FIELDS = (
    ("q", "pointer", "(batch, num_heads, seqlen_q, d), last axis contiguous"),
    ("k", "pointer", "(batch, num_heads_kv, seqlen_k, d), last axis contiguous"),
    ("v", "pointer", "(batch, num_heads_kv, seqlen_k, dv), last axis contiguous"),
    ("out", "pointer", "(batch, num_heads, seqlen_q, dv), written in full"),
    ("lse", "pointer", "(batch, num_heads, seqlen_q) float (double for fp64), contiguous; null: not wanted"),
    ("seqlens_k", "pointer", "(batch,) int64, valid keys of each entry; null: all seqlen_k"),
    ("batch", "int64", "size"),
    ("num_heads", "int64", "size; a multiple of num_heads_kv"),
    ("num_heads_kv", "int64", "size"),
    ("seqlen_q", "int64", "size"),
    ("seqlen_k", "int64", "size"),
    ("q_stride", "int64[3]", "elements from one batch, head and row to the next"),
    ("k_stride", "int64[3]", "likewise"),
    ("v_stride", "int64[3]", "likewise"),
    ("out_stride", "int64[3]", "likewise"),
    ("softmax_scale", "double", "factor of q.k, usually 1 / sqrt(d)"),
    ("workspace", "pointer", "device memory of workspace_bytes, 256-byte aligned; contents need no clearing"),
    (
        "row_ranges",
        "int64",
        "as the formula of that name says: CTAs that share the rows of a head, or splits of its keys",
    ),
)
_CODES = {"pointer": "Q", "int64": "q", "int64[3]": "3q", "double": "d"}


def _arguments() -> tuple[Argument, ...]:
    offset, found = 0, []
    for name, kind, meaning in _FIELDS:
        found.append(Argument(name, kind, offset, meaning))
        offset += struct.calcsize("=" + _CODES[kind])
    return tuple(found)


ARGUMENTS = _arguments()
ARGUMENT_FORMAT = "=" + "".join(_CODES[kind] for _, kind, _ in _FIELDS)
_POINTERS = struct.Struct("=6Q")
_SIZES = struct.Struct("=5q12q")
_CALL = struct.Struct("=dQq")
ARGUMENT_BYTES = _POINTERS.size + _SIZES.size + _CALL.size


@dataclass(frozen=True, slots=True)
class Geometry:
    """A launch plan with the numbers of one problem in it.

    Attributes:
        grids: of each step; an optional one's may be empty, and is not launched.
        workspace_bytes: to allocate.
        row_ranges: the argument.
        sizes: the packed middle of the argument struct, which does not change from call to call.
    """

    grids: tuple[tuple[int, int, int], ...]
    workspace_bytes: int
    row_ranges: int
    sizes: bytes = field(repr=False)

    def launches(self, plan: LaunchPlan) -> tuple[tuple[LaunchStep, tuple[int, int, int]], ...]:
        """The steps that are launched, each with its grid."""
        return tuple((step, grid) for step, grid in zip(plan.steps, self.grids, strict=True) if 0 not in grid)

    def pack(self, pointers: tuple[int, int, int, int, int, int], scale: float, workspace: int) -> bytes:
        """The whole argument struct: addresses of q, k, v, out, lse, seqlens_k, then sizes, then the call's rest."""
        return _POINTERS.pack(*pointers) + self.sizes + _CALL.pack(scale, workspace, self.row_ranges)


def resolve(
    plan: LaunchPlan,
    sizes: tuple[int, int, int, int, int],
    strides: tuple[tuple[int, int, int], ...],
    sm_count: int,
    row_ranges: int | None = None,
) -> Geometry:
    """Puts the numbers of a problem into a launch plan.

    Args:
        plan: the launch plan.
        sizes: batch, num_heads, num_heads_kv, seqlen_q, seqlen_k.
        strides: of q, k, v and out, each of batch, head and row.
        sm_count: multiprocessors of the device.
        row_ranges: overrides the plan's formula.
    """
    values = dict(zip(VARIABLES, (*sizes, sm_count), strict=True))
    values["row_ranges"] = evaluate(plan.row_ranges, values) if row_ranges is None else row_ranges
    grids = tuple(
        (evaluate(step.grid[0], values), evaluate(step.grid[1], values), evaluate(step.grid[2], values))
        for step in plan.steps
    )
    packed = _SIZES.pack(*sizes, *(stride for tensor in strides for stride in tensor))
    return Geometry(grids, evaluate(plan.workspace_bytes, values), values["row_ranges"], packed)


def evaluate(formula: str, values: Mapping[str, int]) -> int:
    """Computes a formula over whole numbers: ``+ - * ( )``, ``min``, ``max`` and ``ceil_div``."""
    return _value(_parsed(formula), values)


@cache
def _parsed(formula: str) -> ast.expr:
    return ast.parse(formula, mode="eval").body


def _value(node: ast.expr, values: Mapping[str, int]) -> int:
    match node:
        case ast.Constant(value=int(number)):
            return number
        case ast.Name(id=name):
            return values[name]
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return _value(left, values) + _value(right, values)
        case ast.BinOp(left=left, op=ast.Sub(), right=right):
            return _value(left, values) - _value(right, values)
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            return _value(left, values) * _value(right, values)
        case ast.Call(func=ast.Name(id="ceil_div"), args=[a, b]):
            return -(-_value(a, values) // _value(b, values))
        case ast.Call(func=ast.Name(id="min"), args=[a, b]):
            return min(_value(a, values), _value(b, values))
        case ast.Call(func=ast.Name(id="max"), args=[a, b]):
            return max(_value(a, values), _value(b, values))
    raise ValueError(f"not a launch formula: {ast.unparse(node)}")
