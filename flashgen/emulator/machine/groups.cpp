// Divergence: how the lanes of a warp part, and how they come together again.
#include "handlers.hpp"

namespace emu {

int new_group(Warp& w, const Group& group) {
    for (int g = 0; g < kGroups; ++g) {
        if (w.groups[g].state != Group::kFree) continue;
        w.groups[g] = group;
        if (g >= w.used_groups) w.used_groups = g + 1;
        return g;
    }
    __builtin_trap();  // not with 32 lanes: each group has lanes of its own, each join at least two arms
}

static Group ready_group(const Ins* ip, uint32_t mask, const Ins* meet, int parent) {
    Group g{};
    g.ip = ip;
    g.meet = meet;
    g.mask = mask;
    g.parent = int8_t(parent);
    g.state = Group::kReady;
    return g;
}

static void make_ready(Group& join) {
    join.state = Group::kReady;
    join.spins = 0;
}

void arrive_at_join(Warp& w, int join, uint32_t lanes) {
    Group& g = w.groups[join];
    g.mask |= lanes;
    if (g.mask == g.members) make_ready(g);
}

// The current group splits at a branch; it ends here, its lanes go on as other groups.
const Ins* diverge(Warp& w, uint32_t taken, const Ins* target, const Ins* next, const Ins* meet) {
    const Group old = w.current();
    w.current().state = Group::kFree;
    const uint32_t left = old.mask & ~taken;
    int join = old.parent;
    const Ins* arms_meet = old.meet;
    if (meet && meet != old.meet) {
        Group g = ready_group(meet, 0, old.meet, old.parent);
        g.members = old.mask;
        g.state = Group::kJoin;
        join = new_group(w, g);
        arms_meet = meet;
    }
    const bool taken_first = w.cta->launch->warp_order == kReverse ||
                             (w.cta->launch->warp_order == kRandom && (w.cta->worker->draw() & 1));
    for (int k = 0; k < 2; ++k) {  // the last one made runs first
        const bool is_taken = (k == 1) == taken_first;
        const Ins* to = is_taken ? target : next;
        const uint32_t lanes = is_taken ? taken : left;
        if (to == arms_meet && join >= 0) arrive_at_join(w, join, lanes);
        else w.group = new_group(w, ready_group(to, lanes, arms_meet, join));
    }
    return nullptr;
}

// Joins no longer wait for lanes that are gone.
static void leave_joins(Warp& w, int join, uint32_t lanes) {
    for (; join >= 0; join = w.groups[join].parent) {
        Group& g = w.groups[join];
        g.members &= ~lanes;
        g.mask &= ~lanes;
        if (g.state != Group::kJoin) continue;
        if (g.members == 0) g.state = Group::kFree;
        else if (g.mask == g.members) make_ready(g);
    }
}

void exit_lanes(Warp& w, uint32_t lanes) {
    Group& g = w.current();
    g.mask &= ~lanes;
    w.live &= ~lanes;
    const int parent = g.parent;
    if (g.mask == 0) g.state = Group::kFree;
    leave_joins(w, parent, lanes);
    for (Group& other : w)  // a smaller set of lanes may be complete now
        if (other.state == Group::kSync) other.state = Group::kReady;
    if (w.live == 0) barrier_exit(*w.cta);
}

// Lets go of lanes that wait for others to reconverge; true if there were any.
bool release_joins(Warp& w) {
    bool any = false;
    for (int j = 0; j < w.used_groups; ++j) {
        Group& g = w.groups[j];
        if (g.state != Group::kJoin || g.mask == 0) continue;
        const uint32_t lanes = g.mask;
        g.members &= ~lanes;
        g.mask = 0;
        new_group(w, ready_group(g.ip, lanes, g.meet, g.parent));
        any = true;
    }
    return any;
}

// For a `.sync` instruction that the lanes `need` execute together. True: w.exec holds those that do, run it
// now. False: the current group waits for the others; leave with nullptr.
bool converge(const Ins* i, Warp& w, uint32_t need) {
    Group& mine = w.current();
    mine.ip = i;
    mine.sync_exec = w.exec;
    mine.sync_need = need &= w.live;
    uint32_t present = w.exec, passing = w.mask;
    for (Group& g : w) {
        if (g.state != Group::kSync || g.ip != i || g.sync_need != need) continue;
        present |= g.sync_exec;
        passing |= g.mask;
    }
    const uint32_t skipped = need & passing & ~present;
    if (skipped) report(i, w, kWarpSync, skipped);  // named in the mask, but predicated off
    if (need & ~passing && !w.cta->stopped) {
        if (!mine.forced) {
            mine.state = Group::kSync;
            return false;
        }
        report(i, w, kWarpSync, need & ~passing);
        mine.forced = false;
    }
    w.exec = present;
    return true;
}

// For a `.sync.aligned` instruction, which takes all lanes of a warp; as converge.
bool gather_warp(const Ins* i, Warp& w) {
    if (!converge(i, w, kAll)) return false;
    if (w.live != kAll) report(i, w, kWarpSync, ~w.live);  // a warp of fewer threads, or some have left
    return true;
}

// Lets the groups that waited for this instruction go on behind it.
const Ins* after_sync(const Ins* i, Warp& w) {
    for (Group& g : w) {
        if (g.state != Group::kSync || g.ip != i || g.sync_need != w.current().sync_need) continue;
        g.ip = i + 1;
        g.state = Group::kReady;
    }
    w.exec = w.mask;
    return i + 1;
}

}  // namespace emu
