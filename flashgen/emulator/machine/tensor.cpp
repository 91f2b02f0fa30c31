// mma.sync: D = A B + C for one warp. Each element of D starts as that of C, to which the products are added in the
// order of k, every one by a fused multiply-add in fp32; fp16 accumulators are rounded once, at the end. Tensor cores
// add in another order, which is theirs to know.
#include <iterator>
#include <type_traits>

#include "fragments.hpp"
#if defined(__FMA__) && defined(__AVX2__)
#include <immintrin.h>
#endif

namespace emu {
namespace {

constexpr int kColumns = 8;  // of B, C and D
typedef float Row __attribute__((vector_size(kColumns * sizeof(float))));

inline void fuse(Row& sum, float a, const Row& b) {
#if defined(__FMA__) && defined(__AVX2__)
    sum = Row(_mm256_fmadd_ps(_mm256_set1_ps(a), __m256(b), __m256(sum)));
#else
    for (int n = 0; n < kColumns; ++n) sum[n] = std::fma(a, b[n], sum[n]);
#endif
}

// Operands as floats. tf32 is a float of which the lowest 13 bits do not count.
struct tf32 {
    uint32_t raw;
};
inline float widen(tf32 x) { return bits<float>(x.raw & ~0x1fffu); }

template <class T, int N>
inline void widen_block(float* out, const T* in) {
    EMU_LANES
    for (int k = 0; k < N; ++k) out[k] = widen(in[k]);
}
#if defined(__F16C__)
template <>
inline void widen_block<f16, kBlockHalves>(float* out, const f16* in) {
    for (int k = 0; k < kBlockHalves; k += 8)
        _mm256_storeu_ps(out + k, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(in + k))));
}
#endif

// 8 rows of C += 8 rows of A times B. A is Blocks blocks of 8 rows and W columns, B has Blocks * W rows. Unrolled, so
// that the sums stay in registers.
template <int W, int Blocks>
inline void multiply(Row* c, const float* a, const Row* b) {
    Row sum[kBlockRows];
#pragma GCC unroll 8
    for (int r = 0; r < kBlockRows; ++r) sum[r] = c[r];
#pragma GCC unroll 2
    for (int block = 0; block < Blocks; ++block, a += kBlockRows * W, b += W)
        for (int k = 0; k < W; ++k) {
#pragma GCC unroll 8
            for (int r = 0; r < kBlockRows; ++r) fuse(sum[r], a[r * W + k], b[k]);
        }
#pragma GCC unroll 8
    for (int r = 0; r < kBlockRows; ++r) c[r] = sum[r];
}

// C and D of 8 rows: two registers of floats, one of halves.
inline void load_rows(Row* c, Warp& w, const uint32_t* op, float) {
    interleave<kLanes>(reinterpret_cast<float*>(c), w.reg<float>(op[0]), w.reg<float>(op[1]));
}
inline void load_rows(Row* c, Warp& w, const uint32_t* op, f16) {
    widen_block<f16, kBlockHalves>(reinterpret_cast<float*>(c), w.reg<f16>(op[0]));
}
inline void store_rows(const Row* c, Warp& w, const uint32_t* op, float) {
    const float* rows = reinterpret_cast<const float*>(c);
    float even[kLanes], odd[kLanes];
    EMU_LANES
    for (int l = 0; l < kLanes; ++l) {
        even[l] = canonical(rows[2 * l]);
        odd[l] = canonical(rows[2 * l + 1]);
    }
    set_register(w, op[0], even);
    set_register(w, op[1], odd);
}
inline void store_rows(const Row* c, Warp& w, const uint32_t* op, f16) {
    const float* rows = reinterpret_cast<const float*>(c);
    f16 halves[kBlockHalves];
    EMU_LANES
    for (int k = 0; k < kBlockHalves; ++k) halves[k] = narrow<f16>(rows[k]);
    set_register(w, op[0], halves);
}

// Operands: D, A, B, C. A register of A or B is 8 rows of W elements T; Blocks of them lie along k.
template <class Acc, class T, int Blocks>
const Ins* mma(const Ins* i, Warp& w) {
    using Raw = std::conditional_t<sizeof(T) == 2, uint16_t, uint32_t>;
    constexpr int W = 16 / int(sizeof(T)), kElements = kBlockRows * W;
    constexpr int kHalfOfC = std::is_same_v<Acc, float> ? 2 : 1;  // registers
    const uint32_t *d = i->op, *a = d + 2 * kHalfOfC, *b = a + 2 * Blocks, *c = b + Blocks;
    return as_warp(i, w, [&] {
        alignas(64) float left[2][Blocks * kElements], right[Blocks * kElements];
        alignas(64) Row sum[2 * kBlockRows];
        for (int k = 0; k < Blocks; ++k) {
            Raw turned[kElements];
            widen_block<T, kElements>(left[0] + k * kElements, w.reg<T>(a[2 * k]));
            widen_block<T, kElements>(left[1] + k * kElements, w.reg<T>(a[2 * k + 1]));
            transpose<kElements>(turned, w.reg<Raw>(b[k]));
            widen_block<T, kElements>(right + k * kElements, reinterpret_cast<const T*>(turned));
        }
        load_rows(sum, w, c, Acc{});
        load_rows(sum + kBlockRows, w, c + kHalfOfC, Acc{});
        multiply<W, Blocks>(sum, left[0], reinterpret_cast<const Row*>(right));
        multiply<W, Blocks>(sum + kBlockRows, left[1], reinterpret_cast<const Row*>(right));
        store_rows(sum, w, d, Acc{});
        store_rows(sum + kBlockRows, w, d + kHalfOfC, Acc{});
    });
}

const Ins* movmatrix(const Ins* i, Warp& w) {
    return as_warp(i, w, [&] {
        uint16_t turned[kBlockHalves];
        transpose<kBlockHalves>(turned, w.reg<uint16_t>(i->op[1]));
        set_register(w, i->op[0], turned);
    });
}

const TableEntry kEntries[] = {
    {"mma.m16n8k8.f32.f16", mma<float, f16, 1>}, {"mma.m16n8k16.f32.f16", mma<float, f16, 2>},
    {"mma.m16n8k8.f16.f16", mma<f16, f16, 1>}, {"mma.m16n8k16.f16.f16", mma<f16, f16, 2>},
    {"mma.m16n8k8.f32.bf16", mma<float, bf16, 1>}, {"mma.m16n8k16.f32.bf16", mma<float, bf16, 2>},
    {"mma.m16n8k4.f32.tf32", mma<float, tf32, 1>}, {"mma.m16n8k8.f32.tf32", mma<float, tf32, 2>},
    {"movmatrix", movmatrix},
};

}  // namespace

Table tensor_table() { return {kEntries, std::size(kEntries)}; }

}  // namespace emu
