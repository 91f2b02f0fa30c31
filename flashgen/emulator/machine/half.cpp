// Half-precision arithmetic (.f16, .bf16, and pairs in a 32-bit register), always rounded to nearest even.
// One float operation and a rounding is exact here, since 24 >= 2 * 11 + 2 bits; fma goes through
// rounding to odd. `aux` is {ftz, sat, relu}.
#include <iterator>

#include "approx.hpp"
#include "handlers.hpp"

namespace emu {
namespace {

template <class H> struct Add { static H of(H a, H b) { return narrow<H>(widen(a) + widen(b)); } };
template <class H> struct Sub { static H of(H a, H b) { return narrow<H>(widen(a) - widen(b)); } };
template <class H> struct Mul { static H of(H a, H b) { return narrow<H>(widen(a) * widen(b)); } };
template <class H> struct Fma { static H of(H a, H b, H c) { return fma_half(a, b, c); } };
template <class H> struct Abs { static H of(H a) { return {uint16_t(a.raw & 0x7fffu)}; } };
template <class H> struct Neg { static H of(H a) { return {uint16_t(a.raw ^ 0x8000u)}; } };
template <class H> struct Exp2 { static H of(H a) { return narrow<H>(float_to_odd(exp2_double(widen(a)))); } };
template <class H> struct Tanh1 { static H of(H a) { return narrow<H>(float_to_odd(std::tanh(double(widen(a))))); } };

template <class H, bool IsMax, bool NaN>
struct Extreme {
    static H of(H a, H b) {
        const float x = widen(a), y = widen(b);
        if (NaN && (x != x || y != y)) return {0x7fff};
        if (x != x) return y != y ? H{0x7fff} : b;
        if (y != y) return a;
        if (x == y) return {uint16_t(IsMax ? a.raw & b.raw : a.raw | b.raw)};  // +0 > -0
        return (x < y) != IsMax ? a : b;
    }
};
template <class H, bool IsMax, bool NaN>
struct ExtremeXorsign {
    static H of(H a, H b) {
        const H d = Extreme<H, IsMax, NaN>::of(Abs<H>::of(a), Abs<H>::of(b));
        return {uint16_t(d.raw | ((a.raw ^ b.raw) & 0x8000u))};
    }
};
template <class H> struct Max { static H of(H a, H b) { return Extreme<H, true, false>::of(a, b); } };
template <class H> struct Min { static H of(H a, H b) { return Extreme<H, false, false>::of(a, b); } };
template <class H> struct MaxNaN { static H of(H a, H b) { return Extreme<H, true, true>::of(a, b); } };
template <class H> struct MinNaN { static H of(H a, H b) { return Extreme<H, false, true>::of(a, b); } };
template <class H> struct MaxXorsign { static H of(H a, H b) { return ExtremeXorsign<H, true, false>::of(a, b); } };
template <class H> struct MinXorsign { static H of(H a, H b) { return ExtremeXorsign<H, false, false>::of(a, b); } };
template <class H> struct MaxNaNXorsign { static H of(H a, H b) { return ExtremeXorsign<H, true, true>::of(a, b); } };
template <class H> struct MinNaNXorsign { static H of(H a, H b) { return ExtremeXorsign<H, false, true>::of(a, b); } };

struct Modifiers {
    bool ftz, sat, relu;
    bool any() const { return ftz || sat || relu; }
    template <class H> H before(H h) const { return ftz ? flush(h) : h; }
    template <class H> H after(H h) const {
        if (ftz) h = flush(h);
        const float x = widen(h);
        if (sat) return narrow<H>(saturate(x));
        if (relu) return x != x ? H{0x7fff} : x > 0.0f ? h : H{0};
        return h;
    }
};

// One element, with its operands' number hidden, so that one loop serves all operations of a format.
template <class H>
using Element = H (*)(const Modifiers&, H a, H b, H c);
template <class F, class H, class... T>
inline H modified(const Modifiers& m, T... x) {
    return m.any() ? m.after(F::of(m.before(x)...)) : F::of(x...);
}
template <class F, class H>
H element(const Modifiers& m, H a, H b, H c) {
    if constexpr (std::is_same_v<decltype(&F::of), H (*)(H)>) return modified<F, H>(m, a);
    else if constexpr (std::is_same_v<decltype(&F::of), H (*)(H, H)>) return modified<F, H>(m, a, b);
    else return modified<F, H>(m, a, b, c);
}
template <class F, class H>
constexpr int operands_of() {
    return std::is_same_v<decltype(&F::of), H (*)(H)> ? 1 : std::is_same_v<decltype(&F::of), H (*)(H, H)> ? 2 : 3;
}

template <class H>
const Ins* run_half(const Ins* i, Warp& w, Element<H> f, int operands, int per_lane) {
    H* d = w.reg<H>(i->op[0]);
    const H* a = w.reg<H>(i->op[1]);
    const H* b = operands > 1 ? w.reg<H>(i->op[2]) : a;
    const H* c = operands > 2 ? w.reg<H>(i->op[3]) : a;
    const Modifiers m{i->aux[0] != 0, i->aux[1] != 0, i->aux[2] != 0};
    for (uint32_t lanes = w.exec; lanes; lanes &= lanes - 1) {
        const int l = __builtin_ctz(lanes) * per_lane;
        for (int k = l; k < l + per_lane; ++k) d[k] = f(m, a[k], b[k], c[k]);
    }
    return i + 1;
}
template <class F, class H, int PerLane>
const Ins* half_op(const Ins* i, Warp& w) {
    return run_half<H>(i, w, element<F, H>, operands_of<F, H>(), PerLane);
}

#define EMU_HALF(name, F) \
    {name ".f16", half_op<F<f16>, f16, 1>}, {name ".f16x2", half_op<F<f16>, f16, 2>}, \
    {name ".bf16", half_op<F<bf16>, bf16, 1>}, {name ".bf16x2", half_op<F<bf16>, bf16, 2>}

const TableEntry kEntries[] = {
    EMU_HALF("add", Add), EMU_HALF("sub", Sub), EMU_HALF("mul", Mul), EMU_HALF("fma", Fma),
    EMU_HALF("abs", Abs), EMU_HALF("neg", Neg), EMU_HALF("ex2", Exp2), EMU_HALF("tanh", Tanh1),
    EMU_HALF("min", Min), EMU_HALF("max", Max), EMU_HALF("min.NaN", MinNaN), EMU_HALF("max.NaN", MaxNaN),
    EMU_HALF("min.xorsign", MinXorsign), EMU_HALF("max.xorsign", MaxXorsign),
    EMU_HALF("min.NaN.xorsign", MinNaNXorsign), EMU_HALF("max.NaN.xorsign", MaxNaNXorsign),
};

}  // namespace

Table half_table() { return {kEntries, std::size(kEntries)}; }

}  // namespace emu
