// atom and red. Each lane is one atomic step of the host, since CTAs run on several threads; the lanes of a
// warp go in ascending order. Operands: address, [d], b, [c], as memory.hpp says; `aux[2]` is the space,
// `aux[6]` tells whether there is a d, `aux[7]` the number of operands after it.
#include <iterator>
#include <type_traits>

#include "memory.hpp"

namespace emu {
namespace {

constexpr int kMaxVector = 8;

// The unsigned integer that holds a T.
template <size_t Bytes> struct Storage { using type = uint64_t; };
template <> struct Storage<2> { using type = uint16_t; };
template <> struct Storage<4> { using type = uint32_t; };

struct Add { template <class T> static T of(T a, T b, T) { return T(a + b); } };
struct Min { template <class T> static T of(T a, T b, T) { return a < b ? a : b; } };
struct Max { template <class T> static T of(T a, T b, T) { return a > b ? a : b; } };
struct And { template <class T> static T of(T a, T b, T) { return a & b; } };
struct Or { template <class T> static T of(T a, T b, T) { return a | b; } };
struct Xor { template <class T> static T of(T a, T b, T) { return a ^ b; } };
struct Exch { template <class T> static T of(T, T b, T) { return b; } };
struct Cas { template <class T> static T of(T a, T b, T c) { return a == b ? c : a; } };
struct Inc { template <class T> static T of(T a, T b, T) { return a >= b ? 0 : a + 1; } };
struct Dec { template <class T> static T of(T a, T b, T) { return a == 0 || a > b ? b : a - 1; } };
template <bool Ftz> struct AddFloat {
    template <class T> static T of(T a, T b, T) { return canonical(ftz<Ftz>(ftz<Ftz>(a) + ftz<Ftz>(b))); }
};
template <class H> struct AddHalf { static H of(H a, H b, H) { return narrow<H>(widen(a) + widen(b)); } };
template <class H> struct Pair { H lo, hi; };
template <class H> struct AddPair {
    static Pair<H> of(Pair<H> a, Pair<H> b, Pair<H>) {
        return {narrow<H>(widen(a.lo) + widen(b.lo)), narrow<H>(widen(a.hi) + widen(b.hi))};
    }
};

// A misaligned address has been reported; the host must not trap on it.
template <class F, class T>
T update(uint8_t* at, T b, T c) {
    using U = typename Storage<sizeof(T)>::type;
    if (reinterpret_cast<uintptr_t>(at) % sizeof(U)) {
        T old;
        std::memcpy(&old, at, sizeof old);
        const T fresh = F::of(old, b, c);
        std::memcpy(at, &fresh, sizeof fresh);
        return old;
    }
    U* p = reinterpret_cast<U*>(at);
    U old = __atomic_load_n(p, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(p, &old, bits<U>(F::of(bits<T>(old), b, c)), false, __ATOMIC_SEQ_CST,
                                        __ATOMIC_RELAXED)) {
    }
    return bits<T>(old);
}

// One element of one lane, without its type: `old` gets what was there. Global float addition flushes.
using Update = void (*)(uint8_t* at, const void* b, const void* c, void* old, bool global);
template <class F, class T>
void update_element(uint8_t* at, const void* b, const void* c, void* old, bool global) {
    T x, y;
    std::memcpy(&x, b, sizeof x);
    std::memcpy(&y, c, sizeof y);
    T was;
    if constexpr (std::is_same_v<F, AddFloat<false>> && std::is_same_v<T, float>)
        was = global ? update<AddFloat<true>>(at, x, y) : update<F>(at, x, y);
    else was = update<F>(at, x, y);
    std::memcpy(old, &was, sizeof was);
}

void update_lanes(
    const Ins* i, Warp& w, const Access& access, uint8_t* base, uint32_t size, Update update, bool global) {
    const uint32_t n = i->aux[4], results = i->aux[6] ? n : 0;
    const bool has_c = i->aux[7] > 1;
    const uint32_t *d = i->op + 1, *op = d + results;
    for (uint32_t m = access.lanes; m; m &= m - 1) {
        const uint32_t l = uint32_t(__builtin_ctz(m));
        auto lane = [&](uint32_t offset) { return w.frame + offset + l * size; };
        uint8_t b[kMaxVector][8], c[kMaxVector][8], old[8];  // all read before any d is written
        for (uint32_t k = 0; k < n; ++k) {
            std::memcpy(b[k], lane(op[k]), size);
            std::memcpy(c[k], lane(op[has_c ? n + k : k]), size);
        }
        for (uint32_t k = 0; k < n; ++k) {  // vectors are atomic element by element
            update(base + access.address[l] + k * size, b[k], c[k], old, global);
            if (results) std::memcpy(lane(d[k]), old, size);
        }
    }
}

template <bool Checked>
const Ins* run_atomic(const Ins* i, Warp& w, uint32_t size, Update update) {
    Access access;
    access.lanes = w.exec;
    access.size = size * i->aux[4];
    access.use = Use::kAtomic;
    access.strong = true;
    read_addresses(i, w, access);
    auto go = [&](Access& part, Space space) {
        uint8_t* base = admit<Checked>(i, w, part, space);
        if (!part.lanes) return;
        if (Checked && is_watched(part, space)) watch_access(i, w, part, space, base, nullptr);
        update_lanes(i, w, part, base, size, update, space == kGlobal);
    };
    const Space space = Space(i->aux[2]);
    if (space == kGeneric) by_space(access, go);
    else go(access, space);
    return after_access(i, w);
}
template <class F, class T, bool Checked>
const Ins* atomic(const Ins* i, Warp& w) {
    return run_atomic<Checked>(i, w, sizeof(T), update_element<F, T>);
}

#define EMU_ATOMIC(name, F, T) {"atom." name, atomic<F, T, false>, atomic<F, T, true>}
const TableEntry kEntries[] = {
    EMU_ATOMIC("add.u32", Add, uint32_t), EMU_ATOMIC("add.u64", Add, uint64_t),
    EMU_ATOMIC("add.f32", AddFloat<false>, float), EMU_ATOMIC("add.f64", AddFloat<false>, double),
    EMU_ATOMIC("add.f16", AddHalf<f16>, f16), EMU_ATOMIC("add.bf16", AddHalf<bf16>, bf16),
    EMU_ATOMIC("add.f16x2", AddPair<f16>, Pair<f16>), EMU_ATOMIC("add.bf16x2", AddPair<bf16>, Pair<bf16>),
    EMU_ATOMIC("min.u32", Min, uint32_t), EMU_ATOMIC("min.u64", Min, uint64_t),
    EMU_ATOMIC("min.s32", Min, int32_t), EMU_ATOMIC("min.s64", Min, int64_t),
    EMU_ATOMIC("max.u32", Max, uint32_t), EMU_ATOMIC("max.u64", Max, uint64_t),
    EMU_ATOMIC("max.s32", Max, int32_t), EMU_ATOMIC("max.s64", Max, int64_t),
    EMU_ATOMIC("and.b32", And, uint32_t), EMU_ATOMIC("and.b64", And, uint64_t),
    EMU_ATOMIC("or.b32", Or, uint32_t), EMU_ATOMIC("or.b64", Or, uint64_t),
    EMU_ATOMIC("xor.b32", Xor, uint32_t), EMU_ATOMIC("xor.b64", Xor, uint64_t),
    EMU_ATOMIC("exch.b32", Exch, uint32_t), EMU_ATOMIC("exch.b64", Exch, uint64_t),
    EMU_ATOMIC("cas.b16", Cas, uint16_t), EMU_ATOMIC("cas.b32", Cas, uint32_t), EMU_ATOMIC("cas.b64", Cas, uint64_t),
    EMU_ATOMIC("inc.u32", Inc, uint32_t), EMU_ATOMIC("dec.u32", Dec, uint32_t),
};

}  // namespace

Table atomic_table() { return {kEntries, std::size(kEntries)}; }

}  // namespace emu
