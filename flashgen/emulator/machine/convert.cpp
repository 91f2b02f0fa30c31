// cvt. The common conversions are one-liners that vectorise; the rest goes through 64-bit integers or
// double, which hold every source exactly. `aux` of the general ones: {source bits, source signed,
// destination bits, destination signed, rounding, ftz, sat, relu or satfinite}.
#include <algorithm>
#include <iterator>
#include <type_traits>

#include "handlers.hpp"
#include "host_rounding.hpp"

namespace emu {
namespace {

// Beyond these, `rounding` asks for an integral value in the same format (.rni, .rzi, .rmi, .rpi).
constexpr int kToInteger = 4;

inline int64_t extend(uint64_t x, int width, bool is_signed) {
    const int s = 64 - width;
    return is_signed ? int64_t(x << s) >> s : int64_t((x << s) >> s);
}

struct IntegerRange {
    int width;
    bool is_signed;
    __int128 low() const { return is_signed ? -(__int128(1) << (width - 1)) : 0; }
    __int128 high() const { return (__int128(1) << (is_signed ? width - 1 : width)) - 1; }
    uint64_t clamp(__int128 v) const { return uint64_t(std::clamp(v, low(), high())); }
};

template <class D, class S>
const Ins* integer_to_integer(const Ins* i, Warp& w) {
    D* d = w.reg<D>(i->op[0]);
    const S* s = w.reg<S>(i->op[1]);
    const int from = i->aux[0], to = i->aux[2];
    const bool from_signed = i->aux[1], to_signed = i->aux[3];
    if (i->aux[6]) {
        const IntegerRange range{to, to_signed};
        for (uint32_t m = w.exec; m; m &= m - 1) {
            const int l = __builtin_ctz(m);
            const int64_t v = extend(s[l], from, from_signed);
            d[l] = D(range.clamp(from_signed ? __int128(v) : __int128(uint64_t(v))));
        }
        return i + 1;
    }
    each_lane(w.exec, [=](int l) { d[l] = D(extend(uint64_t(extend(s[l], from, from_signed)), to, to_signed)); });
    return i + 1;
}
template <class D, class S>
struct As {
    static D of(S a) { return D(a); }
};

inline double exact(float x) { return x; }
inline double exact(double x) { return x; }
inline double exact(f16 x) { return widen(x); }
inline double exact(bf16 x) { return widen(x); }

inline double integral(double x, int rounding) {
    switch (rounding) {
        case kZero: return std::trunc(x);
        case kDown: return std::floor(x);
        case kUp: return std::ceil(x);
        default: return std::nearbyint(x);
    }
}

template <class S>
inline double source(S x, bool ftz) {
    if constexpr (std::is_same_v<S, float>) return ftz ? flush(x) : x;
    return exact(x);
}

// NaN gives 0, or 2^(width - 1) where a 64-bit type takes part.
template <class D, class S>
const Ins* float_to_integer(const Ins* i, Warp& w) {
    D* d = w.reg<D>(i->op[0]);
    const S* s = w.reg<S>(i->op[1]);
    const IntegerRange range{i->aux[2], i->aux[3] != 0};
    const double low = double(range.low()), high = std::ldexp(1.0, range.is_signed ? range.width - 1 : range.width);
    const uint64_t nan = std::is_same_v<S, double> || range.width == 64 ? uint64_t(1) << (range.width - 1) : 0;
    for (uint32_t m = w.exec; m; m &= m - 1) {
        const int l = __builtin_ctz(m);
        const double v = integral(source(s[l], i->aux[5]), i->aux[4] & 3);
        uint64_t r;
        if (v != v) r = nan;
        else if (v >= high) r = uint64_t(range.high());
        else if (v <= low) r = uint64_t(range.low());
        else r = range.is_signed ? uint64_t(int64_t(v)) : uint64_t(v);
        d[l] = D(extend(r, range.width, range.is_signed));
    }
    return i + 1;
}

// Directed rounding to a half, from the nearest one and its neighbours.
template <class H>
inline H round_half(double x, int mode) {
    H h = narrow<H>(float_to_odd(x));
    const double v = exact(h);
    if (mode == kNearest || x != x || v == x) return h;
    const bool down = mode == kDown || (mode == kZero && x > 0.0), too_high = v > x;
    if (down == too_high) {  // the nearest lies on the wrong side: one step of magnitude
        const bool grows = (v < 0.0 || (v == 0.0 && x < 0.0)) == down;
        h.raw = uint16_t(v == 0.0 ? (down ? 0x8001u : 0x0001u) : grows ? h.raw + 1 : h.raw - 1);
    }
    return h;
}
template <class D>
inline D rounded(double x, int mode) {
    if constexpr (std::is_same_v<D, double>) return canonical(x);
    else if constexpr (std::is_same_v<D, float>) {
        if (mode == kNearest) return canonical(float(x));
        const HostRounding scope(mode);
        return canonical(opaque(float(opaque(x))));
    } else return round_half<D>(x, mode);
}
inline float largest(float) { return std::numeric_limits<float>::max(); }
inline double largest(double) { return std::numeric_limits<double>::max(); }
inline f16 largest(f16) { return {0x7bff}; }
inline bf16 largest(bf16) { return {0x7f7f}; }

// aux[7]: 1 .relu, 2 .satfinite, 3 both.
template <class D>
inline D finish(D d, const Ins* i) {
    double v = exact(d);
    if (i->aux[6]) return rounded<D>(saturate(v), kNearest);
    if ((i->aux[7] & 1) && v == v && !(v > 0.0)) return D{};
    if ((i->aux[7] & 2) && std::isinf(v)) return rounded<D>(std::copysign(exact(largest(D{})), v), kNearest);
    if constexpr (std::is_same_v<D, float>) return i->aux[5] ? flush(d) : d;
    return d;
}
template <class D, class S>
inline D convert_float(S s, const Ins* i) {
    double v = source(s, i->aux[5]);
    const int rounding = i->aux[4];
    if (rounding >= kToInteger) v = integral(v, rounding - kToInteger);
    return finish(rounded<D>(v, rounding >= kToInteger ? kNearest : rounding), i);
}
template <class D, class S>
const Ins* float_to_float(const Ins* i, Warp& w) {
    D* d = w.reg<D>(i->op[0]);
    const S* s = w.reg<S>(i->op[1]);
    for (uint32_t m = w.exec; m; m &= m - 1) {
        const int l = __builtin_ctz(m);
        d[l] = convert_float<D>(s[l], i);
    }
    return i + 1;
}
// cvt.f16x2.f32 d, a, b: a becomes the high half.
template <class H>
const Ins* floats_to_pair(const Ins* i, Warp& w) {
    H* d = w.reg<H>(i->op[0]);
    const float *a = w.reg<float>(i->op[1]), *b = w.reg<float>(i->op[2]);
    for (uint32_t m = w.exec; m; m &= m - 1) {
        const int l = __builtin_ctz(m);
        const H lo = convert_float<H>(b[l], i), hi = convert_float<H>(a[l], i);
        d[2 * l] = lo;
        d[2 * l + 1] = hi;
    }
    return i + 1;
}
template <class H>
struct Pair {
    static uint32_t of(float a, float b) { return uint32_t(narrow<H>(a).raw) << 16 | narrow<H>(b).raw; }
};
// tf32 keeps 10 bits of mantissa; .rna breaks ties away from zero.
struct Tf32Away {
    static uint32_t of(uint32_t u) {
        const uint32_t magnitude = u & 0x7fffffffu;
        if (magnitude >= 0x7f800000u) return magnitude == 0x7f800000u ? u : 0x7fffffffu;
        return (u + 0x1000u) & 0xffffe000u;
    }
};

template <class D>
inline D integer_as(int64_t v, bool is_signed) {
    if constexpr (std::is_same_v<D, double>) return is_signed ? double(v) : double(uint64_t(v));
    else return is_signed ? float(v) : float(uint64_t(v));
}
template <class D, class S>
const Ins* integer_to_float(const Ins* i, Warp& w) {
    D* d = w.reg<D>(i->op[0]);
    const S* s = w.reg<S>(i->op[1]);
    const HostRounding scope(i->aux[4] & 3);
    for (uint32_t m = w.exec; m; m &= m - 1) {
        const int l = __builtin_ctz(m);
        const int64_t v = extend(s[l], i->aux[0], i->aux[1] != 0);
        if constexpr (sizeof(D) == 2) {  // beyond 2^53 a half overflows anyway
            const double x = integer_as<double>(opaque(v), i->aux[1]);
            const HostRounding nearest(kNearest);
            d[l] = finish(rounded<D>(opaque(x), i->aux[4] & 3), i);
        } else {
            d[l] = finish(opaque(integer_as<D>(opaque(v), i->aux[1])), i);
        }
    }
    return i + 1;
}
template <class H>
struct Widen { static float of(H a) { return canonical(widen(a)); } };
template <class H>
struct Narrow { static H of(float a) { return narrow<H>(a); } };

#define EMU_FROM(D, d) \
    {"cvt." d ".b16", integer_to_integer<D, uint16_t>}, {"cvt." d ".b32", integer_to_integer<D, uint32_t>}, \
    {"cvt." d ".b64", integer_to_integer<D, uint64_t>}, {"cvt." d ".f16", float_to_integer<D, f16>}, \
    {"cvt." d ".bf16", float_to_integer<D, bf16>}, {"cvt." d ".f32", float_to_integer<D, float>}, \
    {"cvt." d ".f64", float_to_integer<D, double>}
#define EMU_TO(D, d) \
    {"cvt." d ".b16", integer_to_float<D, uint16_t>}, {"cvt." d ".b32", integer_to_float<D, uint32_t>}, \
    {"cvt." d ".b64", integer_to_float<D, uint64_t>}, {"cvt." d ".f16", float_to_float<D, f16>}, \
    {"cvt." d ".bf16", float_to_float<D, bf16>}, {"cvt." d ".f32", float_to_float<D, float>}, \
    {"cvt." d ".f64", float_to_float<D, double>}

const TableEntry kEntries[] = {
    EMU_FROM(uint16_t, "b16"), EMU_FROM(uint32_t, "b32"), EMU_FROM(uint64_t, "b64"),
    EMU_TO(f16, "f16"), EMU_TO(bf16, "bf16"), EMU_TO(float, "f32"), EMU_TO(double, "f64"),
    {"cvt.pair.f16", floats_to_pair<f16>}, {"cvt.pair.bf16", floats_to_pair<bf16>},
    {"cvt.rna.tf32", unary1<Tf32Away, uint32_t>},
    {"cvt.plain.u64.u32", unary<As<uint64_t, uint32_t>, uint64_t, uint32_t>},
    {"cvt.plain.s64.s32", unary<As<int64_t, int32_t>, int64_t, int32_t>},
    {"cvt.plain.u32.u64", unary<As<uint32_t, uint64_t>, uint32_t, uint64_t>},
    {"cvt.plain.u32.u16", unary<As<uint32_t, uint16_t>, uint32_t, uint16_t>},
    {"cvt.plain.u16.u32", unary<As<uint16_t, uint32_t>, uint16_t, uint32_t>},
    {"cvt.plain.f32.s32", unary<As<float, int32_t>, float, int32_t>},
    {"cvt.plain.f32.f16", unary<Widen<f16>, float, f16>}, {"cvt.plain.f32.bf16", unary<Widen<bf16>, float, bf16>},
    {"cvt.plain.f16.f32", unary<Narrow<f16>, f16, float>}, {"cvt.plain.bf16.f32", unary<Narrow<bf16>, bf16, float>},
    {"cvt.plain.f16x2.f32", binary<Pair<f16>, uint32_t, float, float>},
    {"cvt.plain.bf16x2.f32", binary<Pair<bf16>, uint32_t, float, float>},
};

}  // namespace

Table convert_table() { return {kEntries, std::size(kEntries)}; }

}  // namespace emu
