// Running a launch: host threads take CTAs, a CTA's warps take turns.
#include <algorithm>
#include <atomic>
#include <new>
#include <numeric>
#include <system_error>
#include <thread>

#include "handlers.hpp"
#include "machine.hpp"

namespace emu {
namespace {

constexpr int32_t kLongSlice = 1 << 11;  // blocks before a warp that never blocks must let others run
constexpr uint32_t kShortSlice = 8;      // at most, in random order
constexpr uint32_t kPatience = 1 << 13;  // blocks that lanes wait for lanes that do not come
// The numbers are those of flashgen/emulator/isa/specials.py.
uint32_t special(const Warp& w, uint32_t id, uint32_t lane) {
    const LaunchDesc& launch = *w.cta->launch;
    const uint32_t thread = w.id * kLanes + lane, bit = 1u << lane, below = bit - 1;
    switch (id) {
        case 0: return thread % launch.block[0];
        case 1: return thread / launch.block[0] % launch.block[1];
        case 2: return thread / launch.block[0] / launch.block[1];
        case 3: case 4: case 5: return launch.block[id - 3];
        case 6: case 7: case 8: return w.cta->id[id - 6];
        case 9: case 10: case 11: return launch.grid[id - 9];
        case 12: return lane;
        case 13: return w.id;
        case 14: return w.cta->num_warps;
        case 15: return bit;
        case 16: return below | bit;
        case 17: return below;
        case 18: return ~below;
        case 19: return ~(below | bit);
        case 20: return launch.shared_bytes - launch.static_shared_bytes;
        case 21: return launch.shared_bytes;
        case 22: return 1;  // %nsmid, and the sizes of the cluster that every CTA is on its own
        default: return 0;  // %smid, %gridid, positions in that cluster
    }
}

// What one host thread needs to run a CTA, kept from one CTA to the next.
class CtaRunner {
public:
    CtaRunner(const Program& program, LaunchDesc& launch, Worker& worker) {
        cta_.program = &program;
        cta_.launch = &launch;
        cta_.worker = &worker;
        cta_.num_threads = launch.block[0] * launch.block[1] * launch.block[2];
        cta_.num_warps = (cta_.num_threads + kLanes - 1) / kLanes;
        cta_.shared.resize(launch.shared_bytes);
        cta_.shared_base = cta_.shared.data() - launch.shared_base;
        cta_.arriving.resize(launch.shared_bytes);
        cta_.warps = std::vector<Warp>(cta_.num_warps);
        // The odd line keeps equal registers of different warps out of the same cache set.
        frame_stride_ = (size_t(program.frame_bytes) + 127) / 64 * 64 | 64;
        frames_.resize(frame_stride_ * cta_.num_warps + 64);
        local_.resize(size_t(program.local_bytes) * kLanes * cta_.num_warps);
    }

    void run(uint32_t index) {
        reset(index);
        while (!cta_.stopped) {
            Warp* w = next_warp();
            if (w) take_turn(*w);
            else if (!resolve()) break;
        }
    }

private:
    void reset(uint32_t index) {
        const LaunchDesc& launch = *cta_.launch;
        cta_.index = index;
        cta_.id[0] = index % launch.grid[0];
        cta_.id[1] = index / launch.grid[0] % launch.grid[1];
        cta_.id[2] = index / launch.grid[0] / launch.grid[1];
        cta_.stopped = false;
        cta_.steps = 0;
        cta_.watched_copies = 0;
        std::fill(cta_.shared.begin(), cta_.shared.end(), uint8_t(0xff));  // NaN, whatever the type
        const Program& program = *cta_.program;
        if (launch.checked)
            cta_.shadow.reset(launch.shared_bytes, program.cell_shift, cta_.num_warps, program.partial_barriers);
        for (Barrier& barrier : cta_.barriers) barrier.reset(cta_.num_warps);
        for (uint32_t k = 0; k < cta_.num_warps; ++k) reset(cta_.warps[k], k);
        turn_ = launch.warp_order == kReverse ? cta_.num_warps - 1 : 0;
    }

