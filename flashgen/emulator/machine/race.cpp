// Memory under watch: races, and uninitialised reads of shared memory, by shadow cell.
#include <atomic>
#include <type_traits>

#include "memory.hpp"

namespace emu {
namespace {

// Does an access of `thread` at `time` race with this lane's? (Those up to w.quiet never do.)
inline bool unordered(const Warp& w, uint32_t lane, uint32_t thread, uint32_t time) {
    const uint32_t warp = warp_of(thread);
    if (warp != w.id) return time > w.seen[warp];
    const uint32_t other = thread >> 8 & 31u;
    return (other != lane || (thread & kManyLanes)) && (time > w.met[lane] || time > w.met[other]);
}

// The thread of a racing read, or kNowhere. `times`: when each warp read the cell; null: the last read stands
// for all. Only the last reader is known by its lane.
uint32_t racing_reader(const Warp& w, uint32_t lane, const Cell& cell, const uint32_t* times) {
    if (unordered(w, lane, cell.reader, cell.read)) return cell.reader;
    for (uint32_t m = cell.readers & ~(1u << w.id); m; m &= m - 1) {
        const uint32_t other = uint32_t(__builtin_ctz(m));
        if ((times ? times[other] : cell.read) > w.seen[other]) return other;
    }
    return kNowhere;
}

// One instruction's accesses. C is Cell (shared memory) or GlobalCell, which knows blocks, too: what
// different blocks do is never ordered.
template <class C>
class Watch {
    static constexpr bool kIsGlobal = std::is_same_v<C, GlobalCell>;

public:
    Watch(const Ins* i, Warp& w, const Access& access, C* cells, uint64_t base, uint32_t shift)
        : i_(i), w_(w), access_(access), cells_(cells), base_(base), shift_(shift), now_(w.cta->shadow.now),
          block_(w.cta->index + 1) {}

    // False: the cells are such that no lane of this warp could race on them.
    bool load(uint32_t lane, bool with_others) {
        const uint32_t me = thread_id(w_.id, lane) | (with_others ? kManyLanes : 0u);
        bool unsettled = false;
        each_cell(lane, [&](C& cell, uint64_t) {
            if (cell.written == 0) {
                if (!kIsGlobal) uninitialised_ |= 1u << lane;
                unsettled |= !kIsGlobal;
            } else if (foreign_write(cell) || cell.written > w_.quiet) {
                unsettled = true;
                judge_write(lane, cell);
            }
            note_read(cell, me);
        });
        return unsettled;
    }

    // Judges a lane's write against what was there, writes `incoming` (null for atomics, which write
    // themselves), and signs for it. A cell is signed only when its bytes are written, so that another block that
    // sees the signature sees the bytes.
    void store(uint32_t lane, uint8_t* base, const uint8_t* incoming) {
        judge_store(lane, base, incoming);
        if (incoming) std::memcpy(base + access_.address[lane], incoming, access_.size);
        if (kIsGlobal) std::atomic_thread_fence(std::memory_order_release);
        sign(lane, now_);
    }

    // Judges what an asynchronous copy will write; until it lands nobody may touch the cell.
    void issue(uint32_t lane, const uint8_t* base, uint8_t* arriving, const uint8_t* incoming) {
        judge_store(lane, base, incoming);
        std::memcpy(arriving + access_.address[lane], incoming, access_.size);
        sign(lane, kInFlightTime);
    }

    void tell(Space space) {
        if (uninitialised_)
            report(i_, w_, kUninitialised, uninitialised_, first_of(uninitialised_), access_.size, space);
        if (raced_)
            report(i_, w_, kRace, raced_, first_of(raced_), access_.size, space, other_ins_, other_warp_, other_block_);
        if (in_flight_)
            report(i_, w_, kInFlight, in_flight_, first_of(in_flight_), access_.size, space, copy_ins_, copy_warp_);
    }

private:
    uint64_t first_of(uint32_t lanes) const { return access_.address[__builtin_ctz(lanes)]; }

