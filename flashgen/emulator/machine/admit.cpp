// Which lanes of an access may go on: bounds and alignment always, the byte map and the traffic when checked.
#include "memory.hpp"

namespace emu {
namespace {

uint32_t alignment_of(const Access& access) { return access.aligned ? access.aligned : access.size; }

// Whether no lane is active that is misaligned or outside [low, high): one pass that the compiler vectorises. With
// offset = address - low and last the greatest offset that fits, an address is inside if neither offset nor last -
// offset has its top bit set.
bool all_good(const Access& access, uint64_t low, uint64_t high) {
    if (access.lanes != kAll || access.size > high - low) return false;
    const uint64_t last = high - low - access.size, alignment = alignment_of(access) - 1;
    uint64_t outside = 0, odd = 0;
    EMU_LANES
    for (int l = 0; l < kLanes; ++l) {
        const uint64_t offset = access.address[l] - low;
        outside |= offset | (last - offset);
        odd |= access.address[l];
    }
    return !(outside >> 63) && !(odd & alignment);
}

// Lanes with low <= address and address + size <= high.
uint32_t inside(const Access& access, uint64_t low, uint64_t high) {
    const uint64_t room = high - low;
    if (access.size > room) return 0;
    const uint64_t last = room - access.size;
    uint32_t good = 0;
    for (int l = 0; l < kLanes; ++l) good |= uint32_t(access.address[l] - low <= last) << l;
    return good & access.lanes;
}

void check_alignment(const Ins* i, Warp& w, const Access& access, Space space) {
    const uint64_t low = alignment_of(access) - 1;
    uint64_t odd = 0;
    EMU_LANES
    for (int l = 0; l < kLanes; ++l) odd |= access.address[l];
    if (!(odd & low)) return;
    uint32_t bad = 0;
    for (uint32_t m = access.lanes; m; m &= m - 1)
        if (access.address[__builtin_ctz(m)] & low) bad |= m & -m;
    if (bad) report(i, w, kMisaligned, bad, access.address[__builtin_ctz(bad)], access.size, space);
}

// Keeps the lanes inside [low, high), and reports the others; misaligned ones stay.
void confine(const Ins* i, Warp& w, Access& access, Space space, uint64_t low, uint64_t high) {
    if (all_good(access, low, high)) return;
    check_alignment(i, w, access, space);
    const uint32_t good = inside(access, low, high), bad = access.lanes & ~good;
    if (bad) report(i, w, kOutOfBounds, bad, access.address[__builtin_ctz(bad)], access.size, space);
    access.lanes = good;
}

// The buffer that holds an address, or -1. Consecutive accesses mostly meet the same one.
int buffer_at(const LaunchDesc& launch, Worker& worker, uint64_t address) {
    const BufferDesc* b = launch.buffers;
    if (launch.num_buffers == 0) return -1;
    if (b[worker.last_buffer].base <= address && address < b[worker.last_buffer].end) return int(worker.last_buffer);
    uint32_t low = 0, high = launch.num_buffers;
    while (low < high) {
        const uint32_t middle = (low + high) / 2;
        if (b[middle].end <= address) low = middle + 1;
        else high = middle;
    }
    if (low == launch.num_buffers || address < b[low].base) return -1;
    worker.last_buffer = low;
    return int(low);
}

// The byte map: gaps between the elements of a view, contents not there yet, writes to be accounted for.
uint32_t check_map(const Ins* i, Warp& w, const Access& access, uint32_t lanes) {
    const LaunchDesc& launch = *w.cta->launch;
    uint32_t gaps = 0, unset = 0;
    for (uint32_t m = lanes; m; m &= m - 1) {
        const int l = __builtin_ctz(m);
        uint8_t* map = launch.arena_map + (access.address[l] - launch.arena_base);
        uint8_t both = 0xff, either = 0;
        for (uint32_t k = 0; k < access.size; ++k) {
            both &= map[k];
            either |= map[k];
        }
        if (!(both & kLegal) || (access.use != Use::kLoad && (either & kReadOnly))) {
            gaps |= 1u << l;
            continue;
        }
        if (access.use != Use::kStore && !(both & kInitialised)) unset |= 1u << l;
        if (access.use != Use::kLoad) std::memset(map, kLegal | kInitialised | kWritten, access.size);
    }
    if (unset) report(i, w, kUninitialised, unset, access.address[__builtin_ctz(unset)], access.size, kGlobal);
    if (gaps) {
        const FindingKind kind = access.use == Use::kLoad ? kOutOfBounds : kForbiddenWrite;
        report(i, w, kind, gaps, access.address[__builtin_ctz(gaps)], access.size, kGlobal);
    }
    return lanes & ~gaps;
}

void count_traffic(const Ins* i, Warp& w, const Access& access, uint32_t lanes, int buffer) {
    Worker& worker = *w.cta->worker;
    const uint64_t bytes = uint64_t(__builtin_popcount(lanes)) * access.size, sectors = count_sectors(access, lanes);
    worker.counts[i->index].sectors += sectors;
    for (int way = 0; way < 2; ++way) {
        if (way == 0 ? access.use == Use::kStore : access.use == Use::kLoad) continue;
        AccessCounts& traffic = worker.traffic[2 * size_t(buffer) + size_t(way)];
        traffic.requests += 1;
        traffic.bytes += bytes;
        traffic.sectors += sectors;
    }
}

void check_global(const Ins* i, Warp& w, Access& access) {
    const LaunchDesc& launch = *w.cta->launch;
    uint32_t left = access.lanes, good = 0, watched = 0;
    check_alignment(i, w, access, kGlobal);
    while (left) {
        const int first = __builtin_ctz(left), buffer = buffer_at(launch, *w.cta->worker, access.address[first]);
        const BufferDesc* b = buffer < 0 ? nullptr : launch.buffers + buffer;
        uint32_t lanes = b ? inside(access, b->base, b->end) & left : 0;
        if (!(lanes >> first & 1u)) {  // in no buffer, or across the end of one
            report(i, w, kOutOfBounds, 1u << first, access.address[first], access.size, kGlobal);
            left &= ~(1u << first);
            continue;
        }
        left &= ~lanes;
        if (access.use != Use::kLoad && !(b->flags & kWritable)) {
            report(i, w, kForbiddenWrite, lanes, access.address[first], access.size, kGlobal);
            continue;
        }
        if (b->flags & kMapped) lanes = check_map(i, w, access, lanes);
        if (lanes) count_traffic(i, w, access, lanes, buffer);
        good |= lanes;
        if (b->flags & kWritable) watched |= lanes;
    }
    access.lanes = good;
    access.watched = launch.global_cells && !w.cta->shadow.rewound ? watched : 0;
}

void check_local(const Ins* i, Warp& w, const Access& access, uint32_t stride) {
    uint32_t unset = 0;
    for (uint32_t m = access.lanes; m; m &= m - 1) {
        const int l = __builtin_ctz(m);
        uint8_t* written = w.local_written.data() + access.address[l];
        if (access.use == Use::kStore) std::memset(written, 1, access.size);
        else if (std::memchr(written, 0, access.size)) unset |= 1u << l;
    }
    if (!unset) return;
    const int l = __builtin_ctz(unset);
    report(i, w, kUninitialised, unset, access.address[l] - uint64_t(l) * stride, access.size, kLocal);
}

uint8_t* readable(const Ins* i, Warp& w, Access& access, Space space, const uint8_t* bytes, uint64_t size) {
    if (access.use != Use::kLoad && access.lanes) {
        report(i, w, kForbiddenWrite, access.lanes, access.address[__builtin_ctz(access.lanes)], access.size, space);
        access.lanes = 0;
    }
    confine(i, w, access, space, 0, size);
    return const_cast<uint8_t*>(bytes);
}

}  // namespace

template <bool Checked>
uint8_t* admit(const Ins* i, Warp& w, Access& access, Space space) {
    const LaunchDesc& launch = *w.cta->launch;
    switch (space) {
        case kShared: {
            confine(i, w, access, space, launch.shared_base, launch.shared_base + w.cta->shared.size());
            if (Checked && access.lanes) count_shared(i, w, access);
            return w.cta->shared_base;
        }
        case kLocal: {
            const uint32_t stride = w.cta->program->local_bytes;
            confine(i, w, access, space, 0, stride);
            for (int l = 0; l < kLanes; ++l) access.address[l] += uint64_t(l) * stride;
            if (Checked) check_local(i, w, access, stride);
            return w.local;
        }
        case kConst:
            return readable(i, w, access, space, w.cta->program->constants.data(), w.cta->program->constants.size());
        case kParam: return readable(i, w, access, space, launch.params, launch.param_bytes);
        default:
            if (Checked) check_global(i, w, access);
            else confine(i, w, access, space, launch.arena_base, launch.arena_base + launch.arena_bytes);
            return launch.arena - launch.arena_base;
    }
}

template uint8_t* admit<false>(const Ins*, Warp&, Access&, Space);
template uint8_t* admit<true>(const Ins*, Warp&, Access&, Space);

}  // namespace emu
