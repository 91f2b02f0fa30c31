"""atom and red: what becomes of a value in memory. Lanes with one address take turns, in ascending order."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from flashgen.emulator.lockstep.access import Storage
from flashgen.emulator.lockstep.ops.floating import canonical, flush
from flashgen.emulator.lockstep.ops.rounding import FORMATS, decode, encode, quantise, two_sum
from flashgen.emulator.lockstep.ops.table import VIEWS, Array

Update = Callable[[Storage, Array, int, list[Array], bool], Array]
_Fresh = Callable[..., Array]


def _updating(fresh: _Fresh, in_global: _Fresh | None = None) -> Update:
    """``fresh``: (what is there, operands...) -> what shall be there, all as bits."""

    def update(storage: Storage, offsets: Array, element: int, operands: list[Array], is_global: bool) -> Array:
        function = in_global if is_global and in_global is not None else fresh
        before = np.zeros(len(offsets), f"u{element}")
        pending = np.argsort(offsets, kind="stable")
        while len(pending):  # in each turn one lane of each address
            place = offsets[pending]
            first = np.concatenate([[True], place[1:] != place[:-1]])
            lanes, which = pending[first], np.cumsum(first) - 1
            old = storage.gather(offsets[lanes], element, 1)[:, 0]
            new = np.ascontiguousarray(function(old, *(x[lanes] for x in operands))).view(old.dtype)
            storage.scatter(offsets[lanes], new[:, None])
            # Where nothing changed, lanes that ask for the same change nothing either.
            same = (new == old)[which]
            for x in operands:
                same &= x[pending] == x[lanes][which]
            done = first | same
            before[pending[done]] = old[which[done]]
            pending = pending[~done]
        return before

    return update


def _typed(t: str, function: _Fresh) -> _Fresh:
    return lambda *bits: function(*(x.view(VIEWS[t]) for x in bits))


def _add_halves(kind: str) -> _Fresh:
    def fresh(a: Array, b: Array) -> Array:
        x, y = (decode(bits.view(np.uint16), kind) for bits in (a, b))
        return encode(quantise(*two_sum(x, y), FORMATS[kind]), kind)

    return fresh


def _increment(old: Array, bound: Array) -> Array:
    return np.where(old >= bound, np.uint32(0), old + np.uint32(1))


def _decrement(old: Array, bound: Array) -> Array:
    return np.where((old == 0) | (old > bound), bound, old - np.uint32(1))


def _exchange(old: Array, value: Array) -> Array:
    return value


def _swap(old: Array, expected: Array, value: Array) -> Array:
    return np.where(old == expected, value, old)


def _add_flushed(a: Array, b: Array) -> Array:
    return canonical(flush(flush(a) + flush(b)))


def _plain_updates() -> dict[str, Update]:
    found: dict[str, Update] = {}
    for w in (32, 64):
        found[f"atom.add.u{w}"] = _updating(np.add)
        for name, function in (("and", np.bitwise_and), ("or", np.bitwise_or), ("xor", np.bitwise_xor)):
            found[f"atom.{name}.b{w}"] = _updating(function)
        found[f"atom.exch.b{w}"] = _updating(_exchange)
        for t in (f"u{w}", f"s{w}"):
            found[f"atom.min.{t}"] = _updating(_typed(t, np.minimum))
            found[f"atom.max.{t}"] = _updating(_typed(t, np.maximum))
    for w in (16, 32, 64):
        found[f"atom.cas.b{w}"] = _updating(_swap)
    return found


# Adding floats in global memory flushes subnormals, in shared memory it does not.
UPDATES: dict[str, Update] = {
    **_plain_updates(),
    "atom.inc.u32": _updating(_increment),
    "atom.dec.u32": _updating(_decrement),
    "atom.add.f32": _updating(_typed("f32", lambda a, b: canonical(a + b)), _typed("f32", _add_flushed)),
    "atom.add.f64": _updating(_typed("f64", lambda a, b: canonical(a + b))),
    **{f"atom.add.{kind}{pair}": _updating(_add_halves(kind)) for kind in ("f16", "bf16") for pair in ("", "x2")},
}
