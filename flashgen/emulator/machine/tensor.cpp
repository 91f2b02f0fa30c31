// mma.sync of 16-bit operands, of tf32 and of doubles; movmatrix.
#include "tensor.hpp"

#include <iterator>

namespace emu {
namespace {

// tf32 is a float of which the lowest 13 bits do not count.
struct tf32 {
    uint32_t raw;
};
inline float widen(tf32 x) { return bits<float>(x.raw & ~0x1fffu); }
using emu::widen;

template <class T, int N, class Raw>
inline void widen_block(float* out, const Raw* in) {
    EMU_LANES
    for (int k = 0; k < N; ++k) out[k] = widen(T{in[k]});
}
#if defined(__F16C__)
template <>
inline void widen_block<f16, kBlockHalves>(float* out, const uint16_t* in) {
    for (int k = 0; k < kBlockHalves; k += 8)
        _mm256_storeu_ps(out + k, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(in + k))));
}
#endif

template <class Acc, class T, int Blocks>
const Ins* mma(const Ins* i, Warp& w) {
    using Raw = decltype(T::raw);
    constexpr int kElements = kBlockRows * 16 / int(sizeof(T));
    auto widen_all = [](float* out, const Raw* in) { widen_block<T, kElements>(out, in); };
    return multiply_fragments<Acc, Raw, 2, Blocks>(i, w, widen_all, widen_all);
}
const Ins* mma_double(const Ins* i, Warp& w) {
    auto copy = [](double* out, const double* in) { std::copy_n(in, kLanes, out); };
    return multiply_fragments<double, double, 1, 1>(i, w, copy, copy);
}

const Ins* movmatrix(const Ins* i, Warp& w) {
    return as_warp(i, w, [&] {
        uint16_t turned[kBlockHalves];
        transpose<kBlockHalves>(turned, w.reg<uint16_t>(i->op[1]));
        set_register<uint32_t>(w, i->op[0], turned);
    });
}

const TableEntry kEntries[] = {
    {"mma.m16n8k8.f32.f16", mma<float, f16, 1>}, {"mma.m16n8k16.f32.f16", mma<float, f16, 2>},
    {"mma.m16n8k8.f16.f16", mma<f16, f16, 1>}, {"mma.m16n8k16.f16.f16", mma<f16, f16, 2>},
    {"mma.m16n8k8.f32.bf16", mma<float, bf16, 1>}, {"mma.m16n8k16.f32.bf16", mma<float, bf16, 2>},
    {"mma.m16n8k4.f32.tf32", mma<float, tf32, 1>}, {"mma.m16n8k8.f32.tf32", mma<float, tf32, 2>},
    {"mma.m8n8k4.f64.f64", mma_double}, {"movmatrix", movmatrix},
};

}  // namespace

Table tensor_table() { return {kEntries, std::size(kEntries)}; }

}  // namespace emu
