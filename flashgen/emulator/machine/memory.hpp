// Addresses, and the tests that every access passes before it touches host memory.
//
// `aux` of a memory instruction: {base register: 0 none, 1 of 32 bits, 2 of 64 bits; log2 bytes of an
// element; element is signed; log2 bytes of a register; elements; strong: volatile, relaxed, atomic, ...}.
// Operands: the base register, then the data registers.
#pragma once
#include "handlers.hpp"

namespace emu {

enum class Use { kLoad, kStore, kAtomic };

struct Access {
    alignas(64) uint64_t address[kLanes];
    uint32_t lanes;  // those that take part; the tests below remove the ones that must not
    uint32_t size;   // bytes of each lane, all elements together
    uint32_t watched = 0;  // lanes whose cells are looked after
    uint32_t aligned = 0;  // to how many bytes; 0: to its size
    Use use;
    bool strong = false;
    bool collective = false;  // what a lane addresses goes to other lanes of the warp
};

// Base register of kind 0 none, 1 of 32 bits, 2 of 64 bits, and a displacement.
inline void read_addresses(Warp& w, uint64_t* a, uint32_t kind, uint32_t register_offset, uint64_t displacement) {
    if (kind == 2) {
        const uint64_t* base = w.reg<uint64_t>(register_offset);
        EMU_LANES
        for (int l = 0; l < kLanes; ++l) a[l] = base[l] + displacement;
    } else if (kind == 1) {
        const uint32_t *base = w.reg<uint32_t>(register_offset), low = uint32_t(displacement);
        EMU_LANES
        for (int l = 0; l < kLanes; ++l) a[l] = uint32_t(base[l] + low);
    } else {
        for (int l = 0; l < kLanes; ++l) a[l] = displacement;
    }
}
// The sizes of accesses, without a call.
inline void copy_bytes(uint8_t* to, const uint8_t* from, uint32_t size) {
    switch (size) {
        case 16: std::memcpy(to, from, 16); return;
        case 8: std::memcpy(to, from, 8); return;
        case 4: std::memcpy(to, from, 4); return;
        default: std::memcpy(to, from, size);
    }
}

inline void read_addresses(const Ins* i, Warp& w, Access& access) {
    read_addresses(w, access.address, i->aux[0], i->op[0], i->imm);
}

// Removes from `access` the lanes that must not go on, reporting them; in checked mode does all checks and
// counts. Returns what to add to an address to get the host's pointer. Local addresses become distinct
// for each lane.
template <bool Checked>
uint8_t* admit(const Ins* i, Warp& w, Access& access, Space space);

// Hazards: race.cpp. Shared memory is watched, and those parts of global memory that kernels may write. A
// store's bytes are given in `incoming`, lane after lane, and watch_access writes them: each lane is judged by
// what the lanes before it left.
inline bool is_watched(const Access& access, Space space) {
    return space == kShared || (space == kGlobal && access.watched);
}
void watch_access(const Ins* i, Warp& w, Access& access, Space space, uint8_t* base, const uint8_t* incoming);

// Asynchronous copies under watch: race.cpp. What one is to write is judged when it is issued; it is a write of its
// lane's when it lands.
void watch_issue(const Ins* i, Warp& w, const Access& access, uint8_t* arriving, const uint8_t* incoming);
void watch_landing(Warp& w, const Copy& copy, uint32_t lanes);
// async_copy.cpp: an access that writes what a copy of this CTA is still to read.
void check_sources(const Ins* i, Warp& w, const Access& access);

// Bank conflicts and sectors: traffic.cpp.
void count_shared(const Ins* i, Warp& w, const Access& access);
uint32_t count_sectors(const Access& access, uint32_t lanes);

// After an access, a finely interleaved warp may have to yield.
inline const Ins* after_access(const Ins* i, Warp& w) {
    if (!w.fine || --w.slice > 0) return i + 1;
    w.current().ip = i + 1;
    return nullptr;
}

// Splits the lanes of a generic access by window; `f` runs once for each space that occurs.
template <class F>
inline void by_space(Access& access, F&& f) {
    uint32_t left = access.lanes;
    while (left) {
        const uint64_t first = access.address[__builtin_ctz(left)];
        const uint64_t top = first >> kWindowBits;
        const Space space = top >= kShared && top <= kParam ? Space(top) : kGlobal;
        Access part = access;
        part.lanes = 0;
        for (uint32_t m = left; m; m &= m - 1) {
            const int l = __builtin_ctz(m);
            const uint64_t its = access.address[l] >> kWindowBits;
            if ((its >= kShared && its <= kParam ? Space(its) : kGlobal) != space) continue;
            part.lanes |= 1u << l;
            if (space != kGlobal) part.address[l] = access.address[l] - window(space);
        }
        left &= ~part.lanes;
        f(part, space);
    }
}

}  // namespace emu
