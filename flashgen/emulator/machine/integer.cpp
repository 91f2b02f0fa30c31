// Integer arithmetic. Wrapping operations run on unsigned types; 16-bit ones in 32 bits, cut back.
#include <iterator>
#include <type_traits>

#include "handlers.hpp"

namespace emu {
namespace {

using u16 = uint16_t;
using u32 = uint32_t;
using u64 = uint64_t;
using s16 = int16_t;
using s32 = int32_t;
using s64 = int64_t;

template <class T> struct Wider;
template <> struct Wider<u16> { using type = u32; };
template <> struct Wider<s16> { using type = s32; };
template <> struct Wider<u32> { using type = u64; };
template <> struct Wider<s32> { using type = s64; };
template <> struct Wider<u64> { using type = unsigned __int128; };
template <> struct Wider<s64> { using type = __int128; };
template <class T> using wider = typename Wider<T>::type;

struct Add { template <class T> static T of(T a, T b) { return T(a + b); } };
struct Sub { template <class T> static T of(T a, T b) { return T(a - b); } };
struct MulLo { template <class T> static T of(T a, T b) { return T(wider<T>(a) * b); } };
struct MadLo { template <class T> static T of(T a, T b, T c) { return T(wider<T>(a) * b + c); } };
struct MulHi {
    template <class T> static T of(T a, T b) { return T((wider<T>(a) * wider<T>(b)) >> (8 * sizeof(T))); }
};
struct MadHi {
    template <class T> static T of(T a, T b, T c) {
        return T(std::make_unsigned_t<T>(MulHi::of(a, b)) + std::make_unsigned_t<T>(c));
    }
};
struct MulWide { template <class T> static wider<T> of(T a, T b) { return wider<T>(a) * b; } };
struct MadWide {
    template <class T> static wider<T> of(T a, T b, wider<T> c) {
        using U = std::make_unsigned_t<wider<T>>;
        return wider<T>(U(wider<T>(a) * b) + U(c));
    }
};
inline s32 clamp32(s64 x) { return x > INT32_MAX ? INT32_MAX : x < INT32_MIN ? INT32_MIN : s32(x); }
struct AddSat { static s32 of(s32 a, s32 b) { return clamp32(s64(a) + b); } };
struct SubSat { static s32 of(s32 a, s32 b) { return clamp32(s64(a) - b); } };
struct MadHiSat { static s32 of(s32 a, s32 b, s32 c) { return clamp32(s64(MulHi::of(a, b)) + c); } };

// The 24-bit operands are sign- or zero-extended, whatever their upper bits say.
inline u64 cut24(u32 a) { return a & 0xffffffu; }
inline s64 cut24(s32 a) { return s32(u32(a) << 8) >> 8; }
struct Mul24Lo { template <class T> static T of(T a, T b) { return T(cut24(a) * cut24(b)); } };
struct Mul24Hi { template <class T> static T of(T a, T b) { return T((cut24(a) * cut24(b)) >> 16); } };
struct Mad24Lo { template <class T> static T of(T a, T b, T c) { return T(u32(Mul24Lo::of(a, b)) + u32(c)); } };
struct Mad24Hi { template <class T> static T of(T a, T b, T c) { return T(u32(Mul24Hi::of(a, b)) + u32(c)); } };
struct Mad24HiSat { static s32 of(s32 a, s32 b, s32 c) { return clamp32(s64(Mul24Hi::of(a, b)) + c); } };

struct Sad {
    template <class T> static T of(T a, T b, T c) {
        using U = std::make_unsigned_t<T>;
        return T(U(c) + (a < b ? U(U(b) - U(a)) : U(U(a) - U(b))));
    }
};
// Division by zero gives all ones, and the dividend as remainder, as hardware does. The most negative
// number divided by -1 wraps; dividing in 64 bits keeps the host from trapping on it.
template <class T> inline bool traps(T a, T b) {
    return std::is_signed_v<T> && sizeof(T) == 8 && a == std::numeric_limits<T>::min() && b == T(-1);
}
struct Div {
    template <class T> static T of(T a, T b) {
        if (b == 0) return T(-1);
        if (traps(a, b)) return a;
        if constexpr (sizeof(T) < 8) return T(s64(a) / s64(b));
        return T(a / b);
    }
};
struct Rem {
    template <class T> static T of(T a, T b) {
        if (b == 0) return a;
        if (traps(a, b)) return 0;
        if constexpr (sizeof(T) < 8) return T(s64(a) % s64(b));
        return T(a % b);
    }
};
struct Abs {
    template <class T> static T of(T a) { return a < 0 ? T(0 - std::make_unsigned_t<T>(a)) : a; }
};
struct Neg { template <class T> static T of(T a) { return T(0 - a); } };
struct Min { template <class T> static T of(T a, T b) { return a < b ? a : b; } };
struct Max { template <class T> static T of(T a, T b) { return a > b ? a : b; } };
struct MinRelu { static s32 of(s32 a, s32 b) { return Max::of(Min::of(a, b), 0); } };
struct MaxRelu { static s32 of(s32 a, s32 b) { return Max::of(Max::of(a, b), 0); } };

// Two 16-bit elements in a 32-bit register.
template <class F, class T>
struct Both {
    static u32 of(u32 a, u32 b) {
        return u32(u16(F::of(T(a), T(b)))) | u32(u16(F::of(T(a >> 16), T(b >> 16)))) << 16;
    }
};
struct MinRelu16 { static s16 of(s16 a, s16 b) { return Max::of(Min::of(a, b), s16(0)); } };
struct MaxRelu16 { static s16 of(s16 a, s16 b) { return Max::of(Max::of(a, b), s16(0)); } };

// dp4a, dp2a: `aux` tells signedness (a, b) and which half of b.
const Ins* dot(const Ins* i, Warp& w) {
    u32* d = w.reg<u32>(i->op[0]);
    const u32 *a = w.reg<u32>(i->op[1]), *b = w.reg<u32>(i->op[2]), *c = w.reg<u32>(i->op[3]);
    const bool signed_a = i->aux[0], signed_b = i->aux[1], two = i->aux[2];
    const int skip = i->aux[3] ? 16 : 0, width = two ? 16 : 8, terms = two ? 2 : 4;
    each_lane(w.exec, [=](int l) {
        u32 sum = c[l];
        for (int k = 0; k < terms; ++k) {
            const u32 x = a[l] >> (k * width) & ((1u << width) - 1), y = b[l] >> (skip + 8 * k) & 0xffu;
            const s32 xs = signed_a ? s32(x << (32 - width)) >> (32 - width) : s32(x);
            sum += u32(xs) * u32(signed_b ? int8_t(y) : s32(y));
        }
        d[l] = sum;
    });
    return i + 1;
}

// add.cc, addc, sub.cc, subc, mad.cc, madc: `aux` is {carry in, carry out}.
template <class T, class F>
const Ins* with_carry(const Ins* i, Warp& w) {
    T* d = w.reg<T>(i->op[0]);
    const bool in = i->aux[0], out = i->aux[1];
    u32 carry = w.carry;
    for (u32 m = w.exec; m; m &= m - 1) {
        const int l = __builtin_ctz(m);
        bool c = in && (carry >> l & 1u);
        d[l] = F::template of<T>(i, w, l, c);
        if (out) carry = (carry & ~(1u << l)) | u32(c) << l;
    }
    w.carry = carry;
    return i + 1;
}
template <class T> inline T sum_with_carry(T a, T b, bool& c) {
    const auto sum = wider<T>(a) + b + c;
    c = (sum >> (8 * sizeof(T))) != 0;
    return T(sum);
}
struct CarryAdd {
    template <class T> static T of(const Ins* i, Warp& w, int l, bool& c) {
        return sum_with_carry(w.reg<T>(i->op[1])[l], w.reg<T>(i->op[2])[l], c);
    }
};
struct CarrySub {  // the carry is the borrow
    template <class T> static T of(const Ins* i, Warp& w, int l, bool& c) {
        const T a = w.reg<T>(i->op[1])[l], b = w.reg<T>(i->op[2])[l];
        const T d = T(a - b - c);
        c = wider<T>(a) < wider<T>(b) + c;
        return d;
    }
};
template <class P>
struct CarryMad {
    template <class T> static T of(const Ins* i, Warp& w, int l, bool& c) {
        using S = std::conditional_t<std::is_same_v<P, void>, T, std::make_signed_t<T>>;
        const T a = w.reg<T>(i->op[1])[l], b = w.reg<T>(i->op[2])[l];
        const bool high = i->aux[2];
        return sum_with_carry(high ? T(MulHi::of(S(a), S(b))) : MulLo::of(a, b), w.reg<T>(i->op[3])[l], c);
    }
};

const TableEntry kEntries[] = {
    {"add.b16", binary1<Add, u16>}, {"add.b32", binary1<Add, u32>}, {"add.b64", binary1<Add, u64>},
    {"sub.b16", binary1<Sub, u16>}, {"sub.b32", binary1<Sub, u32>}, {"sub.b64", binary1<Sub, u64>},
    {"add.sat.s32", binary1<AddSat, s32>}, {"sub.sat.s32", binary1<SubSat, s32>},
    {"add.b16x2", binary1<Both<Add, u16>, u32>}, {"sub.b16x2", binary1<Both<Sub, u16>, u32>},
    {"mul.lo.b16", binary1<MulLo, u16>}, {"mul.lo.b32", binary1<MulLo, u32>}, {"mul.lo.b64", binary1<MulLo, u64>},
    {"mad.lo.b16", ternary1<MadLo, u16>}, {"mad.lo.b32", ternary1<MadLo, u32>}, {"mad.lo.b64", ternary1<MadLo, u64>},
    {"mul.hi.u16", binary1<MulHi, u16>}, {"mul.hi.u32", binary1<MulHi, u32>}, {"mul.hi.u64", binary1<MulHi, u64>},
    {"mul.hi.s16", binary1<MulHi, s16>}, {"mul.hi.s32", binary1<MulHi, s32>}, {"mul.hi.s64", binary1<MulHi, s64>},
    {"mad.hi.u16", ternary1<MadHi, u16>}, {"mad.hi.u32", ternary1<MadHi, u32>}, {"mad.hi.u64", ternary1<MadHi, u64>},
    {"mad.hi.s16", ternary1<MadHi, s16>}, {"mad.hi.s32", ternary1<MadHi, s32>}, {"mad.hi.s64", ternary1<MadHi, s64>},
    {"mad.hi.sat.s32", ternary1<MadHiSat, s32>},
    {"mul.wide.u16", binary<MulWide, u32, u16, u16>}, {"mul.wide.u32", binary<MulWide, u64, u32, u32>},
    {"mul.wide.s16", binary<MulWide, s32, s16, s16>}, {"mul.wide.s32", binary<MulWide, s64, s32, s32>},
    {"mad.wide.u16", ternary<MadWide, u32, u16, u16, u32>}, {"mad.wide.u32", ternary<MadWide, u64, u32, u32, u64>},
    {"mad.wide.s16", ternary<MadWide, s32, s16, s16, s32>}, {"mad.wide.s32", ternary<MadWide, s64, s32, s32, s64>},
    {"mul24.lo.u32", binary1<Mul24Lo, u32>}, {"mul24.lo.s32", binary1<Mul24Lo, s32>},
    {"mul24.hi.u32", binary1<Mul24Hi, u32>}, {"mul24.hi.s32", binary1<Mul24Hi, s32>},
    {"mad24.lo.u32", ternary1<Mad24Lo, u32>}, {"mad24.lo.s32", ternary1<Mad24Lo, s32>},
    {"mad24.hi.u32", ternary1<Mad24Hi, u32>}, {"mad24.hi.s32", ternary1<Mad24Hi, s32>},
    {"mad24.hi.sat.s32", ternary1<Mad24HiSat, s32>},
    {"sad.u16", ternary1<Sad, u16>}, {"sad.u32", ternary1<Sad, u32>}, {"sad.u64", ternary1<Sad, u64>},
    {"sad.s16", ternary1<Sad, s16>}, {"sad.s32", ternary1<Sad, s32>}, {"sad.s64", ternary1<Sad, s64>},
    {"div.u16", binary1<Div, u16>}, {"div.u32", binary1<Div, u32>}, {"div.u64", binary1<Div, u64>},
    {"div.s16", binary1<Div, s16>}, {"div.s32", binary1<Div, s32>}, {"div.s64", binary1<Div, s64>},
    {"rem.u16", binary1<Rem, u16>}, {"rem.u32", binary1<Rem, u32>}, {"rem.u64", binary1<Rem, u64>},
    {"rem.s16", binary1<Rem, s16>}, {"rem.s32", binary1<Rem, s32>}, {"rem.s64", binary1<Rem, s64>},
    {"abs.s16", unary1<Abs, s16>}, {"abs.s32", unary1<Abs, s32>}, {"abs.s64", unary1<Abs, s64>},
    {"neg.s16", unary1<Neg, u16>}, {"neg.s32", unary1<Neg, u32>}, {"neg.s64", unary1<Neg, u64>},
    {"min.u16", binary1<Min, u16>}, {"min.u32", binary1<Min, u32>}, {"min.u64", binary1<Min, u64>},
    {"min.s16", binary1<Min, s16>}, {"min.s32", binary1<Min, s32>}, {"min.s64", binary1<Min, s64>},
    {"max.u16", binary1<Max, u16>}, {"max.u32", binary1<Max, u32>}, {"max.u64", binary1<Max, u64>},
    {"max.s16", binary1<Max, s16>}, {"max.s32", binary1<Max, s32>}, {"max.s64", binary1<Max, s64>},
    {"min.relu.s32", binary1<MinRelu, s32>}, {"max.relu.s32", binary1<MaxRelu, s32>},
    {"min.u16x2", binary1<Both<Min, u16>, u32>}, {"min.s16x2", binary1<Both<Min, s16>, u32>},
    {"max.u16x2", binary1<Both<Max, u16>, u32>}, {"max.s16x2", binary1<Both<Max, s16>, u32>},
    {"min.relu.s16x2", binary1<Both<MinRelu16, s16>, u32>}, {"max.relu.s16x2", binary1<Both<MaxRelu16, s16>, u32>},
    {"dot", dot},
    {"carry.add.b32", with_carry<u32, CarryAdd>}, {"carry.add.b64", with_carry<u64, CarryAdd>},
    {"carry.sub.b32", with_carry<u32, CarrySub>}, {"carry.sub.b64", with_carry<u64, CarrySub>},
    {"carry.mad.u32", with_carry<u32, CarryMad<void>>}, {"carry.mad.u64", with_carry<u64, CarryMad<void>>},
    {"carry.mad.s32", with_carry<u32, CarryMad<s32>>}, {"carry.mad.s64", with_carry<u64, CarryMad<s64>>},
};

}  // namespace

Table integer_table() { return {kEntries, std::size(kEntries)}; }

}  // namespace emu
