"""Verification finds faults: a kernel in NumPy passes, and every way of breaking it is caught.

The stand-in works as the real kernels do (tiles of keys, a running maximum, exp2), so that its faults are
those that real kernels have. The last tests turn the question round: every case catches some fault.
"""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from flashgen.reference import visible_keys
from flashgen.spec import Causal, make_spec
from flashgen.verification import (
    CaseResult,
    VerificationReport,
    cases_for,
    compare,
    expect,
    make_inputs,
    run_case,
    verify,
)

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


# ---- Faults. Each class is one; its docstring says what went wrong. ----


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

# Fault, a case that must find it, and where it is planted (fp32 without a mask unless said otherwise).
FOUND_BY = [
    ("FoldedScale", "logits near 2^18", {}),
    ("FoldedScale", "logits near 2^32", {}),
    ("FoldedScale", "logits near -2^99", {"dtype": "bf16"}),
    ("FoldedScale", "logits near 2^32", {"dtype": "fp16"}),
    ("ScaledFirst", "scaled logits beyond fp32", {}),
    ("FiniteMaximum", "logits near -2^99", {}),
    ("FiniteMask", "logits near -2^99", {"causal": "top_left"}),
    ("FiniteMask", "Sq=333 Sk=17", {"causal": "bottom_right"}),
    ("AddedMask", "NaN in a key", {"causal": "top_left"}),
    ("PaddingLoaded", "padded", {}),
    ("PaddingCounted", "Sq=65 Sk=65", {}),
    ("PaddingCounted", "Sq=65 Sk=65", {"dtype": "bf16"}),
    ("LastKeyDropped", "Sq=333 Sk=333", {}),
    ("LastKeyDropped", "Sq=333 Sk=333", {"dtype": "bf16"}),
    ("LastKeyDropped", "Sq=333 Sk=333", {"dtype": "fp16", "causal": "bottom_right"}),
    ("TileDropped", "Sq=1 Sk=333", {"dtype": "bf16"}),
    ("NoRescale", "rising logits", {}),
    ("ForgetfulMaximum", "maximum in the first keys", {}),
    ("ForgetfulMaximum", "maximum in the first keys", {"dtype": "fp16"}),
    ("ClampedLogits", "maximum in the last keys", {}),
    ("WrongDefaultScale", "Sq=17 Sk=17", {}),
    ("ZeroScaleIgnored", "scale 0", {}),
    ("SignOfScaleLost", "negative scale", {}),
    ("TinyScaleRaised", "tiny scale", {}),
    ("OffByOne", "Sq=2 Sk=200", {"causal": "bottom_right"}),
    ("OffByOne", "Sq=17 Sk=17", {"causal": "top_left"}),
    ("OtherAlignment", "Sq=17 Sk=333", {"causal": "bottom_right"}),
    ("OtherAlignment", "Sq=65 Sk=63", {"causal": "top_left"}),
    ("PaddingInAlignment", "padded", {"causal": "bottom_right"}),
    ("LengthsIgnored", "padded", {}),
    ("LengthsOfFirstEntry", "padded", {}),
    ("HeadsInterleaved", "H=4/2", {}),
    ("OneHeadOfKeys", "H=8/2", {}),
    ("EmptyRowsAreNaN", "padded", {}),
    ("EmptyRowsAreNaN", "Sq=333 Sk=17", {"causal": "bottom_right"}),
    ("EmptyRowsAreNaN", "no keys", {}),
    ("EmptyRowsHaveFiniteLse", "padded", {}),
    ("LseOfBaseTwo", "Sq=17 Sk=17", {}),
    ("LseWithoutMaximum", "Sq=17 Sk=17", {}),
    ("UnscaledLse", "Sq=17 Sk=17", {}),
    ("RoundedScores", "logits near 2^16", {"dtype": "bf16"}),
    ("RoundedScores", "Sq=17 Sk=17", {"dtype": "fp16"}),
    ("TensorFloat32", "Sq=17 Sk=17", {}),
    ("RoundedOutput", "Sq=17 Sk=17", {"dtype": "fp16"}),
    ("ApproximateReciprocal", "equal values", {}),
    ("FlushedSubnormals", "subnormal values", {}),
    ("FlushedSubnormals", "subnormal queries", {}),
    ("FlushedSubnormals", "subnormal queries", {"dtype": "fp16"}),
    ("FlushedSubnormals", "subnormal values", {"dtype": "fp64"}),
    ("NaNSwallowed", "NaN in a query", {}),
    ("NaNSwallowed", "NaN in a key", {}),
    ("NaNSwallowed", "NaN in a value", {}),
    ("NaNSpreads", "NaN in a query", {}),
    ("LayoutIgnored", "bshd", {}),
    ("WritesToInputs", "Sq=17 Sk=17", {}),
    ("WrongType", "no queries", {}),
    ("WrongLseShape", "no batch", {}),
]


