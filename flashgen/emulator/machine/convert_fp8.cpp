// cvt from and to pairs of 8-bit floats. The first source, and the high half, go with the high byte. `aux[0]`: .relu.
#include <iterator>

#include "fp8.hpp"
#include "handlers.hpp"

namespace emu {
namespace {

inline uint16_t pair(uint8_t high, uint8_t low) { return uint16_t(high << 8 | low); }

template <class F>
const Ins* from_floats(const Ins* i, Warp& w) {
    uint16_t* d = w.reg<uint16_t>(i->op[0]);
    const float *a = w.reg<float>(i->op[1]), *b = w.reg<float>(i->op[2]);
    const bool relu = i->aux[0];
    for (uint32_t m = w.exec; m; m &= m - 1) {
        const int l = __builtin_ctz(m);
        d[l] = pair(narrow_fp8<F>(a[l], relu), narrow_fp8<F>(b[l], relu));
    }
    return i + 1;
}
template <class F>
const Ins* from_halves(const Ins* i, Warp& w) {
    uint16_t* d = w.reg<uint16_t>(i->op[0]);
    const f16* a = w.reg<f16>(i->op[1]);
    const bool relu = i->aux[0];
    for (uint32_t m = w.exec; m; m &= m - 1) {
        const int l = __builtin_ctz(m);
        d[l] = pair(narrow_fp8<F>(widen(a[2 * l + 1]), relu), narrow_fp8<F>(widen(a[2 * l]), relu));
    }
    return i + 1;
}
template <class F>
const Ins* to_halves(const Ins* i, Warp& w) {
    f16* d = w.reg<f16>(i->op[0]);
    const uint16_t* a = w.reg<uint16_t>(i->op[1]);
    for (uint32_t m = w.exec; m; m &= m - 1) {
        const int l = __builtin_ctz(m);
        for (int k = 0; k < 2; ++k) {
            const float x = widen_fp8<F>(uint8_t(a[l] >> 8 * k));
            d[2 * l + k] = narrow<f16>(i->aux[0] && x <= 0.0f ? 0.0f : x);
        }
    }
    return i + 1;
}

const TableEntry kEntries[] = {
    {"cvt.e4m3x2.f32", from_floats<e4m3>}, {"cvt.e5m2x2.f32", from_floats<e5m2>},
    {"cvt.e4m3x2.f16x2", from_halves<e4m3>}, {"cvt.e5m2x2.f16x2", from_halves<e5m2>},
    {"cvt.f16x2.e4m3x2", to_halves<e4m3>}, {"cvt.f16x2.e5m2x2", to_halves<e5m2>},
};

}  // namespace

Table convert_fp8_table() { return {kEntries, std::size(kEntries)}; }

}  // namespace emu
