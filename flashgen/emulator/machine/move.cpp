// mov, packing and unpacking, address conversion, and the registers that change while a kernel runs.
#include <iterator>

#include "handlers.hpp"

namespace emu {
namespace {

struct Copy { template <class T> static T of(T a) { return a; } };

// mov.b64 d, {a, b, ...}: the first element is the lowest.
template <class D, class E>
const Ins* pack(const Ins* i, Warp& w) {
    constexpr int n = sizeof(D) / sizeof(E);
    D* d = w.reg<D>(i->op[0]);
    const E* e[n];
    for (int k = 0; k < n; ++k) e[k] = w.reg<E>(i->op[1 + k]);
    each_lane(w.exec, [=](int l) {
        D v = 0;
        for (int k = 0; k < n; ++k) v |= D(e[k][l]) << (8 * sizeof(E) * k);
        d[l] = v;
    });
    return i + 1;
}
template <class S, class E>
const Ins* unpack(const Ins* i, Warp& w) {
    constexpr int n = sizeof(S) / sizeof(E);
    const S* s = w.reg<S>(i->op[n]);
    E* e[n];
    for (int k = 0; k < n; ++k) e[k] = w.reg<E>(i->op[k]);
    each_lane(w.exec, [=](int l) {
        const S v = s[l];
        for (int k = 0; k < n; ++k) e[k][l] = E(v >> (8 * sizeof(E) * k));
    });
    return i + 1;
}

// cvta and isspacep: `imm` is the window; cvta adds it, cvta.to takes it away.
const Ins* isspacep(const Ins* i, Warp& w) {
    const uint64_t* a = w.reg<uint64_t>(i->op[1]);
    uint32_t r = 0;
    for (int l = 0; l < kLanes; ++l) {
        const uint64_t top = a[l] >> kWindowBits;
        const uint64_t space = top >= kShared && top <= kParam ? top : uint64_t(kGlobal);
        r |= uint32_t(space == i->imm) << l;
    }
    set_predicate(w, i->op[0], r);
    return i + 1;
}

// A clock that is the same on every run: the basic blocks that the CTA has run, times 16.
template <class T>
const Ins* clock(const Ins* i, Warp& w) {
    T* d = w.reg<T>(i->op[0]);
    const T now = T(w.cta->steps * 16 >> i->imm);
    each_lane(w.exec, [=](int l) { d[l] = now; });
    return i + 1;
}

const TableEntry kEntries[] = {
    {"mov.b16", unary1<Copy, uint16_t>}, {"mov.b32", unary1<Copy, uint32_t>}, {"mov.b64", unary1<Copy, uint64_t>},
    {"pack.b32.b16", pack<uint32_t, uint16_t>}, {"unpack.b32.b16", unpack<uint32_t, uint16_t>},
    {"pack.b64.b16", pack<uint64_t, uint16_t>}, {"unpack.b64.b16", unpack<uint64_t, uint16_t>},
    {"pack.b64.b32", pack<uint64_t, uint32_t>}, {"unpack.b64.b32", unpack<uint64_t, uint32_t>},
    {"isspacep", isspacep}, {"clock.b32", clock<uint32_t>}, {"clock.b64", clock<uint64_t>},
};

}  // namespace

Table move_table() { return {kEntries, std::size(kEntries)}; }

}  // namespace emu
