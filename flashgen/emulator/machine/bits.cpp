// Logic, shifts, bit fields, byte permutation.
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

struct And { template <class T> static T of(T a, T b) { return a & b; } };
struct Or { template <class T> static T of(T a, T b) { return a | b; } };
struct Xor { template <class T> static T of(T a, T b) { return a ^ b; } };
struct Not { template <class T> static T of(T a) { return T(~a); } };
struct Cnot { template <class T> static T of(T a) { return T(a == 0); } };

// A shift by the width or more gives 0, or the sign.
struct Shl {
    template <class T> static T of(T a, u32 b) { return b < 8 * sizeof(T) ? T(a << b) : T(0); }
};
struct Shr {
    template <class T> static T of(T a, u32 b) {
        constexpr u32 width = 8 * sizeof(T);
        if (std::is_signed_v<T>) return T(a >> (b < width ? b : width - 1));
        return b < width ? T(a >> b) : T(0);
    }
};
// Funnel shifts of {b, a}: the left one returns the upper word, the right one the lower.
inline u64 funnel(u32 a, u32 b) { return u64(b) << 32 | a; }
struct ShfLeftWrap { static u32 of(u32 a, u32 b, u32 c) { return u32(funnel(a, b) << (c & 31) >> 32); } };
struct ShfLeftClamp { static u32 of(u32 a, u32 b, u32 c) { return u32(funnel(a, b) << (c < 32 ? c : 32) >> 32); } };
struct ShfRightWrap { static u32 of(u32 a, u32 b, u32 c) { return u32(funnel(a, b) >> (c & 31)); } };
struct ShfRightClamp { static u32 of(u32 a, u32 b, u32 c) { return u32(funnel(a, b) >> (c < 32 ? c : 32)); } };

struct Popc {
    static u32 of(u32 a) { return u32(__builtin_popcount(a)); }
    static u32 of(u64 a) { return u32(__builtin_popcountll(a)); }
};
struct Clz {
    static u32 of(u32 a) { return a ? u32(__builtin_clz(a)) : 32; }
    static u32 of(u64 a) { return a ? u32(__builtin_clzll(a)) : 64; }
};
// The position of the most significant bit that differs from the sign; all ones if there is none.
template <bool ShiftAmount>
struct Bfind {
    template <class T> static u32 of(T a) {
        using U = std::make_unsigned_t<T>;
        const U magnitude = U(a < 0 ? ~a : a);
        if (magnitude == 0) return kAll;
        const u32 leading = Clz::of(magnitude);
        return ShiftAmount ? leading : u32(8 * sizeof(T)) - 1 - leading;
    }
};
struct Brev {
    template <class T> static T of(T a) {
        T r = 0;
        for (unsigned k = 0; k < 8 * sizeof(T); ++k) r |= T(a >> k & 1u) << (8 * sizeof(T) - 1 - k);
        return r;
    }
};
// Position and length are taken from 8 bits each; a field that runs past the top is filled with the sign.
struct Bfe {
    template <class T> static T of(T a, u32 b, u32 c) {
        using U = std::make_unsigned_t<T>;
        constexpr u32 top = 8 * sizeof(T) - 1;
        const u32 pos = b & 0xffu, len = c & 0xffu;
        const u32 last = pos + len - 1 < top ? pos + len - 1 : top;
        const bool sign = std::is_signed_v<T> && len != 0 && (U(a) >> last & 1u);
        U d = sign ? U(-1) : U(0);
        for (u32 k = 0; k <= top; ++k)
            if (k < len && pos + k <= top) d = (d & ~(U(1) << k)) | U(U(a) >> (pos + k) & 1u) << k;
        return T(d);
    }
};
template <class T> inline T ones(u32 count) { return count >= 8 * sizeof(T) ? T(-1) : T((T(1) << count) - 1); }
struct Bfi {
    template <class T> static T of(T a, T b, u32 c, u32 d) {
        const u32 pos = c & 0xffu, len = d & 0xffu;
        if (pos >= 8 * sizeof(T)) return b;
        const T field = T(ones<T>(len) << pos);
        return T((b & ~field) | (T(a << pos) & field));
    }
};
struct BmskClamp {
    static u32 of(u32 a, u32 b) { return a >= 32 ? 0 : ones<u32>(b) << a; }
};
struct BmskWrap {
    static u32 of(u32 a, u32 b) { return ones<u32>(b & 31) << (a & 31); }
};
// Keeps the low n bits and extends them; clamp: n of 32 or more keeps all.
template <bool Wrap>
struct Szext {
    template <class T> static T of(T a, u32 b) {
        const u32 n = Wrap ? b & 31 : b;
        if (n >= 32) return a;
        if (n == 0) return 0;
        return std::is_signed_v<T> ? T(s32(u32(a) << (32 - n)) >> (32 - n)) : T(u32(a) & ones<u32>(n));
    }
};
// The position of the |n|-th set bit from `base`, upwards or downwards; n = 0: `base` itself if set.
struct Fns {
    static u32 of(u32 mask, u32 base, s32 n) {
        if (base > 31) return kAll;
        if (n == 0) return mask >> base & 1u ? base : kAll;
        const int step = n > 0 ? 1 : -1;
        s64 left = n > 0 ? n : -s64(n);
        for (int k = int(base); k >= 0 && k < 32; k += step)
            if ((mask >> k & 1u) && --left == 0) return u32(k);
        return kAll;
    }
};