def spec_of(dtype="fp32", causal=False):
    return make_spec(40, dtype, causal, 24)


def verified(spec, kernel=TiledKernel, **options):
    return verify(kernel(spec), spec, **options)


# ---- The kernel as it should be ----


@pytest.mark.parametrize("causal", [False, "top_left", "bottom_right"])
@pytest.mark.parametrize("dtype", ["fp16", "bf16", "fp32", "fp64"])
def test_a_right_kernel_passes(dtype, causal):
    report = verified(spec_of(dtype, causal))
    assert report.passed, report.summary()


@pytest.mark.parametrize(
    ("d", "d_v", "dtype", "causal"),
    [
        (1, 1, "fp32", False),
        (1, 5, "fp16", "top_left"),
        (2, 1, "bf16", "bottom_right"),
        (7, 1, "fp64", "top_left"),
        (256, 8, "fp32", "bottom_right"),
        (512, 256, "fp32", False),
        (512, 3, "bf16", False),
        (512, 3, "fp16", "bottom_right"),
    ],
)
def test_a_right_kernel_passes_at_any_head_dim(d, d_v, dtype, causal):
    report = verified(make_spec(d, dtype, causal, d_v))
    assert report.passed, report.summary()


@pytest.mark.parametrize(
    ("seed", "dtype"), [(1, "fp16"), (2, "bf16"), (3, "fp32"), (4, "fp16"), (5, "bf16"), (6, "fp32")]
)
def test_a_right_kernel_passes_with_any_seed(seed, dtype):
    report = verified(spec_of(dtype), seed=seed)
    assert report.passed, report.summary()


# ---- Broken kernels ----


@pytest.mark.parametrize(("fault", "case", "where"), FOUND_BY, ids=lambda x: x if isinstance(x, str) else None)
def test_a_fault_is_found_by_the_case_made_for_it(fault, case, where):
    spec = spec_of(**where)
    cases = [known for known in cases_for(spec) if case in known.name]
    report = verified(spec, FAULTS[fault], cases=cases)
    assert report.failures, f"{fault} passed {report.summary()}"


def test_every_fault_is_tried():
    assert {fault for fault, _, _ in FOUND_BY} == set(FAULTS)


# Faults of values, those that most cases find first.
SUBTLE = [
    "LastKeyDropped",
    "LseWithoutMaximum",
    "RoundedScores",
    "FoldedScale",
    "ZeroScaleIgnored",
    "SignOfScaleLost",
    "TinyScaleRaised",
    "FlushedSubnormals",
    "NaNSwallowed",
    "ScaledFirst",
    "FiniteMaximum",
    "EmptyRowsAreNaN",
    "LengthsIgnored",
    "OffByOne",
    "HeadsInterleaved",
    "ApproximateReciprocal",
    "PaddingCounted",
    "NoRescale",
    "ForgetfulMaximum",
    "UnscaledLse",
]


@pytest.mark.parametrize(
    "where", [{}, {"causal": "bottom_right"}, {"dtype": "bf16"}, {"dtype": "fp16", "causal": "top_left"}]
)
def test_every_case_finds_a_fault(where):
    spec = spec_of(**where)
    cases = [case for case in cases_for(spec) if case.batch and case.seqlen_q]
    blind = [case.name for case in cases if all(run_case(FAULTS[fault](spec), spec, case).passed for fault in SUBTLE)]
    assert not blind


@pytest.mark.parametrize("fault", ["WrongType", "WrongLseShape"])
def test_calls_that_return_nothing_still_check_what_they_return(fault):
    cases = [case for case in cases_for(spec_of()) if not case.batch * case.seqlen_q]
    assert len(cases) == 2
    assert len(verified(spec_of(), FAULTS[fault], cases=cases).failures) == 2


# ---- Tolerances ----


def errors_allowed(dtype, values="gaussian", **fields):
    spec = spec_of(dtype, "bottom_right")
    case = replace(next(iter(cases_for(spec))), seqlen_q=50, seqlen_k=50, values=values, **fields)
    inputs = make_inputs(case, spec, 0)
    return case, expect(spec, case, inputs)


@pytest.mark.parametrize(("dtype", "relative"), [("fp64", 1e-13), ("fp32", 2e-6), ("fp16", 2.0**-9), ("bf16", 2.0**-6)])
def test_tolerances_are_as_promised(dtype, relative):
    _, expected = errors_allowed(dtype)
    assert expected.out_tolerance.max() <= relative * abs(expected.out).max()
    assert expected.out_tolerance.min() > 0
    np.testing.assert_array_equal(
        expected.lse_tolerance, (1e-13 if dtype == "fp64" else 2e-6) * np.maximum(1, abs(expected.lse))
    )


