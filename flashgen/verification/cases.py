"""The cases that `flashgen verify` and the tests run a kernel through.

Shapes stand on both sides of usual tile sizes, in every relation of seqlen_q to seqlen_k; values are
ordinary or hostile (see `values`). Sizes are modest: a kernel of plain loops takes about a
second for all of them at head dim 64.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from flashgen.reference import default_scale
from flashgen.spec import AttentionSpec, Causal
from flashgen.verification.values import MAKERS, SUBNORMAL_KEY_EXPONENT, subnormal_scale

Array = NDArray[Any]
Layout = Literal["bhsd", "bshd"]


@dataclass(frozen=True, slots=True)
class Case:
    """One call of a kernel.

    Attributes:
        name: a phrase for tables.
        batch, num_heads, num_heads_kv, seqlen_q, seqlen_k, head_dim, head_dim_v: sizes.
        values: name of the maker of q, k and v.
        offset: what the maker adds to all logits (before the scale), a signed power of two.
        softmax_scale: None for the default.
        seqlens_k: valid keys of each batch entry, or None.
        layout: ``bhsd`` or ``bshd``.
    """

    name: str
    batch: int
    num_heads: int
    num_heads_kv: int
    seqlen_q: int
    seqlen_k: int
    head_dim: int
    head_dim_v: int
    values: str = "gaussian"
    offset: float = 0.0
    softmax_scale: float | None = None
    seqlens_k: tuple[int, ...] | None = None
    layout: Layout = "bhsd"

    @property
    def shapes(self) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        """Shapes of q, k and v, heads before rows."""
        keys = (self.batch, self.num_heads_kv, self.seqlen_k)
        return (
            (self.batch, self.num_heads, self.seqlen_q, self.head_dim),
            (*keys, self.head_dim),
            (*keys, self.head_dim_v),
        )


@dataclass(frozen=True, slots=True)
class Inputs:
    """The arrays of a case in the kernel's dtype, heads before rows whatever the layout.

    Rows of K and V that no query row may see (padding, keys beyond the mask) hold NaN, and each array
    lies inside a larger one that is NaN everywhere else.
    """

    q: Array
    k: Array
    v: Array
    seqlens_k: NDArray[np.int64] | None


def make_inputs(case: Case, spec: AttentionSpec, seed: int) -> Inputs:
    """Draws the arrays of a case; equal arguments give equal arrays."""
    rng = np.random.default_rng([seed, *case.name.encode()])
    q, k, v = MAKERS[case.values](rng, case, spec.dtype)
    lengths = None if case.seqlens_k is None else np.array(case.seqlens_k, np.int64)
    for b in range(case.batch):
        end = case.seqlen_k if lengths is None else int(lengths[b])
        if spec.causal is Causal.TOP_LEFT:
            end = min(end, case.seqlen_q)
        k[b, :, end:] = v[b, :, end:] = np.nan
    storage = spec.dtype.numpy()
    q, k, v = (_surrounded(x.astype(storage), case.layout) for x in (q, k, v))
    return Inputs(q, k, v, lengths)


def _surrounded(x: Array, layout: Layout) -> Array:
    """A copy of x in the middle of a NaN array; in memory its axes are in the order of the layout."""
    stored = x if layout == "bhsd" else x.swapaxes(1, 2)
    buffer = np.full(tuple(size + 2 for size in stored.shape), np.nan, x.dtype)
    inner = buffer[1:-1, 1:-1, 1:-1, 1:-1]
    inner[...] = stored
    return inner if layout == "bhsd" else inner.swapaxes(1, 2)


def cases_for(spec: AttentionSpec) -> tuple[Case, ...]:
    """All cases for a kernel."""
    return (*shape_cases(spec), *value_cases(spec))


# batch, num_heads, num_heads_kv, seqlen_q, seqlen_k
_SHAPES = (
    (2, 8, 8, 1, 1),
    (2, 4, 4, 2, 2),
    (1, 2, 2, 17, 17),
    (1, 2, 2, 63, 63),
    (1, 2, 2, 64, 64),
    (1, 2, 2, 65, 65),
    (1, 2, 1, 127, 127),
    (1, 1, 1, 200, 200),
    (1, 1, 1, 333, 333),
    (2, 8, 2, 1, 333),
    (1, 2, 2, 2, 200),
    (1, 2, 1, 2, 2100),
    (1, 2, 1, 17, 333),
    (1, 2, 1, 333, 17),
    (1, 2, 2, 65, 63),
    (1, 2, 2, 63, 65),
    (1, 2, 2, 127, 1),
    (2, 4, 2, 33, 65),
    (1, 8, 1, 17, 65),
    (3, 2, 2, 40, 50),
)


def shape_cases(spec: AttentionSpec) -> Iterator[Case]:
    """Ordinary values: every relation of the sizes, grouped heads, padding, both layouts, and nothing at all."""
    for index, (batch, heads, heads_kv, seqlen_q, seqlen_k) in enumerate(_SHAPES):
        layout: Layout = "bshd" if index % 3 == 2 else "bhsd"
        yield _case(spec, "", batch, heads, heads_kv, seqlen_q, seqlen_k, layout=layout)
    yield _case(spec, "padded", 6, 2, 1, 33, 100, seqlens_k=(0, 1, 33, 64, 99, 100))
    yield _case(spec, "padded, long query", 3, 2, 2, 100, 70, seqlens_k=(65, 0, 70), layout="bshd")
    yield _case(spec, "no keys", 2, 2, 1, 5, 0)
    yield _case(spec, "no queries", 2, 2, 1, 0, 5)
    yield _case(spec, "no batch", 0, 2, 1, 5, 5)


def value_cases(spec: AttentionSpec) -> Iterator[Case]:
    """Hostile values, on shapes of several tiles."""
    for case in (
        *_scale_cases(spec),
        *_large_logit_cases(spec),
        *_running_maximum_cases(spec),
        *_constant_cases(),
    ):
        yield _several_tiles(spec, case)
    for case in (*_subnormal_cases(spec), *_nan_cases()):
        yield _several_tiles(spec, case)


_Value = tuple[str, dict[str, Any]]


def _scale_cases(spec: AttentionSpec) -> Iterator[_Value]:
    yield "scale 0", {"softmax_scale": 0.0}
    yield "negative scale", {"softmax_scale": -default_scale(spec.head_dim)}
    yield "tiny scale", {"softmax_scale": 1e-30}
    yield "large scale", {"values": "lattice", "softmax_scale": 128.0}
    yield "integer logits", {"values": "lattice", "softmax_scale": 0.5}


def _large_logit_cases(spec: AttentionSpec) -> Iterator[_Value]:
    """Logits near 1e5, 1e6, 1e10, 1e30, far from zero on either side.

    A power of two as scale keeps scale * (q.k) exact as well, so that a kernel is free to scale first.
    """
    for exponent in (17, 19, 22, 33, 100):
        for sign in (1, -1):
            offset, scale = _reachable(spec, exponent)
            name = f"logits near {'-' if sign < 0 else ''}2^{exponent - 1}"
            yield name, {"values": "lattice", "offset": sign * offset, "softmax_scale": scale / 2}
    if spec.dtype.name in ("bf16", "fp32"):
        # q.k fits fp32, the scaled logit does not: the answer is still the mean over the best keys.
        yield "scaled logits beyond fp32", {"values": "lattice", "offset": 2.0**100, "softmax_scale": 2.0**60}


def _running_maximum_cases(spec: AttentionSpec) -> Iterator[_Value]:
    far_below = -_reachable(spec, 100)[0]
    yield "rising logits", {"values": "rising", "softmax_scale": 0.125}
    yield "falling logits", {"values": "falling", "softmax_scale": 0.125}
    yield "maximum in the last keys", {"values": "late_maximum", "offset": far_below, "softmax_scale": 0.5}
    yield "maximum in the first keys", {"values": "early_maximum", "offset": far_below, "softmax_scale": 0.5}


def _constant_cases() -> Iterator[_Value]:
    yield "equal keys", {"values": "equal_keys"}
    yield "equal values", {"values": "equal_values"}


def _subnormal_cases(spec: AttentionSpec) -> Iterator[_Value]:
    yield "subnormal values", {"values": "subnormal_values"}
    # bf16 is left out: the bf16 dot products of x86 read subnormal numbers as zero.
    if spec.dtype.name in SUBNORMAL_KEY_EXPONENT:
        scale = subnormal_scale(spec.head_dim, spec.dtype)
        yield "subnormal queries", {"values": "subnormal_queries", "softmax_scale": scale}


def _nan_cases() -> Iterator[_Value]:
    yield "NaN in a query", {"values": "nan_query"}
    yield "NaN in a key", {"values": "nan_key"}
    yield "NaN in a value", {"values": "nan_value"}


def _reachable(spec: AttentionSpec, exponent: int) -> tuple[float, float]:
    """(offset, scale) with offset * scale = 2^exponent and an offset that one product of the dtype can reach."""
    reached = min(exponent, 30) if spec.dtype.name == "fp16" else exponent
    return 2.0**reached, 2.0 ** (exponent - reached)


def _several_tiles(spec: AttentionSpec, value: _Value) -> Case:
    """A shape whose rows see several tiles of keys, whatever the mask."""
    name, fields = value
    seqlen_q = 333 if spec.causal is Causal.TOP_LEFT else 33
    return _case(spec, name, 1, 2, 2, seqlen_q, 333, **fields)


def _case(
    spec: AttentionSpec,
    what: str,
    batch: int,
    heads: int,
    heads_kv: int,
    seqlen_q: int,
    seqlen_k: int,
    **fields: Any,
) -> Case:
    name = f"{what}, " if what else ""
    name += f"B={batch} H={heads}" + (f"/{heads_kv}" if heads_kv != heads else "") + f" Sq={seqlen_q} Sk={seqlen_k}"
    name += f" {fields['layout']}" if fields.get("layout") == "bshd" else ""
    return Case(name, batch, heads, heads_kv, seqlen_q, seqlen_k, spec.head_dim, spec.head_dim_v, **fields)
