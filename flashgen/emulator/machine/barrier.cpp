// The barriers of a CTA: bar.sync, bar.arrive, bar.red. A completed one orders memory: whatever the arrivals
// had done or seen happens before what the waiting warps do next.
#include <algorithm>

#include "handlers.hpp"

namespace emu {
namespace {

constexpr uint32_t kWarpThreads = 32;

uint32_t threads_of_all(const Cta& cta) { return cta.num_warps * kWarpThreads; }

// Exited warps no longer count for a barrier of the whole CTA.
uint32_t threads_gone(const Cta& cta) {
    uint32_t gone = 0;
    for (const Warp& w : cta.warps) gone += w.live == 0 ? kWarpThreads : 0;
    return gone;
}

void find_quiet(Warp& w) {
    w.met_by_all = kAll;
    for (uint32_t m = w.live; m; m &= m - 1) w.met_by_all = std::min(w.met_by_all, w.met[__builtin_ctz(m)]);
    w.quiet = std::min(w.seen_by_all, w.met_by_all);
}

void settle(Cta& cta) {
    uint32_t time = kAll;
    for (const Warp& w : cta.warps)
        if (w.live) time = std::min(time, w.quiet);
    cta.shadow.settled = time;
}

void raise_seen(Warp& w, const Barrier& barrier) {
    for (uint32_t k = 0; k < w.seen.size(); ++k) w.seen[k] = std::max(w.seen[k], barrier.history[k]);
    uint32_t least = kAll;
    for (uint32_t k = 0; k < w.seen.size(); ++k)
        if (k != w.id) least = std::min(least, w.seen[k]);
    w.seen_by_all = least;
    find_quiet(w);
}

void finish_reduction(Warp& w, const Group& g, const Barrier& barrier) {
    const Ins* i = g.ip - 1;
    if (i->aux[1] == 0) return;  // {waits, reduction: 1 popc, 2 and, 3 or, ...}
    const uint32_t saved = w.exec;
    w.exec = g.mask;
    if (i->aux[1] == 1) {
        uint32_t* d = w.reg<uint32_t>(i->op[0]);
        each_lane(g.mask, [&](int l) { d[l] = barrier.count; });
    } else {
        const bool value = i->aux[1] == 2 ? barrier.predicate_and : barrier.predicate_or;
        set_predicate(w, i->op[0], value ? kAll : 0);
    }
    w.exec = saved;
}

// A warp that waits has done nothing since it came, so what it "had done" may be dated now: then all
// warps that wait share one date, and a cell needs to remember only the last of its readers.
void date_arrivals(const Cta& cta, uint32_t id, Barrier& barrier) {
    for (const Warp& w : cta.warps) {
        uint32_t waiting = 0;
        for (int g = 0; g < w.used_groups; ++g)
            if (w.groups[g].state == Group::kBarrier && w.groups[g].barrier == id) waiting |= w.groups[g].mask;
        if (waiting && waiting == w.live) barrier.history[w.id] = cta.shadow.now;
    }
}

void complete(Cta& cta, uint32_t id) {
    Barrier& barrier = cta.barriers[id];
    date_arrivals(cta, id, barrier);
    for (Warp& w : cta.warps) {
        bool waits = false;
        for (Group& g : w) {
            if (g.state != Group::kBarrier || g.barrier != id) continue;
            g.state = Group::kReady;
            finish_reduction(w, g, barrier);
            for (uint32_t m = g.mask; m; m &= m - 1) w.met[__builtin_ctz(m)] = barrier.history[w.id];
            waits = true;
        }
        if (waits) raise_seen(w, barrier);
    }
    settle(cta);
    ++cta.worker->barriers;
    constexpr uint32_t kTooLate = 0xf0000000u;
    if (barrier.whole && cta.shadow.now > kTooLate) {
        cta.shadow.rewind();
        for (Warp& w : cta.warps) {
            std::fill(w.seen.begin(), w.seen.end(), 1u);
            std::fill(w.met, w.met + kLanes, 1u);
            w.seen_by_all = w.met_by_all = w.quiet = 1;
        }
    }
    barrier.reset(cta.num_warps);
}

// What this arrival counts: a warp counts as 32 threads, also one that has fewer. Lanes that come apart
// from each other count alone, and make up the rest when the last of them comes.
uint32_t weight(const Warp& w, Barrier& barrier) {
    if (w.exec == w.live) return kWarpThreads;
    uint32_t& lanes = barrier.lanes[w.id];
    lanes |= w.exec;
    const uint32_t count = uint32_t(__builtin_popcount(w.exec));
    return lanes == w.live ? count + kWarpThreads - uint32_t(__builtin_popcount(w.live)) : count;
}

}  // namespace

// bar.warp.sync: what these lanes have done so far happens before what they do next.
void meet_lanes(Warp& w, uint32_t lanes) {
    for (uint32_t m = lanes; m; m &= m - 1) w.met[__builtin_ctz(m)] = w.cta->shadow.now;
    find_quiet(w);
    settle(*w.cta);
}

const Ins* arrive_at_barrier(const Ins* i, Warp& w, uint32_t id, uint32_t threads, bool waits) {
    Cta& cta = *w.cta;
    Barrier& barrier = cta.barriers[id];
    if (w.exec != w.live) report(i, w, kBarrierDivergence, w.exec);
    if (barrier.arrived == 0) barrier.whole = threads == 0;
    barrier.expected = threads ? threads : threads_of_all(cta);
    barrier.arrived += weight(w, barrier);
    for (uint32_t k = 0; k < cta.num_warps; ++k) barrier.history[k] = std::max(barrier.history[k], w.seen[k]);
    barrier.history[w.id] = cta.shadow.now;
    if (i->aux[1]) {  // a reduction over the predicates of the threads
        const uint32_t p = predicate(w, i->op[1]) ^ (i->aux[2] ? kAll : 0);
        barrier.count += uint32_t(__builtin_popcount(p & w.exec));
        barrier.predicate_and &= (p & w.exec) == w.exec;
        barrier.predicate_or |= (p & w.exec) != 0;
    }
    // Lanes of this group that skip the instruction (predicated off) go on alone.
    Group& g = w.current();
    const uint32_t skipping = g.mask & ~w.exec;
    g.ip = i + 1;
    if (waits) {
        if (skipping) {
            Group rest = g;
            rest.mask = skipping;
            g.mask = w.exec;
            new_group(w, rest);
        }
        g.state = Group::kBarrier;
        w.turn_over = true;  // even if this arrival completes it: the first warp in order goes on first
        g.barrier = uint8_t(id);
    }
    const uint32_t gone = barrier.whole ? threads_gone(cta) : 0;
    if (barrier.arrived + gone >= barrier.expected) {
        if (gone) report(i, w, kBarrierExited, w.exec);
        complete(cta, id);
    }
    return waits ? nullptr : i + 1;
}

// A warp has ended: barriers of the whole CTA do without it, as on hardware, but the program is at fault.
void barrier_exit(Cta& cta) {
    const uint32_t gone = threads_gone(cta);
    for (uint32_t id = 0; id < 16; ++id) {
        Barrier& barrier = cta.barriers[id];
        if (barrier.arrived == 0 || !barrier.whole || barrier.arrived + gone < barrier.expected) continue;
        for (Warp& w : cta.warps)
            for (const Group& g : w)
                if (g.state == Group::kBarrier && g.barrier == id) report(g.ip - 1, w, kBarrierExited, g.mask);
        complete(cta, id);
    }
}

}  // namespace emu