@pytest.mark.parametrize("dtype", ["fp16", "bf16", "fp32", "fp64"])
def test_rows_that_average_more_values_are_allowed_less(dtype):
    _, expected = errors_allowed(dtype)
    assert expected.out_tolerance[:, :, -1].max() < expected.out_tolerance[:, :, 0].max()


@pytest.mark.parametrize("which", ["out", "lse"])
@pytest.mark.parametrize("dtype", ["fp32", "fp64"])
@pytest.mark.parametrize("factor", [0.8, 1.2])
def test_an_error_passes_up_to_its_tolerance(dtype, which, factor):
    case, expected = errors_allowed(dtype)
    spec = spec_of(dtype, "bottom_right")
    right = {"out": expected.out, "lse": expected.lse}
    allowed = {"out": expected.out_tolerance, "lse": expected.lse_tolerance}[which]
    at = np.unravel_index(np.argmax(allowed), allowed.shape)
    wrong = right[which].copy()
    wrong[at] += factor * allowed[at]
    out, lse = (x.astype(spec.dtype.numpy()) for x in (right | {which: wrong}).values())
    result = compare(spec, case, expected, out, lse)
    assert result.passed == (factor < 1)
    assert result.severity == pytest.approx(factor, rel=0.1)


# ---- The report ----


def test_a_fault_is_described_with_its_place():
    case, expected = errors_allowed("fp64")
    out, lse = expected.out.copy(), expected.lse.copy()
    out[0, 1, 7, 3] += 1.0
    lse[0, 0, 5] = np.nan
    reason = compare(spec_of("fp64"), case, expected, out, lse).reason
    assert reason.startswith("out[0, 1, 7, 3] is ")
    assert "; 1 of " in reason
    reason = compare(spec_of("fp64"), case, expected, expected.out, lse).reason
    assert reason.startswith("lse[0, 0, 5] is nan, should be ")


def test_the_report_gives_the_worst_case_and_is_plain_data():
    rows = (
        CaseResult("good", 1e-7, 1e-8, 1e-6, 0.1),
        CaseResult("close", 9e-7, 1e-8, 1e-6, 0.9),
        CaseResult("wrong", 1e-9, 1e-9, 1e-6, math.inf, "out is nan."),
    )
    report = VerificationReport(rows, seed=7)
    assert not report.passed
    assert (report.cases, report.worst_case, report.max_abs_error, report.tolerance) == (3, "wrong", 1e-9, 1e-6)
    assert report.failures == rows[2:]
    assert "2 of 3 cases passed" in report.summary()
    assert "wrong: out is nan." in report.summary()
    data = json.loads(json.dumps(report.as_dict(), allow_nan=False))
    assert data["failed"] == 1
    assert data["seed"] == 7
    assert [row["passed"] for row in data["rows"]] == [True, True, False]
    assert data["severity"] is None
    assert VerificationReport(rows[:2], 0).passed
    assert VerificationReport(rows[:2], 0).worst_case == "close"


def test_a_report_of_nothing_is_no_pass():
    report = VerificationReport((), 0)
    assert not report.passed
    assert report.worst_case == "none"
    assert json.dumps(report.as_dict(), allow_nan=False)


def test_progress_is_told_case_by_case():
    spec, seen = spec_of(), []
    cases = cases_for(spec)[:3]
    report = verified(spec, cases=cases, progress=seen.append)
    assert seen == list(report.rows)
    assert [row.name for row in seen] == [case.name for case in cases]


def test_equal_seeds_give_equal_inputs_and_others_do_not():
    spec = spec_of()
    case = cases_for(spec)[2]
    first, again, other = (make_inputs(case, spec, seed).q.tobytes() for seed in (0, 0, 1))
    assert first == again != other


def test_names_of_cases_are_unique():
    for causal in (False, "top_left", "bottom_right"):
        for dtype in ("fp16", "bf16", "fp32", "fp64"):
            names = [case.name for case in cases_for(spec_of(dtype, causal))]
            assert len(set(names)) == len(names)


def test_dot_products_of_hostile_cases_are_exact_in_fp32():
    """Otherwise rounding q.k could decide which key wins, and no answer would be the right one."""
    for d in (1, 2, 64, 512):
        for dtype in ("fp16", "bf16", "fp32"):
            spec = make_spec(d, dtype, False, 1)
            for case in cases_for(spec):
                if case.values in ("lattice", "rising", "falling"):
                    inputs = make_inputs(case, spec, 0)
                    q, k = inputs.q[0, 0, :7], inputs.k[0, 0]
                    exact = q.astype(np.float64) @ k.astype(np.float64).T
                    rough = q[:, ::-1].astype(np.float32) @ k[:, ::-1].astype(np.float32).T
                    np.testing.assert_array_equal(rough, exact, err_msg=case.name)