    void reset(Warp& w, uint32_t id) {
        const Program& program = *cta_.program;
        const uintptr_t aligned = (reinterpret_cast<uintptr_t>(frames_.data()) + 63) / 64 * 64;
        w.frame = reinterpret_cast<uint8_t*>(aligned) + frame_stride_ * id;
        w.cta = &cta_;
        w.id = id;
        w.carry = 0;
        w.fine = cta_.launch->warp_order == kRandom;
        const uint32_t threads = cta_.num_threads - id * kLanes;
        w.live = threads >= uint32_t(kLanes) ? kAll : (1u << threads) - 1;
        w.local = local_.data() + size_t(program.local_bytes) * kLanes * id;
        std::memset(w.frame, 0, program.frame_bytes);
        std::memcpy(w.frame, program.image.data(), program.image.size());
        for (const SpecialSlot& slot : program.specials)
            for (uint32_t l = 0; l < uint32_t(kLanes); ++l) w.reg<uint32_t>(slot.offset)[l] = special(w, slot.id, l);
        w.local_written.assign(cta_.launch->checked ? size_t(program.local_bytes) * kLanes : 0, 0);
        w.seen.assign(cta_.num_warps, 0);
        w.seen_by_all = cta_.num_warps == 1 ? kAll : 0;
        std::fill(w.met, w.met + kLanes, 0u);
        w.met_by_all = w.quiet = 0;
        w.copies.clear();
        std::fill(w.committed, w.committed + kLanes, 0u);
        for (Group& g : w.groups) g.state = Group::kFree;
        Group first{};
        first.ip = cta_.code();
        first.mask = w.live;
        first.parent = -1;
        first.state = Group::kReady;
        w.groups[0] = first;
        w.used_groups = 1;
        w.group = 0;
    }

    int ready_group(Warp& w) {
        const uint32_t n = uint32_t(w.used_groups);
        const uint32_t start = w.fine && n > 1 ? cta_.worker->draw() % n : uint32_t(w.group);
        for (uint32_t k = 0; k < n; ++k) {
            const uint32_t g = start + k < n ? start + k : start + k - n;
            if (w.groups[g].state == Group::kReady) return int(g);
        }
        return -1;
    }

    Warp* next_warp() {
        const uint32_t n = cta_.num_warps, order = cta_.launch->warp_order;
        uint32_t at = order == kRandom ? cta_.worker->draw() % n : turn_;
        for (uint32_t k = 0; k < n; ++k) {
            Warp& w = cta_.warps[at];
            at = order == kReverse ? (at == 0 ? n - 1 : at - 1) : (at + 1 == n ? 0 : at + 1);
            if (w.live && ready_group(w) >= 0) {
                turn_ = at;
                return &w;
            }
        }
        return nullptr;
    }

    // Runs a warp until its groups all wait or its slice is used up.
    void take_turn(Warp& w) {
        const int32_t slice = w.fine ? int32_t(1 + cta_.worker->draw() % kShortSlice) : kLongSlice;
        w.slice = slice;
        w.turn_over = false;
        while (w.slice > 0 && !w.turn_over && !cta_.stopped) {
            const int g = ready_group(w);
            if (g < 0) break;
            w.group = g;
            w.exec = w.mask = w.groups[g].mask;
            const Ins* i = w.groups[g].ip;
            do {
                i = i->run(i, w);
            } while (i);
        }
        cta_.steps += uint64_t(slice - std::max(w.slice, 0));
        if (w.slice <= 0 && w.live) cut_short(w, uint32_t(slice));
        if (cta_.steps <= cta_.launch->step_limit || cta_.stopped) return;
        const Group& g = w.current();
        if (g.ip) report(g.ip, w, kStepLimit, g.mask);
        cta_.stopped = true;
    }

    // The turn of a group ended without its doing. If others wait to reconverge with it they may wait for
    // ever, since it may spin for what one of them has to do: after a while they need not wait any more.
    void cut_short(Warp& w, uint32_t slice) {
        Group& g = w.current();
        if (g.state == Group::kReady && g.parent >= 0 && (g.spins += slice) >= kPatience) {
            g.spins = 0;
            release_joins(w);
        }
        w.group = (w.group + 1) % w.used_groups;  // another group's turn, too
    }

