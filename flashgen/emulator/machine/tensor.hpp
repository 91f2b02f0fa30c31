// mma.sync: D = A B + C for one warp. Each element of D starts as that of C, to which the products are added in the
// order of k, every one by a fused multiply-add in fp32; fp16 accumulators are rounded once, at the end. (Tensor cores
// add in another order, which is theirs to know.) Doubles alike; integers are exact, since doubles hold their sums.
#pragma once
#include <algorithm>
#include <type_traits>

#include "fragments.hpp"
#if defined(__FMA__) && defined(__AVX2__)
#include <immintrin.h>
#endif

namespace emu {

constexpr int kColumns = 8;  // of B, C and D
typedef float FloatRow __attribute__((vector_size(kColumns * sizeof(float))));
typedef double DoubleRow __attribute__((vector_size(kColumns * sizeof(double))));

inline void fuse(FloatRow& sum, float a, const FloatRow& b) {
#if defined(__FMA__) && defined(__AVX2__)
    sum = FloatRow(_mm256_fmadd_ps(_mm256_set1_ps(a), __m256(b), __m256(sum)));
#else
    for (int n = 0; n < kColumns; ++n) sum[n] = std::fma(a, b[n], sum[n]);
#endif
}
inline void fuse(DoubleRow& sum, double a, const DoubleRow& b) {
    for (int n = 0; n < kColumns; ++n) sum[n] = std::fma(a, b[n], sum[n]);
}

// 8 rows of C += 8 rows of A times B. A is Blocks blocks of 8 rows and W columns, B has Blocks * W rows. Unrolled, so
// that the sums stay in registers.
template <int W, int Blocks, class N, class Row>
inline void multiply(Row* c, const N* a, const Row* b) {
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

// What C and D are: how many registers hold 8 rows, in which numbers they are summed, how those come and go.
template <class Acc>
struct Sums;
template <>
struct Sums<float> {
    static constexpr int kRegisters = 2;
    using Number = float;
    static void load(float* rows, Warp& w, const uint32_t* op) {
        interleave<kLanes>(rows, w.reg<float>(op[0]), w.reg<float>(op[1]));
    }
    static void store(const float* rows, const Ins*, Warp& w, const uint32_t* op) {
        float even[kLanes], odd[kLanes];
        EMU_LANES
        for (int l = 0; l < kLanes; ++l) {
            even[l] = canonical(rows[2 * l]);
            odd[l] = canonical(rows[2 * l + 1]);
        }
        set_register<uint32_t>(w, op[0], even);
        set_register<uint32_t>(w, op[1], odd);
    }
};
template <>
struct Sums<f16> {
    static constexpr int kRegisters = 1;
    using Number = float;
    static void load(float* rows, Warp& w, const uint32_t* op) {
        const f16* halves = w.reg<f16>(op[0]);
        EMU_LANES
        for (int k = 0; k < kBlockHalves; ++k) rows[k] = widen(halves[k]);
    }
    static void store(const float* rows, const Ins*, Warp& w, const uint32_t* op) {
        f16 halves[kBlockHalves];
        EMU_LANES
        for (int k = 0; k < kBlockHalves; ++k) halves[k] = narrow<f16>(rows[k]);
        set_register<uint32_t>(w, op[0], halves);
    }
};
template <>
struct Sums<double> {
    static constexpr int kRegisters = 2;
    using Number = double;
    static void load(double* rows, Warp& w, const uint32_t* op) {
        interleave<kLanes>(rows, w.reg<double>(op[0]), w.reg<double>(op[1]));
    }
    static void store(const double* rows, const Ins*, Warp& w, const uint32_t* op) {
        double column[kLanes];
        for (int odd = 0; odd < 2; ++odd) {
            for (int l = 0; l < kLanes; ++l) column[l] = canonical(rows[2 * l + odd]);
            set_register<uint64_t>(w, op[odd], column);
        }
    }
};
template <>
struct Sums<int32_t> {
    static constexpr int kRegisters = 2;
    using Number = double;
    static void load(double* rows, Warp& w, const uint32_t* op) {
        for (int odd = 0; odd < 2; ++odd)
            for (int l = 0; l < kLanes; ++l) rows[2 * l + odd] = w.reg<int32_t>(op[odd])[l];
    }
    static void store(const double* rows, const Ins* i, Warp& w, const uint32_t* op) {
        int32_t column[kLanes];
        for (int odd = 0; odd < 2; ++odd) {
            for (int l = 0; l < kLanes; ++l) {
                const int64_t sum = int64_t(rows[2 * l + odd]);
                column[l] = int32_t(i->aux[4] ? std::clamp<int64_t>(sum, INT32_MIN, INT32_MAX) : sum);
            }
            set_register<uint32_t>(w, op[odd], column);
        }
    }
};

// Operands: D, A, B, C. A register of A or B is 8 rows of W elements, of which only the bits matter here; widen_a and
// widen_b make numbers of them. RowBlocks registers of A lie below each other, Blocks of them side by side along k.
template <class Acc, class Raw, int RowBlocks, int Blocks, class A, class B>
inline const Ins* multiply_fragments(const Ins* i, Warp& w, A&& widen_a, B&& widen_b) {
    using Number = typename Sums<Acc>::Number;
    using Row = std::conditional_t<std::is_same_v<Number, float>, FloatRow, DoubleRow>;
    constexpr int W = sizeof(Raw) == 8 ? 4 : 16 / int(sizeof(Raw)), kElements = kBlockRows * W;
    constexpr int kRegisters = Sums<Acc>::kRegisters;
    const uint32_t *d = i->op, *a = d + RowBlocks * kRegisters, *b = a + RowBlocks * Blocks, *c = b + Blocks;
    return as_warp(i, w, [&] {
        alignas(64) Number left[RowBlocks][Blocks * kElements], right[Blocks * kElements];
        Row sum[RowBlocks][kBlockRows];
        for (int k = 0; k < Blocks; ++k) {
            Raw turned[kElements];
            for (int r = 0; r < RowBlocks; ++r) widen_a(left[r] + k * kElements, w.reg<Raw>(a[k * RowBlocks + r]));
            transpose<kElements>(turned, w.reg<Raw>(b[k]));
            widen_b(right + k * kElements, turned);
        }
        for (int r = 0; r < RowBlocks; ++r) {
            Sums<Acc>::load(reinterpret_cast<Number*>(sum[r]), w, c + r * kRegisters);
            multiply<W, Blocks>(sum[r], left[r], reinterpret_cast<const Row*>(right));
        }
        for (int r = 0; r < RowBlocks; ++r)
            Sums<Acc>::store(reinterpret_cast<const Number*>(sum[r]), i, w, d + r * kRegisters);
    });
}

}  // namespace emu
