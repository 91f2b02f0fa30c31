// Single and double precision, rounded to nearest even: the fast paths. Other roundings: rounding.cpp.
#include <iterator>

#include "approx.hpp"
#include "handlers.hpp"

namespace emu {
namespace {

struct Plus { template <class T> static T of(T a, T b) { return a + b; } };
struct Minus { template <class T> static T of(T a, T b) { return a - b; } };
struct Times { template <class T> static T of(T a, T b) { return a * b; } };
struct Over { template <class T> static T of(T a, T b) { return a / b; } };
struct Inverse { template <class T> static T of(T a) { return T(1) / a; } };
struct Root { template <class T> static T of(T a) { return std::sqrt(a); } };
struct Fused { template <class T> static T of(T a, T b, T c) { return std::fma(a, b, c); } };

// An operation with its operands and its result flushed, if asked for, and one NaN for all.
template <class Op, bool Ftz>
struct Arithmetic {
    template <class... T> static auto of(T... a) { return canonical(ftz<Ftz>(Op::of(ftz<Ftz>(a)...))); }
};
template <bool Ftz> using Add = Arithmetic<Plus, Ftz>;
template <bool Ftz> using Sub = Arithmetic<Minus, Ftz>;
template <bool Ftz> using Mul = Arithmetic<Times, Ftz>;
template <bool Ftz> using Div = Arithmetic<Over, Ftz>;
template <bool Ftz> using Fma = Arithmetic<Fused, Ftz>;
template <bool Ftz> using Rcp1 = Arithmetic<Inverse, Ftz>;
template <bool Ftz> using Sqrt1 = Arithmetic<Root, Ftz>;

// Sign operations touch one bit; NaN is canonical only where the manual asks for arithmetic.
template <bool Ftz> struct Abs { template <class T> static T of(T a) { return ftz<Ftz>(std::fabs(a)); } };
template <bool Ftz> struct Neg { template <class T> static T of(T a) { return ftz<Ftz>(-a); } };
struct Copysign {  // d = b with the sign of a
    template <class T> static T of(T a, T b) { return std::copysign(b, a); }
};

// +0 > -0. A NaN operand is passed over, unless .NaN asks for it; two NaNs give the canonical one.
template <class T> inline T least(T a, T b) { return a < b || (a == b && std::signbit(a)) ? a : b; }
template <class T> inline T greatest(T a, T b) { return a > b || (a == b && !std::signbit(a)) ? a : b; }
template <bool IsMax, bool Ftz, bool NaN>
struct Extreme {
    template <class T> static T of(T x, T y) {
        const T a = ftz<Ftz>(x), b = ftz<Ftz>(y), d = IsMax ? greatest(a, b) : least(a, b);
        const T nan = canonical(std::numeric_limits<T>::quiet_NaN());
        if (NaN) return a == a && b == b ? d : nan;
        return a == a ? (b == b ? d : a) : (b == b ? b : nan);
    }
    template <class T> static T of(T a, T b, T c) { return of(of(a, b), c); }
};
// .xorsign.abs: the extreme of the magnitudes, with the exclusive or of the signs.
template <bool IsMax, bool Ftz, bool NaN>
struct ExtremeXorsign {
    static float of(float a, float b) {
        const float d = Extreme<IsMax, Ftz, NaN>::of(std::fabs(a), std::fabs(b));
        return bits<float>(bits<uint32_t>(d) | ((bits<uint32_t>(a) ^ bits<uint32_t>(b)) & 0x80000000u));
    }
};

template <class F, bool Ftz>
struct Approx {
    static float of(float a) { return canonical(ftz<Ftz>(static_cast<float>(F::of(ftz<Ftz>(a))))); }
};
// div.approx: |b| in [2^126, 2^128) gives 0, since the hardware multiplies by a reciprocal that underflows.
template <bool Ftz>
struct DivApprox {
    static float of(float x, float y) {
        const float a = ftz<Ftz>(x), b = ftz<Ftz>(y), size = std::fabs(b);
        if (size > 0x1p126f && size < std::numeric_limits<float>::infinity())
            return std::isfinite(a) ? std::copysign(0.0f, a) * std::copysign(1.0f, b) : canonical(a * 0.0f);
        return canonical(ftz<Ftz>(a / b));
    }
};
// The low word of the result is zero: these serve as seeds of Newton iterations.
inline double high_word(double x) { return bits<double>(bits<uint64_t>(x) & 0xffffffff00000000ull); }
inline double flush(double x) { return (bits<uint64_t>(x) & 0x7ff0000000000000ull) ? x : std::copysign(0.0, x); }
struct RcpApprox64 {
    static double of(double a) { return canonical(high_word(flush(1.0 / flush(high_word(a))))); }
};
struct RsqrtApproxFtz64 {
    static double of(double a) { return canonical(high_word(flush(1.0 / std::sqrt(flush(high_word(a)))))); }
};
struct Rsqrt64 { static double of(double a) { return canonical(1.0 / std::sqrt(a)); } };

enum Class { kFinite, kInfinite, kNumber, kNotANumber, kNormal, kSubnormal };
template <class T>
const Ins* testp(const Ins* i, Warp& w) {
    const T* a = w.reg<T>(i->op[1]);
    uint32_t r = 0;
    for (int l = 0; l < kLanes; ++l) {
        bool is = false;
        switch (i->aux[0]) {
            case kFinite: is = std::isfinite(a[l]); break;
            case kInfinite: is = std::isinf(a[l]); break;
            case kNumber: is = !std::isnan(a[l]); break;
            case kNotANumber: is = std::isnan(a[l]); break;
            case kNormal: is = std::isnormal(a[l]); break;
            case kSubnormal: is = std::fpclassify(a[l]) == FP_SUBNORMAL; break;
        }
        r |= uint32_t(is) << l;
    }
    set_predicate(w, i->op[0], r);
    return i + 1;
}

// Two floats in a 64-bit register.
template <class F>
struct Both {
    static float lo(uint64_t a) { return bits<float>(uint32_t(a)); }
    static float hi(uint64_t a) { return bits<float>(uint32_t(a >> 32)); }
    template <class... T> static uint64_t of(T... a) {
        return bits<uint32_t>(F::of(lo(a)...)) | uint64_t(bits<uint32_t>(F::of(hi(a)...))) << 32;
    }
};

#define EMU_F32(name, map, F) {name ".f32", map<F<false>, float>}, {name ".ftz.f32", map<F<true>, float>}
#define EMU_APPROX(name, F) \
    {name ".approx.f32", unary1<Approx<F, false>, float>}, {name ".approx.ftz.f32", unary1<Approx<F, true>, float>}
#define EMU_EXTREME(name, map, max) \
    {name ".f32", map<Extreme<max, false, false>, float>}, {name ".ftz.f32", map<Extreme<max, true, false>, float>}, \
    {name ".NaN.f32", map<Extreme<max, false, true>, float>}, \
    {name ".ftz.NaN.f32", map<Extreme<max, true, true>, float>}
#define EMU_XORSIGN(name, max) \
    {name ".xorsign.f32", binary1<ExtremeXorsign<max, false, false>, float>}, \
    {name ".ftz.xorsign.f32", binary1<ExtremeXorsign<max, true, false>, float>}, \
    {name ".NaN.xorsign.f32", binary1<ExtremeXorsign<max, false, true>, float>}, \
    {name ".ftz.NaN.xorsign.f32", binary1<ExtremeXorsign<max, true, true>, float>}

const TableEntry kEntries[] = {
    EMU_F32("add", binary1, Add), EMU_F32("sub", binary1, Sub), EMU_F32("mul", binary1, Mul),
    EMU_F32("fma", ternary1, Fma), EMU_F32("div", binary1, Div), EMU_F32("rcp", unary1, Rcp1),
    EMU_F32("sqrt", unary1, Sqrt1), EMU_F32("abs", unary1, Abs), EMU_F32("neg", unary1, Neg),
    EMU_F32("div.approx", binary1, DivApprox),
    EMU_EXTREME("min", binary1, false), EMU_EXTREME("max", binary1, true),
    EMU_EXTREME("min3", ternary1, false), EMU_EXTREME("max3", ternary1, true),
    EMU_XORSIGN("min", false), EMU_XORSIGN("max", true),
    EMU_APPROX("ex2", Ex2), EMU_APPROX("lg2", Lg2), EMU_APPROX("rcp", Rcp), EMU_APPROX("rsqrt", Rsqrt),
    EMU_APPROX("sqrt", Sqrt), EMU_APPROX("sin", Sin), EMU_APPROX("cos", Cos), EMU_APPROX("tanh", Tanh),
    {"add.f64", binary1<Add<false>, double>}, {"sub.f64", binary1<Sub<false>, double>},
    {"mul.f64", binary1<Mul<false>, double>}, {"div.f64", binary1<Div<false>, double>},
    {"fma.f64", ternary1<Fma<false>, double>}, {"rcp.f64", unary1<Rcp1<false>, double>},
    {"sqrt.f64", unary1<Sqrt1<false>, double>}, {"abs.f64", unary1<Abs<false>, double>},
    {"neg.f64", unary1<Neg<false>, double>}, {"min.f64", binary1<Extreme<false, false, false>, double>},
    {"max.f64", binary1<Extreme<true, false, false>, double>}, {"rsqrt.approx.f64", unary1<Rsqrt64, double>},
    {"rcp.approx.ftz.f64", unary1<RcpApprox64, double>}, {"rsqrt.approx.ftz.f64", unary1<RsqrtApproxFtz64, double>},
    {"copysign.f32", binary1<Copysign, float>}, {"copysign.f64", binary1<Copysign, double>},
    {"testp.f32", testp<float>}, {"testp.f64", testp<double>},
    {"add.f32x2", binary1<Both<Add<false>>, uint64_t>}, {"add.ftz.f32x2", binary1<Both<Add<true>>, uint64_t>},
    {"sub.f32x2", binary1<Both<Sub<false>>, uint64_t>}, {"sub.ftz.f32x2", binary1<Both<Sub<true>>, uint64_t>},
    {"mul.f32x2", binary1<Both<Mul<false>>, uint64_t>}, {"mul.ftz.f32x2", binary1<Both<Mul<true>>, uint64_t>},
    {"fma.f32x2", ternary1<Both<Fma<false>>, uint64_t>}, {"fma.ftz.f32x2", ternary1<Both<Fma<true>>, uint64_t>},
};

}  // namespace

Table float_table() { return {kEntries, std::size(kEntries)}; }

}  // namespace emu