    // Writing the bytes that are there already, or are to arrive there, is benign.
    void judge_store(uint32_t lane, const uint8_t* base, const uint8_t* incoming) {
        const uint64_t start = access_.address[lane], end = start + access_.size, width = uint64_t(1) << shift_;
        each_cell(lane, [&](const C& cell, uint64_t address) {
            const bool foreign = foreign_write(cell) || foreign_read(cell);
            if (!foreign && cell.written <= w_.quiet && cell.read <= w_.quiet) return;
            if (foreign) std::atomic_thread_fence(std::memory_order_acquire);
            const uint64_t from = address > start ? address : start;
            const uint64_t to = address + width < end ? address + width : end;
            const bool in_flight = !kIsGlobal && cell.written == kInFlightTime;
            const uint8_t* there = in_flight ? w_.cta->arriving.data() - base_ : base;
            const bool same = incoming && std::memcmp(there + from, incoming + (from - start), to - from) == 0;
            if (!same) conflict(lane, cell);
        });
    }

    void sign(uint32_t lane, uint32_t time) {
        C signature{};
        signature.written = time;
        signature.writer = thread_id(w_.id, lane) | (access_.strong ? kAtomicAccess : 0u);
        signature.write_ins = i_->index;
        if constexpr (kIsGlobal) signature.write_block = block_;
        each_cell(lane, [&](C& cell, uint64_t) { cell = signature; });
    }

    template <class F>
    void each_cell(uint32_t lane, F&& f) {
        const uint64_t start = access_.address[lane] - base_;
        const uint64_t first = start >> shift_, last = (start + access_.size - 1) >> shift_;
        for (uint64_t c = first; c <= last; ++c) f(cells_[c], (c << shift_) + base_);
    }

    bool foreign_write(const C& cell) const {
        if constexpr (kIsGlobal) return cell.written && cell.write_block != block_;
        return false;
    }
    bool foreign_read(const C& cell) const {
        if constexpr (kIsGlobal) return cell.readers && (cell.read_block != block_ || (cell.reader & kManyBlocks));
        return false;
    }

    bool races_with_write(uint32_t lane, const C& cell) const {
        if (access_.strong && (cell.writer & kAtomicAccess)) return false;
        return foreign_write(cell) || (cell.written > w_.quiet && !written_before(lane, cell));
    }
    bool written_before(uint32_t lane, const C& cell) const {
        if (access_.collective && warp_of(cell.writer) == w_.id)
            return cell.written <= w_.met[cell.writer >> 8 & 31u];
        return !unordered(w_, lane, cell.writer, cell.written);
    }

    void note_read(C& cell, uint32_t me) {
        uint32_t blocks = 0;
        if constexpr (kIsGlobal) {
            if (cell.readers && cell.read_block != block_) {  // start anew, but remember that there are others
                blocks = kManyBlocks;
                cell.readers = 0;
                cell.read = 0;
            }
            blocks |= cell.reader & kManyBlocks;
            cell.read_block = block_;
        }
        // Readers that happened before us need no place: whoever is ordered after us is after them.
        const bool alone = cell.read <= w_.quiet;
        const bool same_warp = warp_of(cell.reader) == w_.id && !alone;
        const bool one_lane = !same_warp || (cell.reader & ~(kAtomicAccess | kManyBlocks)) == me;
        const bool all_strong = access_.strong && (cell.readers == 0 || alone || (cell.reader & kAtomicAccess));
        cell.readers = (alone ? 0u : cell.readers) | 1u << w_.id;
        cell.reader = me | (one_lane ? 0u : kManyLanes) | (all_strong ? kAtomicAccess : 0u) | blocks;
        cell.read = now_;
        cell.read_ins = i_->index;
        if (uint32_t* times = read_times(cell)) times[w_.id] = now_;
    }

    uint32_t* read_times(const C& cell) const {
        Shadow& shadow = w_.cta->shadow;
        if (kIsGlobal || shadow.read_times.empty()) return nullptr;
        return shadow.read_times.data() + size_t(&cell - cells_) * shadow.warps;
    }

    void conflict(uint32_t lane, const C& cell) {
        if (cell.written) judge_write(lane, cell);
        if (cell.readers == 0 || (access_.strong && (cell.reader & kAtomicAccess))) return;
        if (foreign_read(cell)) return race(lane, cell.read_ins, cell.reader, &cell);
        if (cell.read <= w_.quiet) return;
        const uint32_t reader = racing_reader(w_, lane, cell, read_times(cell));
        if (reader != kNowhere) race(lane, cell.read_ins, reader, nullptr);
    }

