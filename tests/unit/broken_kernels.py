"""The ways of breaking attention that real kernels know, each planted in the kernel in NumPy.

A fault is a class that overrides one step; its docstring, or its name, says what went wrong.
"""

from __future__ import annotations

import math

import numpy as np

from flashgen.reference import visible_keys
from flashgen.spec import Causal

from .tiled_kernel import LOG2E, TILE, TiledKernel


class FoldedScale(TiledKernel):
    """exp2(fma(s, c, -m * c)): m * c is rounded, s * c is not."""

    def weights(self, s, m, scale):
        c = self.compute(scale * LOG2E)
        shift = np.where(m == -np.inf, self.compute(0), m) * c
        return np.exp2(s.astype(np.longdouble) * c - shift[:, None]).astype(self.compute)


class ScaledFirst(TiledKernel):
    """scale * (q.k) overflows although q.k does not."""

    def head(self, q, k, v, scale, visible):
        self.factor = self.compute(scale)
        return super().head(q, k, v, 1.0, visible)

    def scores(self, q, k):
        return self.factor * (q @ k.T)


class FiniteMaximum(TiledKernel):
    """The running maximum starts at -1e30."""

    def first_maximum(self):
        return -1e30


class FiniteMask(TiledKernel):
    """Masked logits are -1e30 instead of -inf."""

    def select(self, s, visible):
        return np.where(visible, s, self.compute(-1e30))


class AddedMask(TiledKernel):
    """The mask is added, so a NaN that is masked stays one."""

    def select(self, s, visible):
        return s + np.where(visible, self.compute(0), self.compute(-np.inf))


class PaddingLoaded(TiledKernel):
    """Rows of V beyond the last key are loaded and multiplied by 0."""

    def load_tile(self, x, rows):
        return super().load_tile(x, min(TILE, len(x)))


class PaddingCounted(TiledKernel):
    """Keys of zeros fill the last tile and take part."""

    def select(self, s, visible):
        return np.where(visible | ~visible.any(axis=0), s, self.compute(-np.inf))


class LastKeyDropped(TiledKernel):
    """The last key of a ragged tile is forgotten."""

    def select(self, s, visible):
        rows = np.count_nonzero(visible.any(axis=0))
        return super().select(s, visible & (np.arange(TILE) != rows - 1) if 1 < rows < TILE else visible)


class TileDropped(TiledKernel):
    """Only the first two tiles are read."""

    def mask(self, seqlen_q, seqlen_k, valid):
        return super().mask(seqlen_q, seqlen_k, valid) & (np.arange(seqlen_k) < 2 * TILE)


class NoRescale(TiledKernel):
    """What came before a new maximum keeps its weight."""

    def rescale(self, m_old, m_new, scale):
        return np.where(m_old == -np.inf, self.compute(0), self.compute(1))


class ForgetfulMaximum(TiledKernel):
    """The maximum of the last tile replaces the running one."""

    def next_maximum(self, m, s):
        return s.max(axis=1)


class ClampedLogits(TiledKernel):
    """Differences below -12 count as -12."""

    def weights(self, s, m, scale):
        return super().weights(np.where(s == -np.inf, s, np.maximum(s, m[:, None] - 12 / scale)), m, scale)


