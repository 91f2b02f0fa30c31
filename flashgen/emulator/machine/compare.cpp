// setp, selp, slct. A comparison makes one word, a bit a lane. `aux` of setp: {boolean operation,
// negate c, has second predicate}; operands: p, q (or p again), a, b, c.
#include <iterator>

#include "handlers.hpp"

namespace emu {
namespace {

struct Eq { template <class T> static bool of(T a, T b) { return a == b; } };
struct Ne { template <class T> static bool of(T a, T b) { return a != b && a == a && b == b; } };
struct Lt { template <class T> static bool of(T a, T b) { return a < b; } };
struct Le { template <class T> static bool of(T a, T b) { return a <= b; } };
// Unordered: true if either operand is NaN.
struct Equ { template <class T> static bool of(T a, T b) { return !(a < b || a > b); } };
struct Neu { template <class T> static bool of(T a, T b) { return !(a == b); } };
struct Ltu { template <class T> static bool of(T a, T b) { return !(a >= b); } };
struct Leu { template <class T> static bool of(T a, T b) { return !(a > b); } };
struct Num { template <class T> static bool of(T a, T b) { return a == a && b == b; } };
struct Nan { template <class T> static bool of(T a, T b) { return a != a || b != b; } };

template <class T> inline T value(T x) { return x; }
struct Flushed { float raw; };
inline float value(Flushed x) { return flush(x.raw); }

inline uint32_t combine(uint32_t compared, const Ins* i, Warp& w) {
    if (i->aux[0] == 0) return compared;
    const uint32_t c = predicate(w, i->op[4]) ^ (i->aux[1] ? kAll : 0);
    return i->aux[0] == 1 ? compared & c : i->aux[0] == 2 ? compared | c : compared ^ c;
}

template <class F, class T>
const Ins* setp(const Ins* i, Warp& w) {
    const T *a = w.reg<T>(i->op[2]), *b = w.reg<T>(i->op[3]);
    uint32_t r = 0;
    for (int l = 0; l < kLanes; ++l) r |= uint32_t(F::of(value(a[l]), value(b[l]))) << l;
    const uint32_t p = combine(r, i, w), q = combine(~r, i, w);  // both before either is written
    set_predicate(w, i->op[0], p);
    if (i->aux[2]) set_predicate(w, i->op[1], q);
    return i + 1;
}
// Halves: the relation is aux[3], flushing aux[4]. In .f16x2 and .bf16x2 p is of the low half, q of the
// high one.
enum Relation { kEq, kNe, kLt, kLe, kEqu, kNeu, kLtu, kLeu, kNum, kNan };
bool holds(int relation, float a, float b) {
    switch (relation) {
        case kEq: return Eq::of(a, b);
        case kNe: return Ne::of(a, b);
        case kLt: return Lt::of(a, b);
        case kLe: return Le::of(a, b);
        case kEqu: return Equ::of(a, b);
        case kNeu: return Neu::of(a, b);
        case kLtu: return Ltu::of(a, b);
        case kLeu: return Leu::of(a, b);
        case kNum: return Num::of(a, b);
        default: return Nan::of(a, b);
    }
}
template <class H>
uint32_t compare_halves(const Ins* i, const H* a, const H* b, int stride) {
    uint32_t r = 0;
    for (int l = 0; l < kLanes; ++l) {
        const H x = a[l * stride], y = b[l * stride];
        const bool ftz = i->aux[4];
        r |= uint32_t(holds(i->aux[3], widen(ftz ? flush(x) : x), widen(ftz ? flush(y) : y))) << l;
    }
    return r;
}
template <class H, int PerLane>
const Ins* setp_half(const Ins* i, Warp& w) {
    const H *a = w.reg<H>(i->op[2]), *b = w.reg<H>(i->op[3]);
    const uint32_t first = compare_halves(i, a, b, PerLane);
    const uint32_t second = PerLane == 2 ? compare_halves(i, a + 1, b + 1, PerLane) : ~first;
    const uint32_t p = combine(first, i, w), q = combine(second, i, w);
    set_predicate(w, i->op[0], p);
    if (i->aux[2]) set_predicate(w, i->op[1], q);
    return i + 1;
}

template <class T>
const Ins* selp(const Ins* i, Warp& w) {
    T* d = w.reg<T>(i->op[0]);
    const T *a = w.reg<T>(i->op[1]), *b = w.reg<T>(i->op[2]);
    const uint32_t p = predicate(w, i->op[3]) ^ (i->aux[0] ? kAll : 0);
    each_lane(w.exec, [=](int l) { d[l] = p >> l & 1u ? a[l] : b[l]; });
    return i + 1;
}
template <class T, class C, bool Ftz>
const Ins* slct(const Ins* i, Warp& w) {
    T* d = w.reg<T>(i->op[0]);
    const T *a = w.reg<T>(i->op[1]), *b = w.reg<T>(i->op[2]);
    const C* c = w.reg<C>(i->op[3]);
    each_lane(w.exec, [=](int l) { d[l] = c[l] >= C(0) || (Ftz && flush(float(c[l])) == 0.0f) ? a[l] : b[l]; });
    return i + 1;
}

// "Greater" is "less" with the operands exchanged, which the decoder does.
#define EMU_EQUAL(T, suffix) {"setp.eq." suffix, setp<Eq, T>}, {"setp.ne." suffix, setp<Ne, T>}
#define EMU_ORDER(T, suffix) {"setp.lt." suffix, setp<Lt, T>}, {"setp.le." suffix, setp<Le, T>}
#define EMU_FLOATING(T, suffix) \
    EMU_EQUAL(T, suffix), EMU_ORDER(T, suffix), \
    {"setp.equ." suffix, setp<Equ, T>}, {"setp.neu." suffix, setp<Neu, T>}, \
    {"setp.ltu." suffix, setp<Ltu, T>}, {"setp.leu." suffix, setp<Leu, T>}, \
    {"setp.num." suffix, setp<Num, T>}, {"setp.nan." suffix, setp<Nan, T>}
#define EMU_SLCT(T, name) \
    {"slct." name ".s32", slct<T, int32_t, false>}, {"slct." name ".f32", slct<T, float, false>}, \
    {"slct." name ".ftz.f32", slct<T, float, true>}

const TableEntry kEntries[] = {
    EMU_EQUAL(uint16_t, "b16"), EMU_EQUAL(uint32_t, "b32"), EMU_EQUAL(uint64_t, "b64"),
    EMU_ORDER(uint16_t, "u16"), EMU_ORDER(uint32_t, "u32"), EMU_ORDER(uint64_t, "u64"),
    EMU_ORDER(int16_t, "s16"), EMU_ORDER(int32_t, "s32"), EMU_ORDER(int64_t, "s64"),
    EMU_FLOATING(float, "f32"), EMU_FLOATING(Flushed, "ftz.f32"), EMU_FLOATING(double, "f64"),
    {"setp.f16", setp_half<f16, 1>}, {"setp.bf16", setp_half<bf16, 1>},
    {"setp.f16x2", setp_half<f16, 2>}, {"setp.bf16x2", setp_half<bf16, 2>},
    {"selp.b16", selp<uint16_t>}, {"selp.b32", selp<uint32_t>}, {"selp.b64", selp<uint64_t>},
    EMU_SLCT(uint16_t, "b16"), EMU_SLCT(uint32_t, "b32"), EMU_SLCT(uint64_t, "b64"),
};

}  // namespace

Table compare_table() { return {kEntries, std::size(kEntries)}; }

}  // namespace emu
