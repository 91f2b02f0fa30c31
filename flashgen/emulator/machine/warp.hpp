// The state of a launch: threads of the host run CTAs, a CTA has warps, a warp has groups of lanes.
#pragma once
#include <vector>

#include "abi.hpp"
#include "findings.hpp"
#include "shadow.hpp"

namespace emu {

struct Ins;
struct Warp;
using Handler = const Ins* (*)(const Ins*, Warp&);  // runs one instruction; nullptr: the group stops here

struct Ins {
    Handler run;
    Handler inner;  // what `run` guards
    const uint32_t* op;
    uint64_t imm;
    uint32_t guard, index;
    uint8_t aux[kAux];
};

// A group of lanes that run together. Lanes that diverged meet again at the post-dominator of the
// branch: its group `join` collects them there. Convergence is a matter of speed and of the `.sync`
// instructions' masks, so a join lets go of what it has when its missing lanes spin.
struct Group {
    enum State : uint8_t { kFree, kReady, kJoin, kBarrier, kSync };
    const Ins* ip;
    const Ins* meet;     // where it joins `parent`; nullptr: nowhere
    uint32_t mask;       // its lanes; of a join: those that have arrived
    uint32_t members;    // of a join: all lanes below it that have not exited
    uint32_t sync_exec;  // of kSync: lanes that run the instruction
    uint32_t sync_need;  // of kSync: lanes that must run it together
    int8_t parent;
    State state;
    uint8_t barrier;
    bool forced;     // of kSync: nobody else will come, run with the lanes there are
    uint32_t spins;  // blocks and accesses in turns that it did not end by itself
};

constexpr int kGroups = 128;

// An instruction's asynchronous copies from global to shared memory, in flight until their threads wait for them.
// All belong to the group of that number of their thread.
struct Copy {
    uint32_t lanes;    // those in flight
    uint32_t sources;  // lanes whose source this kernel may write
    uint32_t group, ins, size;
    uint32_t to[kLanes], given[kLanes];  // `given` bytes come from the source, the rest are zero
    uint64_t from[kLanes];
};

struct Cta;

struct Warp {
    uint8_t* frame;
    uint32_t exec;   // lanes that run the current instruction
    uint32_t mask;   // lanes of the current group
    uint32_t carry;  // the condition code of add.cc and friends, one bit a lane
    int32_t slice;   // basic blocks until the warp yields
    int32_t group;   // index of the current group
    uint32_t id;
    uint32_t live;
    bool fine;       // yield after memory accesses too
    bool turn_over;  // it waits, or lets others run
    Cta* cta;
    uint8_t* local;
    std::vector<uint8_t> local_written;
    std::vector<uint32_t> seen;  // [warp]: accesses of that warp up to this time happen before us
    uint32_t seen_by_all;        // the least of `seen`, without our own
    uint32_t met[kLanes];        // when each lane last synchronised with the others of this warp
    uint32_t met_by_all;         // the least of `met`
    uint32_t quiet;              // up to this time no access can race with ours: the least of all these
    std::vector<Copy> copies;    // the oldest first
    uint32_t committed[kLanes];  // groups of copies that each lane has closed
    int used_groups;  // those from here on are free
    Group groups[kGroups];

    Group* begin() { return groups; }
    Group* end() { return groups + used_groups; }

    template <class T>
    T* reg(uint32_t offset) const {
        return reinterpret_cast<T*>(frame + offset);
    }
    Group& current() { return groups[group]; }
};

struct Barrier {
    uint32_t arrived = 0, expected = 0;  // in threads
    uint32_t count = 0, predicate_and = 1, predicate_or = 0, whole = 0;
    std::vector<uint32_t> lanes;    // [warp]: lanes that came without the rest of their warp
    std::vector<uint32_t> history;  // what the arrivals had seen, to be handed on at completion

    void reset(uint32_t warps) {
        arrived = expected = count = predicate_or = whole = 0;
        predicate_and = 1;
        lanes.assign(warps, 0);
        history.assign(warps, 0);
    }
};

struct Program {
    std::vector<Ins> fast, checked;
    std::vector<uint32_t> ops;
    std::vector<uint8_t> image, constants;
    std::vector<SpecialSlot> specials;
    uint32_t frame_bytes, local_bytes, cell_shift;
    bool partial_barriers;
};

struct Worker;

struct Cta {
    const Program* program;
    LaunchDesc* launch;
    Worker* worker;
    uint32_t index;  // linear
    uint32_t id[3];
    uint32_t num_threads, num_warps;
    bool stopped;
    uint64_t steps;
    std::vector<Warp> warps;
    std::vector<uint8_t> shared;
    uint8_t* shared_base;  // such that shared_base + address is the byte
    std::vector<uint8_t> arriving;  // what copies in flight will write, at its place
    uint32_t watched_copies;        // copies in flight whose source this kernel may write
    Shadow shadow;
    Barrier barriers[16];

    const Ins* code() const;
};

// What one host thread accumulates over its CTAs.
struct Worker {
    std::vector<InsCounts> counts;
    std::vector<AccessCounts> traffic;
    FindingLog findings;
    uint64_t barriers = 0;
    uint64_t random = 0;
    uint32_t last_buffer = 0;

    uint32_t draw() {  // xorshift64*
        random ^= random >> 12;
        random ^= random << 25;
        random ^= random >> 27;
        return uint32_t((random * 0x2545f4914f6cdd1dull) >> 32);
    }
};

// groups.cpp
const Ins* diverge(Warp& w, uint32_t taken, const Ins* target, const Ins* next, const Ins* meet);
void arrive_at_join(Warp& w, int join, uint32_t lanes);
void exit_lanes(Warp& w, uint32_t lanes);
bool release_joins(Warp& w);
int new_group(Warp& w, const Group& group);
bool converge(const Ins* i, Warp& w, uint32_t need);
bool gather_warp(const Ins* i, Warp& w);
const Ins* after_sync(const Ins* i, Warp& w);

// barrier.cpp
void meet_lanes(Warp& w, uint32_t lanes);
const Ins* arrive_at_barrier(const Ins* i, Warp& w, uint32_t id, uint32_t threads, bool waits);
void barrier_exit(Cta& cta);

// report: every finding of an instruction goes through here
void report(const Ins* i, Warp& w, FindingKind kind, uint32_t lanes, uint64_t address = 0, uint32_t size = 0,
            Space space = kGlobal, uint32_t other_ins = kNowhere, uint32_t other_warp = kNowhere,
            uint32_t other_cta = kNowhere);

}  // namespace emu