class WrongDefaultScale(TiledKernel):
    """The default uses the head dim after padding to a multiple of 32."""

    def default_scale(self, d):
        return 1.0 / math.sqrt(-(-d // 32) * 32)


class ZeroScaleIgnored(TiledKernel):
    """0 counts as "not given"."""

    def scale(self, given, d):
        return given or self.default_scale(d)


class SignOfScaleLost(TiledKernel):
    def scale(self, given, d):
        return abs(super().scale(given, d))


class TinyScaleRaised(TiledKernel):
    def scale(self, given, d):
        scale = super().scale(given, d)
        return scale if scale == 0 or abs(scale) > 1e-6 else 1.0


class OffByOne(TiledKernel):
    """Every row sees one key more."""

    def mask(self, seqlen_q, seqlen_k, valid):
        mask = super().mask(seqlen_q, seqlen_k, valid)
        return mask | np.pad(mask, ((0, 0), (1, 0)), constant_values=False)[:, :-1]


class OtherAlignment(TiledKernel):
    def mask(self, seqlen_q, seqlen_k, valid):
        other = {
            Causal.TOP_LEFT: Causal.BOTTOM_RIGHT,
            Causal.BOTTOM_RIGHT: Causal.TOP_LEFT,
            Causal.NONE: Causal.TOP_LEFT,
        }
        return visible_keys(seqlen_q, seqlen_k, other[self.spec.causal], valid)


class PaddingInAlignment(TiledKernel):
    """The diagonal ends at Sk, not at seqlens_k[b]."""

    def mask(self, seqlen_q, seqlen_k, valid):
        return visible_keys(seqlen_q, seqlen_k, self.spec.causal) & (np.arange(seqlen_k) < valid)


class LengthsIgnored(TiledKernel):
    def lengths(self, seqlens_k, batch, seqlen_k):
        return [seqlen_k] * batch


class LengthsOfFirstEntry(TiledKernel):
    def lengths(self, seqlens_k, batch, seqlen_k):
        lengths = super().lengths(seqlens_k, batch, seqlen_k)
        return [max(lengths, default=0)] * batch


class HeadsInterleaved(TiledKernel):
    def kv_head(self, h, heads, heads_kv):
        return h % heads_kv


class OneHeadOfKeys(TiledKernel):
    def kv_head(self, h, heads, heads_kv):
        return 0


class EmptyRowsAreNaN(TiledKernel):
    def finish(self, o, total):
        return o / total[:, None]


class EmptyRowsHaveFiniteLse(TiledKernel):
    def log_sum(self, m, total, scale):
        return np.where(total == 0, self.compute(0), super().log_sum(m, total, scale))


class LseOfBaseTwo(TiledKernel):
    def log_sum(self, m, total, scale):
        return super().log_sum(m, total, scale) * self.compute(LOG2E)


class LseWithoutMaximum(TiledKernel):
    def log_sum(self, m, total, scale):
        return np.log(total)


class UnscaledLse(TiledKernel):
    def log_sum(self, m, total, scale):
        return super().log_sum(m, total, 1.0)


class RoundedScores(TiledKernel):
    """S passes through 16 bits."""

    def scores(self, q, k):
        return super().scores(q, k).astype(np.float16).astype(self.compute)


class TensorFloat32(TiledKernel):
    """Operands keep 10 bits of mantissa."""

    def load(self, x):
        bits = super().load(x).astype(np.float32).view(np.uint32) + np.uint32(1 << 12)
        return (bits & np.uint32(0xFFFFE000)).view(np.float32).astype(self.compute)


class RoundedOutput(TiledKernel):
    """The result passes through bf16's 8 bits."""

    def finish(self, o, total):
        bits = super().finish(o, total).astype(np.float32).view(np.uint32)
        return (bits & np.uint32(0xFFFF0000)).view(np.float32)


class ApproximateReciprocal(TiledKernel):
    """1 / l comes from a table of 12 bits."""

    def finish(self, o, total):
        return super().finish(o, total) * self.compute(1 - 2.0**-12)


class FlushedSubnormals(TiledKernel):
    def load(self, x):
        smallest_normal = 2.0 ** {"fp16": -14, "fp64": -1022}.get(self.spec.dtype.name, -126)
        return np.where(abs(super().load(x)) < smallest_normal, self.compute(0), super().load(x))


class NaNSwallowed(TiledKernel):
    """A NaN among the logits counts as a masked key, one in V as 0."""

    def select(self, s, visible):
        return super().select(s, visible & ~np.isnan(s))

    def load(self, x):
        return np.where(np.isfinite(super().load(x)), super().load(x), self.compute(0))


class NaNSpreads(TiledKernel):
    """One row's NaN reaches the others of its tile."""

    def next_maximum(self, m, s):
        m_new = super().next_maximum(m, s)
        return np.full_like(m_new, np.nan) if np.isnan(m_new).any() else m_new


class LayoutIgnored(TiledKernel):
    """The result has its heads before its rows in either layout."""

    def __call__(self, q, k, v, *, layout, **options):
        out, lse = super().__call__(q, k, v, layout=layout, **options)
        return (out.swapaxes(1, 2) if layout == "bshd" else out), lse


class WritesToInputs(TiledKernel):
    def __call__(self, q, k, v, **options):
        q *= q.dtype.type(0.5)
        return super().__call__(q, k, v, **options)


class WrongType(TiledKernel):
    def __call__(self, q, k, v, **options):
        out, lse = super().__call__(q, k, v, **options)
        return out.astype(np.float64 if self.compute is np.float32 else np.float32), lse


class WrongLseShape(TiledKernel):
    def __call__(self, q, k, v, **options):
        out, lse = super().__call__(q, k, v, **options)
        return out, lse[..., None]


FAULTS = {fault.__name__: fault for fault in TiledKernel.__subclasses__()}