// The truth table is an immediate: one minterm for each of its set bits.
const Ins* lop3(const Ins* i, Warp& w) {
    u32* d = w.reg<u32>(i->op[0]);
    const u32 *a = w.reg<u32>(i->op[1]), *b = w.reg<u32>(i->op[2]), *c = w.reg<u32>(i->op[3]);
    u32 minterm[8];
    for (int k = 0; k < 8; ++k) minterm[k] = i->imm >> k & 1u ? kAll : 0u;
    each_lane(w.exec, [=](int l) {
        const u32 x = a[l], y = b[l], z = c[l];
        const u32 low = (~y & ((~z & minterm[0]) | (z & minterm[1]))) | (y & ((~z & minterm[2]) | (z & minterm[3])));
        const u32 high = (~y & ((~z & minterm[4]) | (z & minterm[5]))) | (y & ((~z & minterm[6]) | (z & minterm[7])));
        d[l] = (~x & low) | (x & high);
    });
    return i + 1;
}

// d|p of lop3.BoolOp: p = (d != 0) BoolOp q. Follows the lop3 that made d.
const Ins* nonzero_bool(const Ins* i, Warp& w) {
    const u32* d = w.reg<u32>(i->op[1]);
    u32 nonzero = 0;
    for (int l = 0; l < kLanes; ++l) nonzero |= u32(d[l] != 0) << l;
    const u32 q = predicate(w, i->op[2]) ^ (i->aux[1] ? kAll : 0);
    set_predicate(w, i->op[0], i->aux[0] == 1 ? nonzero & q : i->aux[0] == 2 ? nonzero | q : nonzero ^ q);
    return i + 1;
}

enum PrmtMode { kIndex, kForward4, kBackward4, kReplicate8, kEdgeLeft, kEdgeRight, kReplicate16 };
u32 prmt_selector(int mode, u32 c) {
    const u32 n = c & 3;
    u32 s = 0;
    for (u32 k = 0; k < 4; ++k) {
        u32 byte = 0;
        switch (mode) {
            case kForward4: byte = n + k; break;
            case kBackward4: byte = (n - k) & 7; break;
            case kReplicate8: byte = n; break;
            case kEdgeLeft: byte = k > n ? k : n; break;
            case kEdgeRight: byte = k < n ? k : n; break;
            case kReplicate16: byte = (n & 1) * 2 + (k & 1); break;
            default: byte = c >> (4 * k) & 0xfu;
        }
        s |= byte << (4 * k);
    }
    return s;
}
const Ins* prmt(const Ins* i, Warp& w) {
    u32* d = w.reg<u32>(i->op[0]);
    const u32 *a = w.reg<u32>(i->op[1]), *b = w.reg<u32>(i->op[2]), *c = w.reg<u32>(i->op[3]);
    const int mode = i->aux[0];
    each_lane(w.exec, [=](int l) {
        const u64 bytes = u64(b[l]) << 32 | a[l];
        const u32 selector = prmt_selector(mode, c[l]);
        u32 r = 0;
        for (int k = 0; k < 4; ++k) {
            const u32 pick = selector >> (4 * k) & 0xfu, byte = u32(bytes >> (8 * (pick & 7))) & 0xffu;
            r |= (pick & 8 ? (byte & 0x80u ? 0xffu : 0u) : byte) << (8 * k);
        }
        d[l] = r;
    });
    return i + 1;
}

// Predicates are masks of lanes, so their logic is one word.
template <class F>
const Ins* predicate_binary(const Ins* i, Warp& w) {
    const u32 a = predicate(w, i->op[1]) ^ (i->aux[0] ? kAll : 0), b = predicate(w, i->op[2]) ^ (i->aux[1] ? kAll : 0);
    set_predicate(w, i->op[0], F::of(a, b));
    return i + 1;
}
const Ins* predicate_not(const Ins* i, Warp& w) {
    set_predicate(w, i->op[0], ~(predicate(w, i->op[1]) ^ (i->aux[0] ? kAll : 0)));
    return i + 1;
}
const Ins* predicate_move(const Ins* i, Warp& w) {
    set_predicate(w, i->op[0], predicate(w, i->op[1]) ^ (i->aux[0] ? kAll : 0));
    return i + 1;
}

