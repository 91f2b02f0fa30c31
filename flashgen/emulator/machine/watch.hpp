// One memory instruction's accesses against what the shadow remembers: who races with whom, what was never written,
// what a copy in flight owns.
#pragma once
#include <type_traits>

#include "memory.hpp"

namespace emu {

// Does an access of `thread` at `time` race with this lane's? (Those up to w.quiet never do.)
inline bool unordered(const Warp& w, uint32_t lane, uint32_t thread, uint32_t time) {
    const uint32_t warp = warp_of(thread);
    if (warp != w.id) return time > w.seen[warp];
    if (thread & kWholeWarp) return false;
    const uint32_t other = thread >> 8 & 31u;
    return (other != lane || (thread & kManyLanes)) && (time > w.met[lane] || time > w.met[other]);
}

// The thread of a racing read, or kNowhere. `times`: when each warp read the cell; null: the last read stands
// for all. Only the last reader is known by its lane.
inline uint32_t racing_reader(const Warp& w, uint32_t lane, const Record& cell, const uint32_t* times) {
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
    Watch(const Ins* i, Warp& w, const Access& access)
        : i_(i), w_(w), access_(access), shadow_(w.cta->shadow), now_(shadow_.now), block_(w.cta->index + 1) {
        const LaunchDesc& launch = *w.cta->launch;
        base_ = kIsGlobal ? launch.arena_base : launch.shared_base;
    }

    // False: the cells are such that no lane of this warp could race on them.
    bool load(uint32_t lane, bool with_others) {
        const uint32_t others = access_.collective ? kWholeWarp : with_others ? kManyLanes : 0u;
        const uint32_t me = thread_id(w_.id, lane) | others;
        if constexpr (!kIsGlobal)
            if (C* cell = shadow_.only_cell(access_.address[lane] - base_, access_.size, viewer()))
                return load_cell(*cell, lane, me);
        return load_cells(lane, me);
    }

    // Judges a lane's write against what was there, writes `incoming` (null for atomics, which write
    // themselves), and signs for it. A cell is signed only when its bytes are written, so that another block that
    // sees the signature sees the bytes.
    void store(uint32_t lane, uint8_t* base, const uint8_t* incoming) {
        judge_store(lane, base, incoming);
        if (incoming) copy_bytes(base + access_.address[lane], incoming, access_.size);
        sign(lane, now_);
    }

    // Judges what an asynchronous copy will write; until it lands nobody may touch the cell.
    void issue(uint32_t lane, const uint8_t* base, uint8_t* arriving, const uint8_t* incoming) {
        judge_store(lane, base, incoming);
        copy_bytes(arriving + access_.address[lane], incoming, access_.size);
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
        const uint64_t start = access_.address[lane], end = start + access_.size;
        each_cell(lane, [&](const C& cell, uint64_t address, uint64_t width) {
            const bool foreign = foreign_write(cell) || foreign_read(cell);
            if (!foreign && is_past(cell.written, cell.writer) && reads_are_past(cell)) return;
            const uint64_t from = address > start ? address : start;
            const uint64_t to = address + width < end ? address + width : end;
            const bool in_flight = !kIsGlobal && cell.written == kInFlightTime;
            const uint8_t* there = in_flight ? w_.cta->arriving.data() - base_ : base;
            const bool same = incoming && std::memcmp(there + from, incoming + (from - start), to - from) == 0;
            if (!same) conflict(lane, cell);
        });
    }

    void sign(uint32_t lane, uint32_t time) {
        const uint32_t writer = thread_id(w_.id, lane) | (access_.strong ? kAtomicAccess : 0u);
        if constexpr (kIsGlobal)
            each_cell(lane, [&](C& cell, uint64_t, uint64_t) {
                cell.writer = writer;
                cell.write_ins = i_->index;
                cell.write_block = block_;
                cell.reader = writer & kAtomicAccess;  // nobody, and if two blocks are at it at once, nobody else
                publish(cell.readers, 0);
                publish(cell.written, time);
            });
        else shadow_.sign(access_.address[lane] - base_, access_.size, time, writer, i_->index);
    }

    Viewer viewer() const { return {w_.id, w_.met_by_all}; }

    // Whether what a thread of this block did then happens before all that any lane of this warp will do.
    bool is_past(uint32_t time, uint32_t thread) const {
        return time <= w_.quiet || (warp_of(thread) == w_.id && time <= w_.met_by_all);
    }
    bool reads_are_past(const C& cell) const {
        return cell.read <= w_.quiet || (cell.readers == 1u << w_.id && cell.read <= w_.met_by_all);
    }

    // f(cell, address of its first byte, its bytes)
    template <class F>
    void each_cell(uint32_t lane, F&& f) {
        const uint64_t start = access_.address[lane] - base_;
        if constexpr (kIsGlobal) {
            const LaunchDesc& launch = *w_.cta->launch;
            auto* cells = reinterpret_cast<GlobalCell*>(launch.global_cells);
            const uint32_t shift = launch.global_shift;
            for (uint64_t c = start >> shift; c <= (start + access_.size - 1) >> shift; ++c)
                f(cells[c], (c << shift) + base_, uint64_t(1) << shift);
        } else {
            shadow_.each_cell(start, access_.size, viewer(), [&](C& cell, uint64_t first, uint64_t width) {
                f(cell, first + base_, width);
            });
        }
    }

    // Blocks that run on other threads of the host may be at a cell of global memory at the same time. The fields
    // that say that there was a write or a read are written last and read first.
    static void publish(uint32_t& field, uint32_t value) {
        if constexpr (kIsGlobal) __atomic_store_n(&field, value, __ATOMIC_RELEASE);
        else field = value;
    }
    static uint32_t seen(const uint32_t& field) { return __atomic_load_n(&field, __ATOMIC_ACQUIRE); }

    bool foreign_write(const C& cell) const {
        if constexpr (kIsGlobal) return seen(cell.written) && cell.write_block != block_;
        return false;
    }
    bool foreign_read(const C& cell) const {
        if constexpr (kIsGlobal) return seen(cell.readers) && (cell.read_block != block_ || (cell.reader & kManyBlocks));
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

    [[gnu::noinline]] bool load_cells(uint32_t lane, uint32_t me) {
        bool unsettled = false;
        each_cell(lane, [&](C& cell, uint64_t, uint64_t) { unsettled |= load_cell(cell, lane, me); });
        return unsettled;
    }
    [[gnu::always_inline]] bool load_cell(C& cell, uint32_t lane, uint32_t me) {
        bool unsettled = false;
        if (cell.written == 0) {
            if (!kIsGlobal) uninitialised_ |= 1u << lane;
            unsettled = !kIsGlobal;
        } else if (foreign_write(cell) || !is_past(cell.written, cell.writer)) {
            unsettled = true;
            judge_write(lane, cell);
        }
        note_read(cell, me);
        return unsettled;
    }

    void note_read(C& cell, uint32_t me) {
        uint32_t blocks = 0;
        bool anew = false;
        if constexpr (kIsGlobal) {
            anew = seen(cell.readers) && cell.read_block != block_;  // but remember that there are others
            blocks = anew ? kManyBlocks : cell.reader & kManyBlocks;
            cell.read_block = block_;
        }
        // Readers that happened before us need no place: whoever is ordered after us is after them.
        const bool alone = anew || reads_are_past(cell);
        const bool same_warp = warp_of(cell.reader) == w_.id && !alone;
        const bool known = same_warp && !(cell.reader & kWholeWarp);  // by lane
        const uint32_t before = cell.reader & ~(kAtomicAccess | kManyBlocks);
        const uint32_t reader = !known ? me : access_.collective ? before : me | (before == me ? 0u : kManyLanes);
        const bool all_strong = access_.strong && (cell.readers == 0 || alone || (cell.reader & kAtomicAccess));
        cell.reader = reader | (all_strong ? kAtomicAccess : 0u) | blocks;
        cell.read = now_;
        cell.read_ins = i_->index;
        publish(cell.readers, (alone ? 0u : cell.readers) | 1u << w_.id);
        if (uint32_t* times = read_times(cell)) times[w_.id] = now_;
    }

    uint32_t* read_times(const C& cell) const {
        if constexpr (!kIsGlobal)
            if (!shadow_.read_times.empty())
                return shadow_.read_times.data() + size_t(&cell - shadow_.cells.data()) * shadow_.warps;
        return nullptr;
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
        } else if (races_with_write(lane, cell)) {
            race(lane, cell.write_ins, cell.writer, foreign_write(cell) ? &cell : nullptr);
        }
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
    Shadow& shadow_;
    uint64_t base_;
    uint32_t now_, block_;
    uint32_t uninitialised_ = 0, raced_ = 0, other_ins_ = kNowhere, other_warp_ = kNowhere, other_block_ = kNowhere;
    uint32_t in_flight_ = 0, copy_ins_ = kNowhere, copy_warp_ = kNowhere;
};

}  // namespace emu
