// Bank conflicts of shared memory, sectors of global memory.
#include "memory.hpp"

namespace emu {
namespace {

constexpr int kBanks = 32;

// Distinct units that fall on the same bank group, at worst, over the lanes [begin, end).
uint32_t wavefronts(const Access& access, int begin, int end, int unit_shift) {
    const uint32_t groups = uint32_t(kBanks * 4) >> unit_shift;
    const uint32_t lanes = access.lanes >> begin & (kAll >> (kLanes - (end - begin)));
    uint32_t banks = 0;
    for (int l = begin; l < end; ++l) banks |= 1u << (access.address[l] >> unit_shift & (groups - 1));
    if (lanes == kAll >> (kLanes - groups) && banks == lanes) return 1;  // each lane has a bank of its own
    uint64_t unit[kLanes];
    uint8_t next[kLanes], head[kBanks], length[kBanks] = {};
    std::memset(head, 0xff, sizeof head);
    uint32_t worst = 0;
    for (int l = begin; l < end; ++l) {
        if (!(access.lanes >> l & 1u)) continue;
        unit[l] = access.address[l] >> unit_shift;
        const uint32_t bank = uint32_t(unit[l]) & (groups - 1);
        uint8_t at = head[bank];
        while (at != 0xff && unit[at] != unit[l]) at = next[at];
        if (at != 0xff) continue;
        next[l] = head[bank];
        head[bank] = uint8_t(l);
        if (++length[bank] > worst) worst = length[bank];
    }
    return worst;
}

}  // namespace

// A warp's access takes one phase for every 128 bytes: 32 lanes of up to 4 bytes, 16 of 8, 8 of 16.
void count_shared(const Ins* i, Warp& w, const Access& access) {
    const int shift = access.size >= 16 ? 4 : access.size == 8 ? 3 : 2, lanes = 128 >> shift;
    uint32_t total = 0, phases = 0;
    for (int begin = 0; begin < kLanes; begin += lanes) {
        const uint32_t worst = wavefronts(access, begin, begin + lanes, shift);
        total += worst;
        phases += worst != 0;
    }
    const uint32_t passes = access.size > 16 ? access.size / 16 : 1;
    InsCounts& counts = w.cta->worker->counts[i->index];
    counts.accesses += 1;
    counts.bytes += uint64_t(__builtin_popcount(access.lanes)) * access.size;
    counts.wavefronts += uint64_t(total) * passes;
    counts.ideal_wavefronts += uint64_t(phases) * passes;
}

uint32_t count_sectors(const Access& access, uint32_t lanes) {
    uint64_t seen[2 * kLanes], highest = 0;
    uint32_t count = 0;
    for (; lanes; lanes &= lanes - 1) {
        const uint64_t a = access.address[__builtin_ctz(lanes)];
        for (uint64_t s = a >> 5; s <= (a + access.size - 1) >> 5; ++s) {
            bool known = false;
            if (s <= highest)
                for (uint32_t k = count; k > 0 && !known; --k) known = seen[k - 1] == s;  // the newest first
            else highest = s;
            if (!known && count < 2 * kLanes) seen[count++] = s;
        }
    }
    return count;
}

}  // namespace emu
