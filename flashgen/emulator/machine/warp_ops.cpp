// Instructions in which the lanes of a warp see each other. All but the old unmasked ones name the lanes
// that execute them together; the machine brings those together first.
#include <algorithm>
#include <iterator>

#include "handlers.hpp"

namespace emu {
namespace {

using u32 = uint32_t;

// The member mask is operand `at`; it is the same in all of them.
inline u32 member_mask(const Ins* i, Warp& w, int at) { return w.reg<u32>(i->op[at])[__builtin_ctz(w.exec)]; }

void check_members(const Ins* i, Warp& w, u32 members) {
    const u32 strangers = w.exec & ~members;
    if (strangers) report(i, w, kWarpSync, strangers);
}

enum Shuffle { kUp, kDown, kBfly, kIdx };

// Operands: d, p, a, b, c, [members]. aux: {mode, has p, has members}.
const Ins* shfl(const Ins* i, Warp& w) {
    if (i->aux[2]) {
        const u32 members = member_mask(i, w, 5);
        if (!converge(i, w, members)) return nullptr;
        check_members(i, w, members);
    }
    u32* d = w.reg<u32>(i->op[0]);
    const u32 *a = w.reg<u32>(i->op[2]), *b = w.reg<u32>(i->op[3]), *c = w.reg<u32>(i->op[4]);
    u32 result[kLanes], in_range = 0, inactive = 0;
    for (u32 m = w.exec; m; m &= m - 1) {
        const int lane = __builtin_ctz(m);
        const int offset = int(b[lane] & 31u), clamp = int(c[lane] & 31u), segment = int(c[lane] >> 8 & 31u);
        const int high = (lane & segment) | (clamp & ~segment), low = lane & segment;
        int j = lane;
        bool inside = false;
        switch (i->aux[0]) {
            case kUp: j = lane - offset; inside = j >= high; break;
            case kDown: j = lane + offset; inside = j <= high; break;
            case kBfly: j = lane ^ offset; inside = j <= high; break;
            default: j = low | (offset & ~segment); inside = j <= high; break;
        }
        if (!inside) j = lane;
        if (!(w.exec >> j & 1u)) inactive |= 1u << lane;
        in_range |= u32(inside) << lane;
        result[lane] = a[j];
    }
    if (inactive) report(i, w, kInactiveLane, inactive);
    each_lane(w.exec, [&](int l) { d[l] = result[l]; });
    if (i->aux[1]) set_predicate(w, i->op[1], in_range);
    return i->aux[2] ? after_sync(i, w) : i + 1;
}

// Operands: d, p, [members]. aux: {mode: 0 all, 1 any, 2 uni, 3 ballot; p negated; has members}.
const Ins* vote(const Ins* i, Warp& w) {
    if (i->aux[2]) {
        const u32 members = member_mask(i, w, 2);
        if (!converge(i, w, members)) return nullptr;
        check_members(i, w, members);
    }
    const u32 p = (predicate(w, i->op[1]) ^ (i->aux[1] ? kAll : 0)) & w.exec;
    if (i->aux[0] == 3) {
        u32* d = w.reg<u32>(i->op[0]);
        each_lane(w.exec, [=](int l) { d[l] = p; });
    } else {
        const bool all = p == w.exec, any = p != 0;
        const bool value = i->aux[0] == 0 ? all : i->aux[0] == 1 ? any : all || !any;
        set_predicate(w, i->op[0], value ? kAll : 0);
    }
    return i->aux[2] ? after_sync(i, w) : i + 1;
}

// Operands: d, p, a, members. aux: {0 any, 1 all; has p}.
template <class T>
const Ins* match(const Ins* i, Warp& w) {
    const u32 members = member_mask(i, w, 3);
    if (!converge(i, w, members)) return nullptr;
    check_members(i, w, members);
    u32* d = w.reg<u32>(i->op[0]);
    const T* a = w.reg<T>(i->op[2]);
    u32 result[kLanes], all = kAll;
    for (u32 m = w.exec; m; m &= m - 1) {
        const int l = __builtin_ctz(m);
        result[l] = 0;
        for (u32 o = w.exec; o; o &= o - 1) result[l] |= a[__builtin_ctz(o)] == a[l] ? o & -o : 0;
        if (result[l] != w.exec) all = 0;
    }
    each_lane(w.exec, [&](int l) { d[l] = i->aux[0] == 0 ? result[l] : all ? w.exec : 0; });
    if (i->aux[1]) set_predicate(w, i->op[1], all);
    return after_sync(i, w);
}

enum Reduction { kAdd, kMin, kMax, kAnd, kOr, kXor };
template <class T>
const Ins* redux(const Ins* i, Warp& w) {  // operands: d, a, members
    const u32 members = member_mask(i, w, 2);
    if (!converge(i, w, members)) return nullptr;
    check_members(i, w, members);
    T* d = w.reg<T>(i->op[0]);
    const T* a = w.reg<T>(i->op[1]);
    T r = a[__builtin_ctz(w.exec)];
    for (u32 m = w.exec & (w.exec - 1); m; m &= m - 1) {
        const T x = a[__builtin_ctz(m)];
        switch (i->aux[0]) {
            case kAdd: r = T(u32(r) + u32(x)); break;
            case kMin: r = std::min(r, x); break;
            case kMax: r = std::max(r, x); break;
            case kAnd: r &= x; break;
            case kOr: r |= x; break;
            default: r ^= x;
        }
    }
    each_lane(w.exec, [=](int l) { d[l] = r; });
    return after_sync(i, w);
}

const Ins* activemask(const Ins* i, Warp& w) {
    u32* d = w.reg<u32>(i->op[0]);
    const u32 mask = w.mask;
    each_lane(w.exec, [=](int l) { d[l] = mask; });
    return i + 1;
}
const Ins* warp_barrier(const Ins* i, Warp& w) {  // operand: members
    const u32 members = member_mask(i, w, 0);
    if (!converge(i, w, members)) return nullptr;
    check_members(i, w, members);
    meet_lanes(w, w.exec);
    return after_sync(i, w);
}
const Ins* elect(const Ins* i, Warp& w) {  // operands: d, p, members; the lowest lane is elected
    const u32 members = member_mask(i, w, 2);
    if (!converge(i, w, members)) return nullptr;
    check_members(i, w, members);
    const u32 leader = u32(__builtin_ctz(w.exec));
    u32* d = w.reg<u32>(i->op[0]);
    each_lane(w.exec, [=](int l) { d[l] = leader; });
    set_predicate(w, i->op[1], 1u << leader);
    return after_sync(i, w);
}

const TableEntry kEntries[] = {
    {"shfl", shfl}, {"vote", vote}, {"match.b32", match<uint32_t>}, {"match.b64", match<uint64_t>},
    {"redux.u32", redux<uint32_t>}, {"redux.s32", redux<int32_t>}, {"activemask", activemask},
    {"bar.warp.sync", warp_barrier}, {"elect.sync", elect},
};

}  // namespace

Table warp_table() { return {kEntries, std::size(kEntries)}; }

}  // namespace emu
