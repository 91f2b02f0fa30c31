// Memory under watch: races, uninitialised reads of shared memory, asynchronous copies.
#include "watch.hpp"

namespace emu {
namespace {

// An earlier lane with the same address, or -1: broadcasts along the rows or columns of a tile of lanes.
inline int repeats(const Access& access, int l) {
    const uint64_t* a = access.address;
    if (l >= 1 && a[l] == a[l - 1]) return l - 1;
    if (l >= 8 && a[l] == a[l - 8]) return l - 8;
    return l >= 4 && a[l] == a[l - 4] ? l - 4 : -1;
}

template <class C>
void watch_loads(const Access& access, Watch<C>& watch) {
    if (access.collective) {
        for (uint32_t m = access.watched; m; m &= m - 1) watch.load(uint32_t(__builtin_ctz(m)), true);
        return;
    }
    uint32_t repeated = 0, unsettled = 0;
    int earlier[kLanes];
    for (int l = 0; l < kLanes; ++l) {
        earlier[l] = access.watched == kAll ? repeats(access, l) : -1;
        if (earlier[l] >= 0) repeated |= 1u << l | 1u << earlier[l];
    }
    for (uint32_t m = access.watched; m; m &= m - 1) {
        const int l = __builtin_ctz(m);
        const bool skip = earlier[l] >= 0 && !(unsettled >> earlier[l] & 1u);
        if (!skip && watch.load(uint32_t(l), repeated >> l & 1u)) unsettled |= 1u << l;
    }
}

template <class C>
void watch_all(Access& access, Watch<C> watch, Space space, uint8_t* base, const uint8_t* incoming) {
    if (access.use == Use::kLoad) watch_loads(access, watch);
    else
        for (uint32_t m = access.lanes; m; m &= m - 1) {
            const uint32_t l = uint32_t(__builtin_ctz(m));
            const uint8_t* bytes = incoming ? incoming + size_t(l) * access.size : nullptr;
            if (access.watched >> l & 1u) watch.store(l, base, bytes);
            else if (bytes) copy_bytes(base + access.address[l], bytes, access.size);
        }
    watch.tell(space);
}

}  // namespace

void watch_access(const Ins* i, Warp& w, Access& access, Space space, uint8_t* base, const uint8_t* incoming) {
    ++w.cta->shadow.now;
    if (space == kShared) {
        access.watched = access.lanes;
        watch_all(access, Watch<Cell>(i, w, access), space, base, incoming);
    } else {
        if (access.use != Use::kLoad && w.cta->watched_copies) check_sources(i, w, access);
        watch_all(access, Watch<GlobalCell>(i, w, access), space, base, incoming);
    }
}

void watch_issue(const Ins* i, Warp& w, const Access& access, uint8_t* arriving, const uint8_t* incoming) {
    ++w.cta->shadow.now;
    Watch<Cell> watch(i, w, access);
    for (uint32_t m = access.lanes; m; m &= m - 1) {
        const uint32_t l = uint32_t(__builtin_ctz(m));
        watch.issue(l, w.cta->shared_base, arriving, incoming + size_t(l) * access.size);
    }
    watch.tell(kShared);
}

void watch_landing(Warp& w, const Copy& copy, uint32_t lanes) {
    Shadow& shadow = w.cta->shadow;
    for (uint32_t m = lanes; m; m &= m - 1) {
        const uint32_t l = uint32_t(__builtin_ctz(m)), start = copy.to[l] - w.cta->launch->shared_base;
        shadow.sign(start, copy.size, shadow.now, thread_id(w.id, l), copy.ins);
    }
    for (uint32_t m = lanes & copy.sources; m; m &= m - 1) {  // its read may have been as late as this
        const int l = __builtin_ctz(m);
        Access access;
        access.lanes = access.watched = m & -m;
        access.size = copy.given[l];
        access.use = Use::kLoad;
        access.address[l] = copy.from[l];
        watch_access(w.cta->code() + copy.ins, w, access, kGlobal, nullptr, nullptr);
    }
}

}  // namespace emu