const TableEntry kEntries[] = {
    {"and.b16", binary1<And, u16>}, {"and.b32", binary1<And, u32>}, {"and.b64", binary1<And, u64>},
    {"or.b16", binary1<Or, u16>}, {"or.b32", binary1<Or, u32>}, {"or.b64", binary1<Or, u64>},
    {"xor.b16", binary1<Xor, u16>}, {"xor.b32", binary1<Xor, u32>}, {"xor.b64", binary1<Xor, u64>},
    {"not.b16", unary1<Not, u16>}, {"not.b32", unary1<Not, u32>}, {"not.b64", unary1<Not, u64>},
    {"cnot.b16", unary1<Cnot, u16>}, {"cnot.b32", unary1<Cnot, u32>}, {"cnot.b64", unary1<Cnot, u64>},
    {"and.pred", predicate_binary<And>}, {"or.pred", predicate_binary<Or>}, {"xor.pred", predicate_binary<Xor>},
    {"not.pred", predicate_not}, {"mov.pred", predicate_move},
    {"shl.b16", binary<Shl, u16, u16, u32>}, {"shl.b32", binary<Shl, u32, u32, u32>},
    {"shl.b64", binary<Shl, u64, u64, u32>},
    {"shr.u16", binary<Shr, u16, u16, u32>}, {"shr.u32", binary<Shr, u32, u32, u32>},
    {"shr.u64", binary<Shr, u64, u64, u32>},
    {"shr.s16", binary<Shr, s16, s16, u32>}, {"shr.s32", binary<Shr, s32, s32, u32>},
    {"shr.s64", binary<Shr, s64, s64, u32>},
    {"shf.l.wrap", ternary1<ShfLeftWrap, u32>}, {"shf.l.clamp", ternary1<ShfLeftClamp, u32>},
    {"shf.r.wrap", ternary1<ShfRightWrap, u32>}, {"shf.r.clamp", ternary1<ShfRightClamp, u32>},
    {"popc.b32", unary<Popc, u32, u32>}, {"popc.b64", unary<Popc, u32, u64>},
    {"clz.b32", unary<Clz, u32, u32>}, {"clz.b64", unary<Clz, u32, u64>},
    {"bfind.u32", unary<Bfind<false>, u32, u32>}, {"bfind.u64", unary<Bfind<false>, u32, u64>},
    {"bfind.s32", unary<Bfind<false>, u32, s32>}, {"bfind.s64", unary<Bfind<false>, u32, s64>},
    {"bfind.shiftamt.u32", unary<Bfind<true>, u32, u32>}, {"bfind.shiftamt.u64", unary<Bfind<true>, u32, u64>},
    {"bfind.shiftamt.s32", unary<Bfind<true>, u32, s32>}, {"bfind.shiftamt.s64", unary<Bfind<true>, u32, s64>},
    {"brev.b32", unary1<Brev, u32>}, {"brev.b64", unary1<Brev, u64>},
    {"bfe.u32", ternary<Bfe, u32, u32, u32, u32>}, {"bfe.u64", ternary<Bfe, u64, u64, u32, u32>},
    {"bfe.s32", ternary<Bfe, s32, s32, u32, u32>}, {"bfe.s64", ternary<Bfe, s64, s64, u32, u32>},
    {"bfi.b32", quaternary<Bfi, u32, u32, u32, u32, u32>}, {"bfi.b64", quaternary<Bfi, u64, u64, u64, u32, u32>},
    {"bmsk.clamp", binary1<BmskClamp, u32>}, {"bmsk.wrap", binary1<BmskWrap, u32>},
    {"szext.clamp.u32", binary<Szext<false>, u32, u32, u32>}, {"szext.clamp.s32", binary<Szext<false>, s32, s32, u32>},
    {"szext.wrap.u32", binary<Szext<true>, u32, u32, u32>}, {"szext.wrap.s32", binary<Szext<true>, s32, s32, u32>},
    {"fns.b32", ternary<Fns, u32, u32, u32, s32>},
    {"lop3.b32", lop3}, {"nonzero.bool", nonzero_bool}, {"prmt.b32", prmt},
};

}  // namespace

Table bits_table() { return {kEntries, std::size(kEntries)}; }

}  // namespace emu