    // Nobody can run. True if somebody can now.
    bool resolve() {
        bool any = false;
        for (Warp& w : cta_.warps) any |= release_joins(w);
        if (any) return true;
        for (Warp& w : cta_.warps)
            for (Group& g : w)
                if (g.state == Group::kSync) {
                    g.state = Group::kReady;
                    g.forced = true;
                    any = true;
                }
        if (any) return true;
        for (Warp& w : cta_.warps)
            for (Group& g : w)
                if (g.state == Group::kBarrier) report(g.ip - 1, w, kDeadlock, g.mask);
        return false;
    }

    Cta cta_{};
    size_t frame_stride_;
    std::vector<uint8_t> frames_, local_;
    uint32_t turn_ = 0;
};

std::vector<uint32_t> cta_sequence(const LaunchDesc& launch) {
    std::vector<uint32_t> order(size_t(launch.grid[0]) * launch.grid[1] * launch.grid[2]);
    std::iota(order.begin(), order.end(), 0u);
    if (launch.cta_order == kReverse) std::reverse(order.begin(), order.end());
    Worker dice;
    dice.random = launch.seed | 1;
    if (launch.cta_order == kRandom)
        for (size_t k = order.size(); k > 1; --k) std::swap(order[k - 1], order[dice.draw() % k]);
    return order;
}

}  // namespace

const Ins* Cta::code() const { return (launch->checked ? program->checked : program->fast).data(); }

void report(const Ins* i, Warp& w, FindingKind kind, uint32_t lanes, uint64_t address, uint32_t size, Space space,
            uint32_t other_ins, uint32_t other_warp, uint32_t other_cta) {
    Finding f{};
    f.kind = kind;
    f.ins = i->index;
    f.other_ins = other_ins;
    f.cta = w.cta->index;
    f.warp = w.id;
    f.other_warp = other_warp;
    f.other_cta = other_cta;
    f.lanes = lanes;
    f.space = space;
    f.address = address;
    f.size = size;
    f.barrier = w.current().barrier;
    f.count = 1;
    w.cta->worker->findings.add(f);
}

void run_launch(const Program& program, LaunchDesc& launch) {
    const std::vector<uint32_t> order = cta_sequence(launch);
    const size_t num_threads = std::max<size_t>(1, std::min<size_t>(launch.threads, order.size()));
    std::vector<Worker> workers(num_threads);
    std::atomic<size_t> next{0};
    std::atomic<bool> failed{false};
    auto work = [&](Worker& worker) {
        try {
            worker.counts.assign(program.fast.size(), InsCounts{});
            worker.traffic.assign(2 * size_t(launch.num_buffers), AccessCounts{});
            CtaRunner runner(program, launch, worker);
            for (size_t k = next++; k < order.size(); k = next++) {
                // A CTA's interleaving depends on the seed and the CTA, not on the thread that runs it.
                worker.random = (launch.seed + 1) * 0x9e3779b97f4a7c15ull + order[k] * 0xbf58476d1ce4e5b9ull;
                worker.random |= 1;
                runner.run(order[k]);
            }
        } catch (const std::bad_alloc&) {
            failed = true;
        }
    };
    std::vector<std::thread> threads;
    try {
        for (size_t t = 1; t < num_threads; ++t) threads.emplace_back(work, std::ref(workers[t]));
    } catch (const std::system_error&) {
        // The host grants no more threads: those that there are share the CTAs.
    }
    work(workers[0]);
    for (std::thread& thread : threads) thread.join();
    if (failed) throw std::bad_alloc();

    FindingLog findings;
    for (const Worker& worker : workers) {
        findings.merge(worker.findings);
        launch.barriers += worker.barriers;
        // All fields of the counters are 64-bit sums.
        const auto* counts = reinterpret_cast<const uint64_t*>(worker.counts.data());
        for (size_t k = 0; k < worker.counts.size() * sizeof(InsCounts) / 8; ++k)
            reinterpret_cast<uint64_t*>(launch.counts)[k] += counts[k];
        const auto* traffic = reinterpret_cast<const uint64_t*>(worker.traffic.data());
        for (size_t k = 0; k < worker.traffic.size() * sizeof(AccessCounts) / 8; ++k)
            reinterpret_cast<uint64_t*>(launch.traffic)[k] += traffic[k];
    }
    findings.write(launch);
}

}  // namespace emu
