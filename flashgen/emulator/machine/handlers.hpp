// How an instruction is written here: a functor on one lane, and a template that runs it on 32.
//
// With all lanes active the loop is straight and the compiler vectorises it; otherwise only the active
// lanes run. To add an opcode, write its functor and name it in a table; Python finds it by that name.
#pragma once
#include <cstddef>

#include "lanes.hpp"
#include "warp.hpp"

namespace emu {

struct TableEntry {
    const char* name;
    Handler fast;
    Handler checked = nullptr;  // the same with every check on; null: there is nothing to check
};
struct Table {
    const TableEntry* entries;
    size_t size;
};

template <class F>
inline void each_lane(uint32_t mask, F&& f) {
    if (mask == kAll) {
        EMU_LANES
        for (int l = 0; l < kLanes; ++l) f(l);
        return;
    }
    for (; mask; mask &= mask - 1) f(__builtin_ctz(mask));
}

// d = F(a), d = F(a, b), d = F(a, b, c): register operands in the order of the PTX text.
template <class F, class D, class A>
const Ins* unary(const Ins* i, Warp& w) {
    D* d = w.reg<D>(i->op[0]);
    const A* a = w.reg<A>(i->op[1]);
    each_lane(w.exec, [=](int l) { d[l] = F::of(a[l]); });
    return i + 1;
}
template <class F, class D, class A, class B>
const Ins* binary(const Ins* i, Warp& w) {
    D* d = w.reg<D>(i->op[0]);
    const A* a = w.reg<A>(i->op[1]);
    const B* b = w.reg<B>(i->op[2]);
    each_lane(w.exec, [=](int l) { d[l] = F::of(a[l], b[l]); });
    return i + 1;
}
template <class F, class D, class A, class B, class C>
const Ins* ternary(const Ins* i, Warp& w) {
    D* d = w.reg<D>(i->op[0]);
    const A* a = w.reg<A>(i->op[1]);
    const B* b = w.reg<B>(i->op[2]);
    const C* c = w.reg<C>(i->op[3]);
    each_lane(w.exec, [=](int l) { d[l] = F::of(a[l], b[l], c[l]); });
    return i + 1;
}
template <class F, class D, class A, class B, class C, class E>
const Ins* quaternary(const Ins* i, Warp& w) {
    D* d = w.reg<D>(i->op[0]);
    const A* a = w.reg<A>(i->op[1]);
    const B* b = w.reg<B>(i->op[2]);
    const C* c = w.reg<C>(i->op[3]);
    const E* e = w.reg<E>(i->op[4]);
    each_lane(w.exec, [=](int l) { d[l] = F::of(a[l], b[l], c[l], e[l]); });
    return i + 1;
}

// All operands of one type.
template <class F, class T>
constexpr Handler unary1 = unary<F, T, T>;
template <class F, class T>
constexpr Handler binary1 = binary<F, T, T, T>;
template <class F, class T>
constexpr Handler ternary1 = ternary<F, T, T, T, T>;

inline uint32_t& predicate(Warp& w, uint32_t offset) { return *w.reg<uint32_t>(offset); }

// Writes the active lanes of a predicate, which is one bit a lane.
inline void set_predicate(Warp& w, uint32_t offset, uint32_t value) {
    uint32_t& p = predicate(w, offset);
    p = (p & ~w.exec) | (value & w.exec);
}

Table integer_table();
Table bits_table();
Table float_table();
Table rounding_table();
Table half_table();
Table compare_table();
Table convert_table();
Table move_table();
Table memory_table();
Table atomic_table();
Table control_table();
Table warp_table();
Table tensor_table();
Table tensor_bytes_table();
Table convert_fp8_table();
Table matrix_load_table();
Table async_copy_table();

}  // namespace emu
