# ruff: noqa: E501, E741 - rows of tables, and the authors' names
"""llm.c's attention: the kernels of dev/cuda/attention_forward.cu, and those that it trains with."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from lab import Array, Case, Launch, off, outputs

from flashgen.emulator import In, InOut, Out
from flashgen.reference import attention_reference
from flashgen.spec import Causal

_FORWARD = "dev/cuda/attention_forward.cu"
_COMMON = "dev/cuda/common.h"
_TRAINING = "llmc/attention.cuh"
_UTILS = "llmc/cuda_utils.cuh"
_FLOAT = "typedef float floatX;\n#define WARP_SIZE 32U\n"
_HELPERS = ["warpReduceMax", "vec_at"]
_NAMESPACE = "namespace cg = cooperative_groups;\n"


class _Problem:
    """Packed Q, K and V of shape (B, T, 3, NH, hs), as all of these kernels take them.

    Attributes:
        inp: them. ``out``: attention's, (B, T, NH, hs). ``scores``: scaled, (B, NH, T, T), -inf beyond the diagonal.
        weights: their softmax.
    """

    def __init__(self, batch: int = 2, seqlen: int = 48, heads: int = 3, size: int = 16) -> None:
        self.b, self.t, self.nh, self.hs, self.c = batch, seqlen, heads, size, heads * size
        self.inp = np.random.default_rng(seqlen).standard_normal((batch, seqlen, 3, heads, size)).astype(np.float32)
        q, k, v = (np.ascontiguousarray(self.inp[:, :, n].transpose(0, 2, 1, 3)) for n in range(3))
        self.q, self.k, self.v = q, k, v  # (B, NH, T, hs)
        out, _ = attention_reference(q, k, v, causal=Causal.TOP_LEFT)
        self.out = out.transpose(0, 2, 1, 3)
        dots = np.einsum("bhid,bhjd->bhij", q.astype(np.float64), k.astype(np.float64))
        self.visible = np.tril(np.ones((seqlen, seqlen), bool))
        self.scores = np.where(self.visible, dots / np.sqrt(size), -np.inf)
        powers = np.exp(self.scores - self.scores.max(axis=-1, keepdims=True))
        self.weights = powers / powers.sum(axis=-1, keepdims=True)

    @property
    def sizes(self) -> list[int]:
        """B, T, C, NH."""
        return [self.b, self.t, self.c, self.nh]

    def square(self, fill: float = 0.0) -> Array:
        """An array for scores."""
        return np.full((self.b, self.nh, self.t, self.t), fill, np.float32)


def _blocks(threads: int, block: int) -> int:
    return -(-threads // block)


def _naive() -> Case:
    """Version 1: scores, softmax, values."""
    p, block = _Problem(), 128

    def launches() -> list[Launch]:
        scores, weights, out = p.square(), p.square(), np.zeros((p.b, p.t, p.c), np.float32)
        rows = p.b * p.nh * p.t
        return [
            Launch("attention_query_key_kernel1", _blocks(rows * p.t, block), block, [Out(scores), In(p.inp), *p.sizes]),
            Launch("attention_softmax_kernel1", _blocks(rows, block), block, [Out(weights), In(scores), p.b, p.t, p.nh]),
            Launch("attention_value_kernel1", _blocks(rows, block), block, [Out(out), In(weights), In(p.inp), *p.sizes]),
        ]  # fmt: skip

    def check(done: list[Launch]) -> float:
        _, weights, out = outputs(done)
        return max(off(weights, p.weights), off(out.reshape(p.out.shape), p.out))

    kernels = ["attention_query_key_kernel1", "attention_softmax_kernel1", "attention_value_kernel1"]
    return Case("attention_forward 1, naive", ((_FORWARD, kernels),), launches, check, 2e-6)


def _flash(seqlen: int, expected: dict[str, str]) -> Case:
    """Version 2, flash attention from flash-attention-minimal: tiles of 32 rows, one thread for each."""
    p = _Problem(seqlen=seqlen)
    tiles = -(-p.t // 32)

    def launches() -> list[Launch]:
        l, out = np.zeros((p.b, p.nh, p.t), np.float32), np.zeros_like(p.q)
        m = np.full(4 * l.size, 0xF0, np.uint8).view(np.float32).reshape(l.shape)  # the source's memset of -10000.0f
        numbers = [p.t, p.hs, tiles, tiles, 32, 32, 1 / np.sqrt(p.hs)]
        args = [In(p.q), In(p.k), In(p.v), *numbers, InOut(l), InOut(m), Out(out)]
        return [Launch("attention_forward_kernel2", (p.b, p.nh), 32, args, shared=4 * (3 * 32 * p.hs + 32 * 32))]

    def check(done: list[Launch]) -> float:
        return off(outputs(done)[2], p.out.transpose(0, 2, 1, 3))

    name = f"attention_forward 2, flash, T = {seqlen}"
    return Case(name, ((_FORWARD, ["attention_forward_kernel2"]),), launches, check, 2e-6, expected=expected)


def _softmax(kernel: str, make: Callable[[_Problem, Array, Array], Launch], causal: bool) -> Case:
    p = _Problem()
    scores = np.where(p.visible, p.scores, 0).astype(np.float32)

    def launches() -> list[Launch]:
        return [make(p, p.square(), scores)]

    def check(done: list[Launch]) -> float:
        (weights,) = outputs(done)
        if causal:
            return off(np.where(p.visible, weights, 0), p.weights)
        powers = np.exp(scores.astype(np.float64) - scores.max(axis=-1, keepdims=True))
        return off(weights, powers / powers.sum(axis=-1, keepdims=True))

    return Case(
        f"attention_forward, {kernel}", ((_COMMON, ["warpReduceSum"]), (_FORWARD, [*_HELPERS, kernel])), launches, check,
        1e-6, before=_NAMESPACE,
    )  # fmt: skip


def _softmax4(p: _Problem, out: Array, scores: Array) -> Launch:
    return Launch("softmax_forward_kernel4", p.b * p.nh * p.t, 128, [Out(out), In(scores), 0, p.t], shared=2 * 4 * 4)


def _softmax5(p: _Problem, out: Array, scores: Array) -> Launch:
    rows = p.b * p.nh * p.t
    return Launch("softmax_forward_kernel5", _blocks(rows, 4), 128, [InOut(out), 1.0, In(scores), p.b * p.nh, p.t])


def _fused() -> Case:
    """One warp for each row, and scores and weights through global memory."""
    p, block = _Problem(), 128

    def launches() -> list[Launch]:
        scores, weights, out = p.square(), p.square(), np.zeros((p.b, p.t, p.c), np.float32)
        grid = (_blocks(p.t, block // 32), p.nh, p.b)
        args = [Out(out), InOut(scores), InOut(weights), In(p.inp), *p.sizes]
        return [Launch("attention_forward_fused1", grid, block, args)]

    def check(done: list[Launch]) -> float:
        out, _, weights = outputs(done)
        return max(off(out.reshape(p.out.shape), p.out), off(np.where(p.visible, weights, 0), p.weights))

    return Case(
        "attention_forward, fused1", ((_FORWARD, ["attention_forward_fused1"]),), launches, check, 2e-6,
        before=_NAMESPACE,
        expected={"race": "lanes read from global memory what other lanes of their warp wrote, with only shuffles between"},
    )  # fmt: skip


def _permutations() -> Case:
    p, block = _Problem(), 256

    def launches() -> list[Launch]:
        q, k, v, back = (np.zeros_like(p.q) for _ in range(4))
        grid, sizes = _blocks(p.q.size, block), [p.b, p.t, p.nh, p.hs]
        return [
            Launch("permute_kernel", grid, block, [Out(q), Out(k), Out(v), In(p.inp), *sizes]),
            Launch("unpermute_kernel", grid, block, [In(q), Out(back), *sizes]),
        ]

    def check(done: list[Launch]) -> float:
        q, k, v, back = outputs(done)
        pairs = ((q, p.q), (k, p.k), (v, p.v), (back.reshape(p.out.shape), p.inp[:, :, 0]))
        return max(off(got, wanted) for got, wanted in pairs)

    kernels = ["permute_kernel", "unpermute_kernel"]
    return Case("training, permutations", ((_TRAINING, kernels),), launches, check, 0.0, before=_FLOAT)


_TRAINED = ["softmax_forward_kernel5", "softmax_autoregressive_backward_inplace_kernel"]
_SUMS = ["warpReduceSum", "warpReduceMax", "reduction_func_t", "blockReduce"]
_CALL, _REPAIRED = "blockReduce<warpReduceSum>(local_sum)", "blockReduce<warpReduceSum>(local_sum, true)"


def _training_softmax() -> Case:
    """The softmax that it trains with."""
    p = _Problem()
    scores = np.where(p.visible, p.scores, 0).astype(np.float32)

    def launches() -> list[Launch]:
        n = p.b * p.nh
        args = [InOut(p.square()), 1.0, In(scores), n, p.t]
        return [Launch("softmax_forward_kernel5", _blocks(n * p.t, 8), 256, args)]

    parts = ((_UTILS, _SUMS), (_TRAINING, _TRAINED))
    return Case(
        "training, softmax", parts, launches, lambda done: off(outputs(done)[0], p.weights), 1e-6, before=_FLOAT
    )


def _training_backward(repaired: bool) -> Case:
    """Its backward pass in place: as it is, and with the barrier that blockReduce asks for when it is in a loop."""
    p, scale = _Problem(), 0.25
    weights = p.weights.astype(np.float32)
    gradient = np.random.default_rng(9).standard_normal(weights.shape).astype(np.float32)

    def launches() -> list[Launch]:
        args = [InOut(gradient.copy()), In(weights), p.b, p.t, p.c, scale]
        return [Launch("softmax_autoregressive_backward_inplace_kernel", (p.t // 4, p.b * p.nh), 256, args)]

    def check(done: list[Launch]) -> float:
        sums = (p.weights * gradient).sum(axis=-1, keepdims=True)
        return off(outputs(done)[0], scale * p.weights * (gradient - sums))

    known = {
        "race": "blockReduce runs in a loop without the final barrier that its comment asks for then, so that a warp may overwrite sums that others have not read yet: in one of the orders of warps the gradients come out wrong"
    }
    parts = ((_UTILS, _SUMS), (_TRAINING, _TRAINED))
    if repaired:
        name = "training, softmax backward with the barrier"
        return Case(name, parts, launches, check, 1e-6, before=_FLOAT, patch=(_CALL, _REPAIRED))
    name = "training, softmax backward"
    return Case(name, parts, launches, lambda done: 0.0, 0.0, before=_FLOAT, expected=known)


def cases() -> list[Case]:
    """All of them."""
    beyond = {"out-of-bounds": "the last tile is loaded whole, though T is no multiple of its 32 rows"}
    unset = {"uninitialised-read": "the first tile multiplies what the caller left in `O` by 0"}
    return [
        _naive(), _flash(64, unset), _flash(48, beyond | unset), _softmax("softmax_forward_kernel4", _softmax4, False),
        _softmax("softmax_forward_kernel5", _softmax5, True), _fused(), _permutations(), _training_softmax(),
        _training_backward(repaired=False), _training_backward(repaired=True),
    ]  # fmt: skip
