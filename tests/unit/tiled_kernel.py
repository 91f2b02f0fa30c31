"""Attention in NumPy as the real kernels do it: tiles of keys, a running maximum, exp2.

A right kernel to verify, made of small steps, so that a subclass can do one of them wrongly.
"""

from __future__ import annotations

import math

import numpy as np

from flashgen.reference import visible_keys

TILE = 64
LOG2E = 1.0 / math.log(2.0)


class TiledKernel:
    """Online-softmax attention over tiles of keys; a fault is a subclass that overrides one step."""

    def __init__(self, spec):
        self.spec = spec
        self.compute = np.float64 if spec.dtype.size == 8 else np.float32

    # ---- The steps ----

    def default_scale(self, d):
        return 1.0 / math.sqrt(d)

    def scale(self, given, d):
        return self.default_scale(d) if given is None else given

    def kv_head(self, h, heads, heads_kv):
        return h // (heads // heads_kv)

    def lengths(self, seqlens_k, batch, seqlen_k):
        return [seqlen_k] * batch if seqlens_k is None else seqlens_k

    def mask(self, seqlen_q, seqlen_k, valid):
        return visible_keys(seqlen_q, seqlen_k, self.spec.causal, valid)

    def load(self, x):
        return x.astype(self.compute)

    def load_tile(self, x, rows):
        """The first `rows` rows of a tile; the rest holds no key and becomes zeros."""
        tile = np.zeros((TILE, x.shape[1]), self.compute)
        tile[:rows] = self.load(x[:rows])
        return tile

    def scores(self, q, k):
        return q @ k.T

    def select(self, s, visible):
        return np.where(visible, s, self.compute(-np.inf))

    def first_maximum(self):
        return -np.inf

    def weights(self, s, m, scale):
        """e^(scale * (s - m)) where nothing is left of a row that has seen no key."""
        shift = np.where(m == -np.inf, self.compute(0), m)
        return np.exp2((s - shift[:, None]) * self.compute(scale * LOG2E))

    def rescale(self, m_old, m_new, scale):
        shift = np.where(m_new == -np.inf, self.compute(0), m_new)
        return np.exp2((m_old - shift) * self.compute(scale * LOG2E))

    def round_p(self, p):
        return p.astype(self.spec.dtype.numpy()).astype(self.compute) if self.spec.dtype.size == 2 else p

    def next_maximum(self, m, s):
        return np.maximum(m, s.max(axis=1))

    def finish(self, o, total):
        return np.where(total[:, None] == 0, self.compute(0), o / np.where(total == 0, self.compute(1), total)[:, None])

    def log_sum(self, m, total, scale):
        with np.errstate(divide="ignore"):
            return np.where(total == 0, self.compute(-np.inf), self.compute(scale) * m + np.log(total))

    # ---- The whole ----

    def head(self, q, k, v, scale, visible):
        # A negative scale turns the maximum of q.k into the minimum of the logits; a zero scale meets -inf.
        sign = -1.0 if scale < 0 else 1.0
        q, scale = self.load(q) * self.compute(sign), abs(scale)
        if scale == 0:
            q, scale = q * 0, 1.0
        m = np.full(len(q), self.first_maximum(), self.compute)
        total, o = np.zeros(len(q), self.compute), np.zeros((len(q), v.shape[1]), self.compute)
        # A tile with no key for any row is not visited, and what lies beyond the last key is not loaded.
        seen = np.flatnonzero(visible.any(axis=0))
        end = seen[-1] + 1 if seen.size else 0
        for j in range(0, end, TILE):
            rows = min(TILE, end - j)
            shown = np.zeros((len(q), TILE), bool)
            shown[:, :rows] = visible[:, j : j + rows]
            s = self.select(self.scores(q, self.load_tile(k[j:], rows)), shown)
            m_new = self.next_maximum(m, s)
            alpha, p = self.rescale(m, m_new, scale), self.weights(s, m_new, scale)
            total = total * alpha + p.sum(axis=1)
            o = o * alpha[:, None] + self.weigh(self.round_p(p), self.load_tile(v[j:], rows))
            m = m_new
        return self.finish(o, total), self.log_sum(m, total, scale)

    def weigh(self, p, v):
        return p @ v

    def __call__(self, q, k, v, *, return_lse, softmax_scale, seqlens_k, layout):
        if layout == "bshd":
            q, k, v = (x.swapaxes(1, 2) for x in (q, k, v))
        batch, heads, seqlen_q, d = q.shape
        out = np.zeros((batch, heads, seqlen_q, v.shape[3]), self.spec.dtype.numpy())
        lse = np.zeros((batch, heads, seqlen_q), self.compute)
        valid = self.lengths(seqlens_k, batch, k.shape[2])
        with np.errstate(all="ignore"):
            for b in range(batch):
                visible = self.mask(seqlen_q, k.shape[2], int(valid[b]))
                for h in range(heads):
                    at = b, self.kv_head(h, heads, k.shape[1])
                    o, lse[b, h] = self.head(q[b, h], k[at], v[at], self.scale(softmax_scale, d), visible)
                    out[b, h] = o.astype(out.dtype)
        return (out.swapaxes(1, 2) if layout == "bshd" else out), lse