    void judge_write(uint32_t lane, const C& cell) {
        if (!kIsGlobal && cell.written == kInFlightTime) {
            if (!in_flight_) {
                copy_ins_ = cell.write_ins;
                copy_warp_ = warp_of(cell.writer);
            }
            in_flight_ |= 1u << lane;
        } else if (races_with_write(lane, cell)) race(lane, cell.write_ins, cell.writer, foreign_write(cell) ? &cell : nullptr);
    }
    // `foreign`: the cell, if the counterpart belongs to another block.
    void race(uint32_t lane, uint32_t other_ins, uint32_t other, const C* foreign) {
        if (!raced_) {
            other_ins_ = other_ins;
            other_warp_ = warp_of(other);
            if constexpr (kIsGlobal)
                if (foreign) other_block_ = (foreign_write(*foreign) ? foreign->write_block : foreign->read_block) - 1;
        }
        raced_ |= 1u << lane;
    }

    const Ins* i_;
    Warp& w_;
    const Access& access_;
    C* cells_;
    uint64_t base_;
    uint32_t shift_, now_, block_;
    uint32_t uninitialised_ = 0, raced_ = 0, other_ins_ = kNowhere, other_warp_ = kNowhere, other_block_ = kNowhere;
    uint32_t in_flight_ = 0, copy_ins_ = kNowhere, copy_warp_ = kNowhere;
};

// An earlier lane with the same address, or -1: broadcasts along the rows or columns of a tile of lanes.
inline int repeats(const Access& access, int l) {
    const uint64_t* a = access.address;
    if (l >= 1 && a[l] == a[l - 1]) return l - 1;
    if (l >= 8 && a[l] == a[l - 8]) return l - 8;
    return l >= 4 && a[l] == a[l - 4] ? l - 4 : -1;
}

template <class C>
void watch_loads(const Access& access, Watch<C>& watch) {
    uint32_t repeated = 0, unsettled = 0;
    int earlier[kLanes];
    for (int l = 0; l < kLanes; ++l) {
        earlier[l] = access.watched == kAll ? repeats(access, l) : -1;
        if (earlier[l] >= 0) repeated |= 1u << l | 1u << earlier[l];
    }
    for (uint32_t m = access.watched; m; m &= m - 1) {
        const int l = __builtin_ctz(m);
        const bool skip = earlier[l] >= 0 && !(unsettled >> earlier[l] & 1u);
        if (!skip && watch.load(uint32_t(l), access.collective || (repeated >> l & 1u))) unsettled |= 1u << l;
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
            else if (bytes) std::memcpy(base + access.address[l], bytes, access.size);
        }
    watch.tell(space);
}

}  // namespace

void watch_access(const Ins* i, Warp& w, Access& access, Space space, uint8_t* base, const uint8_t* incoming) {
    const LaunchDesc& launch = *w.cta->launch;
    Shadow& shadow = w.cta->shadow;
    ++shadow.now;
    if (space == kShared) {
        access.watched = access.lanes;
        const Watch<Cell> watch(i, w, access, shadow.cells.data(), launch.shared_base, shadow.shift);
        watch_all(access, watch, space, base, incoming);
    } else {
        auto* cells = reinterpret_cast<GlobalCell*>(launch.global_cells);
        const Watch<GlobalCell> watch(i, w, access, cells, launch.arena_base, launch.global_shift);
        if (access.use != Use::kLoad && w.cta->watched_copies) check_sources(i, w, access);
        watch_all(access, watch, space, base, incoming);
    }
}

void watch_issue(const Ins* i, Warp& w, const Access& access, uint8_t* arriving, const uint8_t* incoming) {
    Shadow& shadow = w.cta->shadow;
    ++shadow.now;
    Watch<Cell> watch(i, w, access, shadow.cells.data(), w.cta->launch->shared_base, shadow.shift);
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
        Cell signature{};
        signature.written = shadow.now;
        signature.writer = thread_id(w.id, l);
        signature.write_ins = copy.ins;
        for (uint32_t c = start >> shadow.shift; c <= (start + copy.size - 1) >> shadow.shift; ++c)
            shadow.cells[c] = signature;
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
