"""Is a plan's kernel right? Asked of the float64 oracle before anything is timed.

The answers are computed once for each worker and serve every plan: a handful of hostile small cases, with tails and
padding beyond any tile, and the very call that is going to be timed.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from flashgen.spec import AttentionSpec, Causal
from flashgen.tuning.sweep.shape import Array, Shape
from flashgen.verification import Case, CaseResult, Expected, Inputs, cases_for, compare, expect, make_inputs

_SIZES = {(65, 65), (333, 333), (17, 333), (333, 17), (33, 65)}
_VALUES = ("padded, long query", "rising logits", "maximum in the last keys", "NaN in a key")
_WHOLE_PAIRS = 1 << 24  # up to so many (query, key) pairs the timed call is checked in whole
_ROWS = 64


class Call(Protocol):
    """Runs the kernel once, into buffers of its own that hold NaN before, and looks after their surroundings."""

    def __call__(
        self,
        q: Array,
        k: Array,
        v: Array,
        *,
        softmax_scale: float | None,
        seqlens_k: Array | None,
        layout: str,
    ) -> tuple[Array, Array]:
        """Returns out and lse, heads before rows, whatever the layout of the inputs.

        Raises:
            StrayWriteError: the kernel wrote outside its outputs.
        """
        ...


class StrayWriteError(Exception):
    """A kernel wrote where it must not; the text says where."""


@dataclass(frozen=True, slots=True)
class _Block:
    """Some query rows of one head of the timed call, as a call of their own."""

    spec: AttentionSpec
    case: Case
    index: tuple[int, int]
    rows: slice
    keys: int


class Checker:
    """The oracle's answers for one spec and shape."""

    def __init__(self, spec: AttentionSpec, shape: Shape, inputs: tuple[Array, Array, Array]) -> None:
        """Args: spec, shape, inputs: of the call that is going to be timed."""
        self._spec = spec
        self._shape = shape
        self._inputs = inputs

    def complaint(self, call: Call) -> str:
        """What is wrong with a kernel, in one sentence; empty if nothing is."""
        try:
            return self._wrong_case(call) or self._wrong_blocks(call)
        except StrayWriteError as stray:
            return str(stray)

    def _wrong_case(self, call: Call) -> str:
        for case, inputs, expected in self._small:
            swap = case.layout == "bshd"
            arrays = [x.swapaxes(1, 2) if swap else x for x in (inputs.q, inputs.k, inputs.v)]
            before = [x.tobytes() for x in arrays]
            q, k, v = arrays
            out, lse = call(
                q, k, v, softmax_scale=case.softmax_scale, seqlens_k=inputs.seqlens_k, layout=case.layout
            )  # fmt: skip
            if [x.tobytes() for x in arrays] != before:
                return f"{case.name}: it wrote to its inputs."
            result = compare(self._spec, case, expected, out, lse)
            if not result.passed:
                return _sentence(result)
        return ""

    def _wrong_blocks(self, call: Call) -> str:
        q, k, v = self._inputs
        before = checksum(q, k, v)
        out, lse = call(q, k, v, softmax_scale=None, seqlens_k=None, layout="bhsd")
        if checksum(q, k, v) != before:
            return f"{self._shape.label}: it wrote to its inputs."
        if not np.isfinite(out.astype(np.float32)).all():
            return f"{self._shape.label}: the output holds NaN or inf, or was not written in full."
        for block, expected in self._large:
            b, h = block.index
            got = out[b : b + 1, h : h + 1, block.rows], lse[b : b + 1, h : h + 1, block.rows]
            result = compare(block.spec, block.case, expected, *got)
            if not result.passed:
                return _sentence(result)
        return ""

    @cached_property
    def _small(self) -> list[tuple[Case, Inputs, Expected]]:
        found = []
        for case in cases_for(self._spec):
            plain = case.values == "gaussian" and case.seqlens_k is None and case.softmax_scale is None
            if case.name.startswith(_VALUES) or (plain and (case.seqlen_q, case.seqlen_k) in _SIZES):
                inputs = make_inputs(case, self._spec, 0)
                found.append((case, inputs, expect(self._spec, case, inputs)))
        return found

    @cached_property
    def _large(self) -> list[tuple[_Block, Expected]]:
        q, k, v = self._inputs
        found = []
        for block in blocks_of(self._spec, self._shape):
            b, h = block.index
            kv = h // (self._shape.heads // self._shape.heads_kv)
            keys = np.s_[b : b + 1, kv : kv + 1, : block.keys]
            part = Inputs(q[b : b + 1, h : h + 1, block.rows], k[keys], v[keys], None)
            found.append((block, expect(block.spec, block.case, part)))
        return found


