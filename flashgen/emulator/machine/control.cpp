// Branches, block markers, exits and barriers.
//
// A block marker stands at the head of every basic block. It counts, it is where groups join, and where a
// warp yields; it is not an instruction of the program.
#include <atomic>
#include <iterator>

#include "handlers.hpp"

namespace emu {
namespace {

const Ins* block(const Ins* i, Warp& w) {
    const Group& g = w.current();
    if (g.meet == i && g.parent >= 0) {
        const int parent = g.parent;
        const uint32_t lanes = g.mask;
        w.current().state = Group::kFree;
        arrive_at_join(w, parent, lanes);
        return nullptr;
    }
    if (--w.slice < 0) {
        w.current().ip = i;
        return nullptr;
    }
    InsCounts& counts = w.cta->worker->counts[i->index];
    counts.executed += 1;
    counts.lanes += uint64_t(__builtin_popcount(w.mask));
    return i + 1;
}

// imm: target in the low half, meeting point in the high half. aux[0]: declared uniform (.uni).
inline const Ins* at(Warp& w, uint32_t index) { return index == kNowhere ? nullptr : w.cta->code() + index; }

const Ins* branch_lanes(const Ins* i, Warp& w, uint32_t taken, const Ins* target) {
    if (taken == w.mask) return target;
    if (taken == 0) return i + 1;
    if (i->aux[0]) report(i, w, kUniformBranch, taken);
    return diverge(w, taken, target, i + 1, at(w, uint32_t(i->imm >> 32)));
}
const Ins* branch(const Ins* i, Warp& w) {
    uint32_t taken = w.mask;
    if (i->guard != kNoGuard) {
        const uint32_t p = predicate(w, i->guard & ~kNegated);
        taken &= i->guard & kNegated ? ~p : p;
    }
    return branch_lanes(i, w, taken, at(w, uint32_t(i->imm)));
}
// brx.idx: the lanes of the first target part from the rest, which run the instruction again.
const Ins* branch_indexed(const Ins* i, Warp& w) {
    const uint32_t* index = w.reg<uint32_t>(i->op[0]);
    const uint32_t count = i->op[1], first = index[__builtin_ctz(w.exec)];
    if (first >= count) {
        report(i, w, kTrap, w.exec);
        exit_lanes(w, w.mask);
        return nullptr;
    }
    uint32_t same = 0;
    for (uint32_t m = w.exec; m; m &= m - 1) same |= index[__builtin_ctz(m)] == first ? m & -m : 0;
    const Ins* target = w.cta->code() + i->op[2 + first];
    if (same == w.mask) return target;
    return diverge(w, same, target, i, at(w, uint32_t(i->imm >> 32)));
}

const Ins* exit_thread(const Ins* i, Warp& w) {
    const uint32_t lanes = w.exec;
    w.current().ip = i + 1;
    exit_lanes(w, lanes);
    w.mask = w.current().mask;
    return w.current().state == Group::kReady && w.mask ? i + 1 : nullptr;
}
const Ins* trap(const Ins* i, Warp& w) {
    report(i, w, kTrap, w.exec);
    w.cta->stopped = true;
    return nullptr;
}

// Operands of a barrier: [d, p,] id, threads. aux: {waits, reduction, p negated, has thread count}.
const Ins* barrier(const Ins* i, Warp& w) {
    const uint32_t at = i->aux[1] ? 2 : 0;
    const int l = __builtin_ctz(w.exec);
    const uint32_t id = w.reg<uint32_t>(i->op[at])[l] & 15u;
    const uint32_t threads = i->aux[3] ? w.reg<uint32_t>(i->op[at + 1])[l] : 0;
    return arrive_at_barrier(i, w, id, threads, i->aux[0]);
}

const Ins* fence(const Ins* i, Warp&) {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    return i + 1;
}
const Ins* nothing(const Ins* i, Warp&) { return i + 1; }
// Whoever sleeps lets the others run.
const Ins* sleep(const Ins* i, Warp& w) {
    w.turn_over = true;
    w.current().ip = i + 1;
    return nullptr;
}

const TableEntry kEntries[] = {
    {"block", block}, {"bra", branch}, {"brx.idx", branch_indexed}, {"exit", exit_thread}, {"trap", trap},
    {"bar", barrier}, {"fence", fence}, {"nop", nothing}, {"nanosleep", sleep},
};

}  // namespace

Table control_table() { return {kEntries, std::size(kEntries)}; }

}  // namespace emu
