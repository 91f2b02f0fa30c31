# ruff: noqa: E501 - lines of CUDA read best whole
"""PTX as NVRTC writes it, from small header-free CUDA: what hand-written PTX would not think of."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest

from flashgen.compilation.toolchains.nvrtc_library import find_nvrtc
from flashgen.emulator import In, InOut, Module, Out, Schedule, Struct

pytestmark = pytest.mark.usefixtures("each_executor")
_ORDERS = ("round_robin", "reverse", "random")


def cuda(source: str, arch: int = 80) -> Module:
    return Module(compiled(source, arch), source=source)


@cache
def compiled(source: str, arch: int) -> bytes:
    found = find_nvrtc()
    if not found:
        pytest.skip("NVRTC is not installed")
    program = found[0].compile(
        source, "snippet.cu", (f"-arch=compute_{arch}", "--std=c++17", "-lineinfo", "-default-device")
    )
    assert program.succeeded, program.log
    return program.ptx


_REDUCE = """
extern "C" __global__ void reduce(const float* x, float* sums, int n) {
  __shared__ float partial[32];
  float s = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) s += x[i];
  for (int o = 16; o; o >>= 1) s += __shfl_xor_sync(~0u, s, o);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = s;
  __syncthreads();
  if (threadIdx.x < 32) {
    s = threadIdx.x < blockDim.x / 32 ? partial[threadIdx.x] : 0;
    for (int o = 16; o; o >>= 1) s += __shfl_xor_sync(~0u, s, o);
    if (threadIdx.x == 0) atomicAdd(sums, s);
  }
}"""


@pytest.mark.parametrize("order", _ORDERS)
def test_block_reduction(order: str) -> None:
    x = np.arange(10000, dtype=np.float32) % 17
    total = np.zeros(1, np.float32)
    cuda(_REDUCE).launch(
        "reduce", 5, 256, [In(x), InOut(total), len(x)], schedule=Schedule(warps=order)
    ).raise_for_findings()
    assert total[0] == x.sum()


def test_a_missing_barrier_is_named_by_its_cuda_line() -> None:
    broken = _REDUCE.replace("  __syncthreads();\n", "\n")
    x = np.ones(1000, np.float32)
    report = cuda(broken).launch(
        "reduce", 2, 256, [In(x), InOut(np.zeros(1, np.float32)), len(x)], schedule=Schedule(warps="reverse")
    )
    lines = broken.splitlines()
    read = next(k for k, line in enumerate(lines, 1) if "? partial[threadIdx.x]" in line)
    write = next(k for k, line in enumerate(lines, 1) if "partial[threadIdx.x / 32] = s" in line)
    races = report.of_kind("race") + report.of_kind("uninitialised-read")
    assert {site.line for f in races for site in (f.site, f.other) if site} <= {read, write} and races
    assert races[0].site.file == "snippet.cu" and races[0].site.source == lines[races[0].site.line - 1].strip()


_MATMUL = """
constexpr int T = 16;
extern "C" __global__ void matmul(const float* a, const float* b, float* c, int m, int n, int k) {
  __shared__ float as[T][T], bs[T][T];
  const int row = blockIdx.y * T + threadIdx.y, col = blockIdx.x * T + threadIdx.x;
  float sum = 0;
  for (int t = 0; t < k; t += T) {
    as[threadIdx.y][threadIdx.x] = row < m && t + threadIdx.x < k ? a[row * k + t + threadIdx.x] : 0;
    bs[threadIdx.y][threadIdx.x] = col < n && t + threadIdx.y < k ? b[(t + threadIdx.y) * n + col] : 0;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < T; ++i) sum += as[threadIdx.y][i] * bs[i][threadIdx.x];
    __syncthreads();
  }
  if (row < m && col < n) c[row * n + col] = sum;
}"""


@pytest.mark.parametrize("order", _ORDERS)
def test_tiled_matrix_product(order: str) -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-4, 5, shape).astype(np.float32) for shape in ((35, 50), (50, 41)))
    c = np.full((35, 41), np.nan, np.float32)
    report = cuda(_MATMUL).launch(
        "matmul", (3, 3), (16, 16), [In(a), In(b), Out(c), 35, 41, 50], schedule=Schedule(warps=order)
    )
    report.raise_for_findings()
    np.testing.assert_array_equal(c, a @ b)
    assert report.barriers == 9 * 2 * 4


@pytest.mark.parametrize("line,kind", [(8, "race"), (12, "race")])
def test_both_barriers_of_the_matrix_product_are_needed(line: int, kind: str) -> None:
    lines = _MATMUL.splitlines()
    barriers = [k for k, text in enumerate(lines) if "__syncthreads" in text]
    broken = "\n".join("" if k == barriers[line > 10] else text for k, text in enumerate(lines))
    a = np.arange(1024, dtype=np.float32).reshape(32, 32)  # no two tiles alike: equal values would race unseen
    report = cuda(broken).launch("matmul", (2, 2), (16, 16), [In(a), In(a), Out(a.copy()), 32, 32, 32])
    assert report.of_kind(kind)


_TRANSPOSE = """
template <int P> __device__ void body(const float* in, float* out, int n, int m) {
  __shared__ float tile[32][32 + P];
  int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
  for (int j = 0; j < 32; j += 8) if (x < m && y + j < n) tile[threadIdx.y + j][threadIdx.x] = in[(y + j) * m + x];
  __syncthreads();
  x = blockIdx.y * 32 + threadIdx.x; y = blockIdx.x * 32 + threadIdx.y;
  for (int j = 0; j < 32; j += 8) if (x < n && y + j < m) out[(y + j) * n + x] = tile[threadIdx.x][threadIdx.y + j];
}
extern "C" __global__ void plain(const float* in, float* out, int n, int m) { body<0>(in, out, n, m); }
extern "C" __global__ void padded(const float* in, float* out, int n, int m) { body<1>(in, out, n, m); }"""


def test_transpose_and_its_bank_conflicts() -> None:
    x = np.arange(64 * 96, dtype=np.float32).reshape(64, 96)
    for entry, conflicts in (("plain", 31), ("padded", 0)):
        out = np.full((96, 64), np.nan, np.float32)
        report = cuda(_TRANSPOSE).launch(entry, (3, 2), (32, 8), [In(x), Out(out), 64, 96])
        report.raise_for_findings()
        np.testing.assert_array_equal(out, x.T)
        reads = 64 * 96 // 32
        assert report.shared.conflicts == conflicts * reads and report.shared.accesses == 2 * reads
        worst = max(report.lines, key=lambda line: line.conflicts)
        assert conflicts == 0 or "tile[threadIdx.x]" in worst.site.source


_SCAN = """
extern "C" __global__ void scan(const int* in, int* out, int n) {
  extern __shared__ int s[];
  int t = threadIdx.x, pout = 0, pin = 1;
  s[t] = t < n ? in[t] : 0;
  __syncthreads();
  for (int o = 1; o < n; o *= 2) {
    pout = 1 - pout; pin = 1 - pout;
    s[pout * n + t] = s[pin * n + t] + (t >= o ? s[pin * n + t - o] : 0);
    __syncthreads();
  }
  out[t] = s[pout * n + t];
}"""


@pytest.mark.parametrize("order", _ORDERS)
def test_scan(order: str) -> None:
    x = np.random.default_rng(0).integers(-100, 100, 200, dtype=np.int32)
    out = np.zeros(200, np.int32)
    cuda(_SCAN).launch(
        "scan", 1, 200, [In(x), Out(out), 200], shared=1600, schedule=Schedule(warps=order)
    ).raise_for_findings()
    np.testing.assert_array_equal(out, np.cumsum(x))


_HISTOGRAM = """
extern "C" __global__ void histogram(const unsigned char* x, unsigned* bins, long long n) {
  __shared__ unsigned local[256];
  for (int i = threadIdx.x; i < 256; i += blockDim.x) local[i] = 0;
  __syncthreads();
  for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < n; i += (long long)gridDim.x * blockDim.x)
    atomicAdd(&local[x[i]], 1u);
  __syncthreads();
  for (int i = threadIdx.x; i < 256; i += blockDim.x) if (local[i]) atomicAdd(&bins[i], local[i]);
}"""


@pytest.mark.parametrize("order", _ORDERS)
def test_histogram(order: str) -> None:
    x = np.random.default_rng(0).integers(0, 256, 5000, dtype=np.uint8) // 3
    bins = np.zeros(256, np.uint32)
    cuda(_HISTOGRAM).launch(
        "histogram", 3, 96, [In(x), InOut(bins), len(x)], schedule=Schedule(warps=order)
    ).raise_for_findings()
    np.testing.assert_array_equal(bins, np.bincount(x, minlength=256))


_MATH = """
extern "C" __global__ void functions(const float* x, float* out, int n) {
  int i = threadIdx.x + blockIdx.x * blockDim.x;
  if (i >= n) return;
  float v = x[i], a = fabsf(v) + 0.01f;
  float r[12] = {expf(v), logf(a), sinf(v * 1e5f), cosf(v), tanhf(v), erff(v), powf(a, 1.7f), cbrtf(v), log1pf(a), expm1f(v), fmodf(v, 0.3f), rsqrtf(a)};
  for (int k = 0; k < 12; ++k) out[i * 12 + k] = r[k];
}
extern "C" __global__ void doubles(const double* x, double* out, int n) {
  int i = threadIdx.x + blockIdx.x * blockDim.x;
  if (i >= n) return;
  double v = x[i], a = fabs(v) + 0.01;
  double r[8] = {exp(v), log(a), sin(v * 1e5), tanh(v), pow(a, 1.7), erf(v), sqrt(a), 1 / v};
  for (int k = 0; k < 8; ++k) out[i * 8 + k] = r[k];
}"""


def test_library_functions_in_single_precision() -> None:
    x = np.random.default_rng(0).uniform(-4, 4, 100).astype(np.float32)
    out = np.full((100, 12), np.nan, np.float32)
    cuda(_MATH).launch("functions", 4, 32, [In(x), Out(out), 100]).raise_for_findings()
    v = x.astype(np.float64)
    a = (np.abs(x) + np.float32(0.01)).astype(np.float64)
    big = (x * np.float32(1e5)).astype(np.float64)
    erf = np.array([math.erf(t) for t in v])
    fmod = np.fmod(v, np.float64(np.float32(0.3)))
    expected = np.stack(
        [
            np.exp(v),
            np.log(a),
            np.sin(big),
            np.cos(v),
            np.tanh(v),
            erf,
            a ** np.float64(np.float32(1.7)),
            np.cbrt(v),
            np.log1p(a),
            np.expm1(v),
            fmod,
            a**-0.5,
        ],
        1,
    )
    np.testing.assert_allclose(out, expected, rtol=1e-6, atol=2e-7)


def test_library_functions_in_double_precision() -> None:
    x = np.random.default_rng(0).uniform(-4, 4, 100)
    out = np.full((100, 8), np.nan)
    cuda(_MATH).launch("doubles", 4, 32, [In(x), Out(out), 100]).raise_for_findings()
    a = np.abs(x) + 0.01
    erf = np.array([math.erf(t) for t in x])
    expected = np.stack([np.exp(x), np.log(a), np.sin(x * 1e5), np.tanh(x), a**1.7, erf, np.sqrt(a), 1 / x], 1)
    np.testing.assert_allclose(out, expected, rtol=1e-14, atol=1e-15)


_INTEGERS = """
struct Params { const int* x; int* out; long long stride; short bias; unsigned char scale[3]; };
__noinline__ __device__ int collatz(int n, const int* table) { int s = 0; while (n > 1) { n = n % 2 ? 3 * n + 1 : n / 2; s += table[n & 3]; } return s; }
extern "C" __global__ void integers(const Params p, int n) {
  int i = threadIdx.x;
  if (i >= n) return;
  int table[4];
  for (int k = 0; k < 4; ++k) table[k] = k + p.scale[k % 3];
  int v = p.x[i * p.stride], r;
  switch (v & 7) {
    case 0: r = v / 7; break;
    case 1: r = v % 13; break;
    case 2: r = __popc(v) + __clz(v) + __ffs(v); break;
    case 3: r = __byte_perm(v, ~v, 0x5173); break;
    case 4: r = __funnelshift_l(v, ~v, v >> 8); break;
    case 5: r = (int)(((long long)v * v) >> 20) + (int)__brev(v); break;
    case 6: r = collatz(v & 63, table); break;
    default: r = (int)((unsigned long long)v * 0x9e3779b97f4a7c15ull / 1000003ull);
  }
  p.out[i] = r + p.bias;
}"""


@pytest.mark.parametrize("order", _ORDERS)
def test_integers_switches_local_arrays_calls_and_structures(order: str) -> None:
    n = 200
    x = np.random.default_rng(0).integers(-(1 << 31), 1 << 31, 2 * n, dtype=np.int64).astype(np.int32)
    out = np.zeros(n, np.int32)
    params = Struct("<QQqhBBB3x", In(x), Out(out), 2, -5, 1, 2, 3)
    cuda(_INTEGERS).launch("integers", 1, 224, [params, n], schedule=Schedule(warps=order)).raise_for_findings()
    assert out.tolist() == [_signed(_expected(int(v)) - 5) for v in x[::2]]


def _signed(v: int) -> int:
    return (v + (1 << 31)) % (1 << 32) - (1 << 31)


def _expected(v: int) -> int:
    u = v % (1 << 32)
    table = [k + (1, 2, 3)[k % 3] for k in range(4)]
    match u & 7:
        case 0:
            return int(math.copysign(abs(v) // 7, v))
        case 1:
            return int(math.copysign(abs(v) % 13, v))
        case 2:
            return u.bit_count() + 32 - u.bit_length() + (u & -u).bit_length()
        case 3:
            data = (u | (~u % (1 << 32)) << 32).to_bytes(8, "little")
            return int.from_bytes(bytes(data[k] for k in (3, 7, 1, 5)), "little")
        case 4:
            shift = (v >> 8) & 31
            return ((~u % (1 << 32)) << 32 | u) << shift >> 32
        case 5:
            return ((v * v) >> 20) + int(f"{u:032b}"[::-1], 2)
        case 6:
            n, steps = u & 63, 0
            while n > 1:
                n = 3 * n + 1 if n % 2 else n // 2
                steps += table[n & 3]
            return steps
    return v % (1 << 64) * 0x9E3779B97F4A7C15 % (1 << 64) // 1000003


_WARP = """
extern "C" __global__ void aggregate(const int* keys, int* out) {
  int t = threadIdx.x, lane = t & 31, key = keys[t];
  unsigned peers = __match_any_sync(~0u, key), positive = __ballot_sync(~0u, key > 2);
  int leader = __ffs(peers) - 1, rank = __popc(peers & ((1u << lane) - 1)), sum = __reduce_add_sync(~0u, key);
  int up = __shfl_up_sync(~0u, key, 3, 16);
  if (key & 1) { unsigned odd = __activemask(); rank += 100 * __popc(odd & positive); __syncwarp(odd); }
  out[t] = rank + 10000 * leader + 1000000 * (sum & 255) + (lane % 16 >= 3 ? up : -1) + (__all_sync(~0u, key < 9) ? 7 : 0);
}"""


def test_warp_intrinsics() -> None:
    keys = np.random.default_rng(0).integers(0, 6, 64, dtype=np.int32)
    out = np.zeros(64, np.int32)
    cuda(_WARP).launch("aggregate", 1, 64, [In(keys), Out(out)]).raise_for_findings()
    for t in range(64):
        warp, lane = keys[t // 32 * 32 : t // 32 * 32 + 32].tolist(), t % 32
        peers = [k for k in range(32) if warp[k] == warp[lane]]
        rank = sum(k < lane for k in peers)
        if warp[lane] & 1:
            rank += 100 * sum(k & 1 and k > 2 for k in warp)
        up = warp[lane - 3] if lane % 16 >= 3 else -1
        assert out[t] == rank + 10000 * peers[0] + 1000000 * (sum(warp) & 255) + up + 7


_HALVES = """
__device__ float widen(unsigned short h) { float f; asm("{.reg .b16 t; mov.b16 t, %1; cvt.f32.f16 %0, t;}" : "=f"(f) : "h"(h)); return f; }
__device__ unsigned pack(float lo, float hi) { unsigned r; asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(hi), "f"(lo)); return r; }
__device__ unsigned axpy(unsigned a, unsigned x, unsigned y) { asm volatile("fma.rn.f16x2 %0, %1, %2, %0;" : "+r"(y) : "r"(a), "r"(x)); return y; }
extern "C" __global__ void halves(const unsigned short* x, unsigned* out, float a) {
  int t = threadIdx.x;
  float lo = widen(x[2 * t]), hi = widen(x[2 * t + 1]);
  out[t] = axpy(pack(a, a), pack(lo, hi), pack(lo * lo, hi * hi));
}"""


def test_inline_assembly_on_halves() -> None:
    x = np.random.default_rng(0).standard_normal(128).astype(np.float16)
    out = np.zeros(64, np.uint32)
    cuda(_HALVES).launch("halves", 1, 64, [In(x.view(np.uint16)), Out(out), 0.3]).raise_for_findings()
    square = (x.astype(np.float32) ** 2).astype(np.float16).astype(np.float64)
    exact = np.float64(np.float16(0.3)) * x.astype(np.float64) + square
    np.testing.assert_array_equal(out.view(np.float16), exact.astype(np.float16))