def blocks_of(spec: AttentionSpec, shape: Shape) -> Iterator[_Block]:
    """Blocks of rows whose results are compared: all of a small call; of a large one the ends and the middle.

    A block is a call of its own: under a causal mask its last row sees the last key, which is bottom_right.
    """
    heads = [(b, h) for b in range(shape.batch) for h in range(shape.heads)]
    last = max(shape.seqlen_q - _ROWS, 0)
    starts = [0, last // 2, last]
    if len(heads) * shape.seqlen_q * shape.seqlen_k <= _WHOLE_PAIRS:
        starts = list(range(0, shape.seqlen_q, _ROWS))
    else:
        heads = [heads[0], heads[len(heads) // 2], heads[-1]]
    for b, h in heads:
        for first in starts:
            yield from _split(spec, shape, (b, h), first, min(first + _ROWS, shape.seqlen_q))


def _split(spec: AttentionSpec, shape: Shape, index: tuple[int, int], first: int, end: int) -> Iterator[_Block]:
    """One block, or two where the mask changes its nature within the rows."""
    causal = spec.causal
    if causal is not Causal.NONE:
        offset = shape.seqlen_k - shape.seqlen_q if causal is Causal.BOTTOM_RIGHT else 0
        empty_until, full_from = -offset, shape.seqlen_k - offset  # rows before see nothing, from then on everything
        first = max(first, empty_until)
        cut = min(max(full_from, first), end)
        if first < cut < end:
            yield from _split(spec, shape, index, first, cut)
            yield from _split(spec, shape, index, cut, end)
            return
        causal = Causal.NONE if first >= full_from else Causal.BOTTOM_RIGHT
    if first >= end:
        return
    keys = shape.visible_keys(end - 1, spec.causal)
    name = f"{shape.label}, head {index[0]}.{index[1]}, rows {first}-{end - 1}"
    # Not called gaussian: that yardstick was made for hundreds of keys, and many more average to next to nothing.
    case = Case(name, 1, 1, 1, end - first, keys, spec.head_dim, spec.head_dim_v, values="timed")
    yield _Block(replace(spec, causal=causal), case, index, slice(first, end), keys)


def checksum(*arrays: Array) -> int:
    """Of the bytes of contiguous arrays; cheap next to a kernel."""
    found = 0
    for array in arrays:
        found = zlib.crc32(array.view(np.uint8).data, found)
    return found


def _sentence(result: CaseResult) -> str:
    return f"{result.name}: {result.reason}"


def surrounded(shape: tuple[int, ...], dtype: np.dtype[Any]) -> tuple[Array, Array]:
    """An array of NaN within a larger one of NaN: (the larger one, flat; the array)."""
    size = int(np.prod(shape))
    whole = np.full(size + 2 * _MARGIN, np.nan, dtype)
    return whole, whole[_MARGIN : _MARGIN + size].reshape(shape)


def refuse_stray_writes(name: str, whole: Array) -> None:
    """Raises StrayWriteError if the surroundings of an array are not NaN any more."""
    margins = np.concatenate([whole[:_MARGIN], whole[len(whole) - _MARGIN :]])
    if not np.isnan(margins.astype(np.float64)).all():
        raise StrayWriteError(f"it wrote beyond {name}.")


_MARGIN = 4096
