// cp.async: copies from global to shared memory. The bytes are taken when a copy is issued, wait at their place in
// Cta::arriving, and land in shared memory when their thread waits for the copy's group: as late as hardware may.
//
// Operands: base register of the destination, of the source, bytes given (or a predicate that asks for none), the
// destination's displacement as it is; `imm` is the source's. `aux`: kinds of both bases, log2 of the size, whether
// the third is a predicate, whether that is negated.
#include <iterator>

#include "memory.hpp"

namespace emu {
namespace {

constexpr uint32_t kMostBytes = 16;

struct Request {
    Access to;
    alignas(64) uint64_t from[kLanes];
    uint32_t given[kLanes];
    alignas(64) uint8_t bytes[kLanes * kMostBytes];  // lane after lane
    uint32_t sources = 0;
};

void read_operands(const Ins* i, Warp& w, Request& request) {
    request.to.lanes = w.exec;
    request.to.size = 1u << i->aux[2];
    request.to.use = Use::kStore;
    read_addresses(w, request.to.address, i->aux[0], i->op[0], i->op[3]);
    read_addresses(w, request.from, i->aux[1], i->op[1], i->imm);
    if (i->aux[3]) {
        const uint32_t ignored = predicate(w, i->op[2]) ^ (i->aux[4] ? kAll : 0);
        for (int l = 0; l < kLanes; ++l) request.given[l] = ignored >> l & 1u ? 0 : request.to.size;
    } else {
        std::memcpy(request.given, w.reg<uint32_t>(i->op[2]), sizeof request.given);
    }
}

// Reads the sources, all lanes with the same number of bytes at once. A source of which no byte is read may lie
// anywhere.
template <bool Checked>
void read_sources(const Ins* i, Warp& w, Request& request) {
    Access& to = request.to;
    std::memset(request.bytes, 0, sizeof request.bytes);
    for (uint32_t left = to.lanes; left;) {
        const uint32_t given = request.given[__builtin_ctz(left)];
        Access part;
        part.lanes = 0;
        for (uint32_t m = left; m; m &= m - 1) part.lanes |= request.given[__builtin_ctz(m)] == given ? m & -m : 0;
        left &= ~part.lanes;
        if (given == 0) continue;
        if (given > to.size) {
            report(i, w, kOutOfBounds, part.lanes, request.from[__builtin_ctz(part.lanes)], given, kGlobal);
            to.lanes &= ~part.lanes;
            continue;
        }
        const uint32_t asked = part.lanes;
        part.size = given;
        part.aligned = to.size;
        part.use = Use::kLoad;
        std::memcpy(part.address, request.from, sizeof part.address);
        const uint8_t* base = admit<Checked>(i, w, part, kGlobal);
        to.lanes &= ~asked | part.lanes;
        if (Checked && part.lanes && is_watched(part, kGlobal)) {
            watch_access(i, w, part, kGlobal, const_cast<uint8_t*>(base), nullptr);
            request.sources |= part.watched;
        }
        for (uint32_t m = part.lanes; m; m &= m - 1) {
            const int l = __builtin_ctz(m);
            copy_bytes(request.bytes + size_t(l) * to.size, base + part.address[l], given);
        }
    }
}

// One entry for all lanes that have closed equally many groups: as a rule, one.
void enqueue(const Ins* i, Warp& w, const Request& request) {
    for (uint32_t left = request.to.lanes; left;) {
        Copy copy;
        copy.group = w.committed[__builtin_ctz(left)];
        copy.lanes = 0;
        for (uint32_t m = left; m; m &= m - 1) copy.lanes |= w.committed[__builtin_ctz(m)] == copy.group ? m & -m : 0;
        left &= ~copy.lanes;
        copy.sources = request.sources & copy.lanes;
        copy.ins = i->index;
        copy.size = request.to.size;
        for (int l = 0; l < kLanes; ++l) copy.to[l] = uint32_t(request.to.address[l]);
        if (copy.sources) {
            std::memcpy(copy.given, request.given, sizeof copy.given);
            std::memcpy(copy.from, request.from, sizeof copy.from);
            ++w.cta->watched_copies;
        }
        w.copies.push_back(copy);
    }
}

template <bool Checked>
const Ins* issue(const Ins* i, Warp& w) {
    Request request;
    read_operands(i, w, request);
    admit<Checked>(i, w, request.to, kShared);
    read_sources<Checked>(i, w, request);
    const Access& to = request.to;
    uint8_t* arriving = w.cta->arriving.data() - w.cta->launch->shared_base;
    if (Checked) watch_issue(i, w, to, arriving, request.bytes);
    else
        for (uint32_t m = to.lanes; m; m &= m - 1) {
            const int l = __builtin_ctz(m);
            copy_bytes(arriving + to.address[l], request.bytes + size_t(l) * to.size, to.size);
        }
    enqueue(i, w, request);
    return after_access(i, w);
}

// The lanes of a copy whose groups are not among the `newest` closed ones, nor still open.
uint32_t complete(const Warp& w, const Copy& copy, uint64_t newest) {
    uint32_t done = 0;
    for (int l = 0; l < kLanes; ++l) done |= uint32_t(w.committed[l] - copy.group > newest) << l;
    return done & copy.lanes & w.exec;
}

template <bool Checked>
void land(Warp& w, uint64_t newest) {
    Cta& cta = *w.cta;
    const uint32_t base = cta.launch->shared_base;
    size_t kept = 0;
    ++cta.shadow.now;
    for (Copy& copy : w.copies) {
        const uint32_t lanes = complete(w, copy, newest);
        for (uint32_t m = lanes; m; m &= m - 1) {
            const uint32_t at = copy.to[__builtin_ctz(m)] - base;
            copy_bytes(cta.shared.data() + at, cta.arriving.data() + at, copy.size);
        }
        if (Checked && lanes) watch_landing(w, copy, lanes);
        copy.lanes &= ~lanes;
        if (copy.lanes) w.copies[kept++] = copy;
        else cta.watched_copies -= copy.sources != 0;
    }
    w.copies.resize(kept);
}

const Ins* commit(const Ins* i, Warp& w) {
    each_lane(w.exec, [&](int l) { ++w.committed[l]; });
    return i + 1;
}
template <bool Checked>
const Ins* wait_group(const Ins* i, Warp& w) {
    land<Checked>(w, i->imm);
    return after_access(i, w);
}
template <bool Checked>
const Ins* wait_all(const Ins* i, Warp& w) {
    commit(i, w);
    land<Checked>(w, 0);
    return after_access(i, w);
}

const TableEntry kEntries[] = {
    {"cp.async", issue<false>, issue<true>},
    {"cp.async.commit", commit},
    {"cp.async.wait", wait_group<false>, wait_group<true>},
    {"cp.async.wait_all", wait_all<false>, wait_all<true>},
};

}  // namespace

void check_sources(const Ins* i, Warp& w, const Access& access) {
    for (const Warp& other : w.cta->warps)
        for (const Copy& copy : other.copies)
            for (uint32_t from = copy.sources & copy.lanes; from; from &= from - 1) {
                const int s = __builtin_ctz(from);
                uint32_t hit = 0;
                for (uint32_t m = access.lanes; m; m &= m - 1) {
                    const uint64_t a = access.address[__builtin_ctz(m)];
                    if (a < copy.from[s] + copy.given[s] && copy.from[s] < a + access.size) hit |= m & -m;
                }
                if (!hit) continue;
                const uint64_t address = access.address[__builtin_ctz(hit)];
                report(i, w, kInFlight, hit, address, access.size, kGlobal, copy.ins, other.id);
            }
}

Table async_copy_table() { return {kEntries, std::size(kEntries)}; }

}  // namespace emu
