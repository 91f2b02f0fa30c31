// What the machine remembers of each cell of memory, to find races and uninitialised reads.
//
// Time is a count of the CTA's watched memory instructions. Each warp knows, for every other warp, up to
// which time that warp's accesses happen before its own (`Warp::seen`, raised by barriers), and each lane
// when it last met the other lanes of its warp (`Warp::met`, raised by bar.warp.sync and by barriers). Two
// accesses of different threads, one of them a write, race if the later does not have the earlier in its
// past: that holds for the program whatever order the machine happened to run it in.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

namespace emu {

struct Record {
    uint32_t written;  // time of the last write; 0: never
    uint32_t writer;   // its warp (low 8 bits), lane (next 8), kAtomicAccess if it was atomic or volatile
    uint32_t write_ins;
    uint32_t read;     // time of the last read since then
    uint32_t readers;  // warps that have read since then, one bit each
    uint32_t reader;   // thread of the last read; kManyLanes if others of its warp read, too; kAtomicAccess
                       // if all of these reads were atomic or volatile; kWholeWarp if the warp read as one
    uint32_t read_ins;
};

// A cell of shared memory; as large as a vector register, so that it is copied by one.
struct Cell : Record {
    uint32_t unused;
};

constexpr uint32_t kInFlightTime = 0xffffffffu;  // `written`: an asynchronous copy is still to write the cell
constexpr uint32_t kAtomicAccess = 1u << 16, kManyLanes = 1u << 17, kManyBlocks = 1u << 18, kWholeWarp = 1u << 19;

// A cell of global memory that kernels may write. Times are those of the block in question. Host threads
// may update one cell at once only if two blocks use it: a torn cell can then garble the report of that
// conflict, or miss it.
struct GlobalCell : Record {
    uint32_t write_block, read_block;  // index + 1; 0: none
};

inline uint32_t thread_id(uint32_t warp, uint32_t lane) { return warp | lane << 8; }
inline uint32_t warp_of(uint32_t thread) { return thread & 0xffu; }

// Who looks at a cell: a warp, and up to when what its own lanes did happens before what any of them will do.
struct Viewer {
    uint32_t warp, met;
};

// Shared memory's cells. 16 bytes that are only touched whole are one cell, a block; a narrower access divides its
// block into parts as wide as the program's narrowest write. A write of the whole block makes it one cell again, and so
// does a read once it matters no longer which thread wrote which part.
class Shadow {
public:
    std::vector<Cell> cells;  // those of blocks, then those of their parts
    // When each warp last read each cell. Barriers of a whole CTA leave all its warps with one past, so that a
    // cell's last read stands for all; with others, each reader has to be looked at by itself.
    std::vector<uint32_t> read_times;
    uint32_t warps = 0;
    uint32_t now = 0;
    uint32_t settled = 0;  // what happened up to this time happens before all that any warp will do
    bool rewound = false;  // times in global cells have lost their meaning

    void reset(uint64_t bytes, uint32_t part_shift, uint32_t num_warps, bool each_reader) {
        shift_ = part_shift;
        warps = num_warps;
        now = settled = 0;
        rewound = false;
        blocks_ = (bytes + kBlockBytes - 1) >> kBlockShift;
        cells.resize(blocks_ + (part_shift < kBlockShift ? blocks_ << (kBlockShift - part_shift) : 0));
        std::fill_n(cells.begin(), blocks_, Cell{});
        divided_.assign(blocks_, 0);
        read_times.resize(each_reader ? cells.size() * warps : 0);
    }

    // The one cell that [start, start + size) touches, counted from 0; null if there are several.
    Cell* only_cell(uint64_t start, uint32_t size, Viewer viewer) {
        const uint64_t block = start >> kBlockShift;
        if (size == kBlockBytes && start % kBlockBytes == 0 && !divided_[block]) return &cells[block];
        return only_part(start, size, viewer);
    }

    // f(cell, its first byte, its bytes) for each cell in [start, start + size).
    template <class F>
    void each_cell(uint64_t start, uint32_t size, Viewer viewer, F&& f) {
        const uint64_t end = start + size;
        for (uint64_t block = start >> kBlockShift; block <= (end - 1) >> kBlockShift; ++block) {
            const uint64_t first = block << kBlockShift, last = first + kBlockBytes;
            const uint64_t from = first > start ? first : start, to = last < end ? last : end;
            if (undivided(block, uint32_t(to - from), viewer)) f(cells[block], first, uint64_t(kBlockBytes));
            else
                for (uint64_t c = from >> shift_; c <= (to - 1) >> shift_; ++c)
                    f(cells[blocks_ + c], c << shift_, uint64_t(1) << shift_);
        }
    }

    // All of [start, start + size) was last written as told, and not read since.
    void sign(uint64_t start, uint32_t size, uint32_t time, uint32_t writer, uint32_t ins) {
        if ((start | size) % kBlockBytes == 0)
            for (uint64_t block = start >> kBlockShift; block < (start + size) >> kBlockShift; ++block) {
                divided_[block] = 0;
                cells[block] = Cell{{time, writer, ins, 0, 0, 0, 0}, 0};
            }
        else
            each_cell(start, size, Viewer{}, [=](Cell& cell, uint64_t, uint64_t) {
                cell = Cell{{time, writer, ins, 0, 0, 0, 0}, 0};
            });
    }

    // Every access so far happens before every access to come (a barrier of all warps), and time is
    // running out: keep only what has been written.
    void rewind() {
        for (Cell& cell : cells)
            if (cell.written != kInFlightTime) cell = Cell{{cell.written ? 1u : 0u, 0, cell.write_ins, 0, 0, 0, 0}, 0};
        now = settled = 1;
        rewound = true;
    }

private:
    static constexpr uint32_t kBlockShift = 4, kBlockBytes = 1u << kBlockShift;

    [[gnu::noinline]] Cell* only_part(uint64_t start, uint32_t size, Viewer viewer) {
        const uint64_t block = start >> kBlockShift, last = start + size - 1;
        if (last >> kBlockShift != block) return nullptr;
        if (undivided(block, size, viewer)) return &cells[block];
        return start >> shift_ == last >> shift_ ? &cells[blocks_ + (start >> shift_)] : nullptr;
    }

    // Whether a block is one cell for an access to `bytes` of it; makes it one, or divides it, where that must be.
    bool undivided(uint64_t block, uint32_t bytes, Viewer viewer) {
        const bool whole = bytes == kBlockBytes || shift_ == kBlockShift;
        if (divided_[block] == !whole) return whole;
        if (whole) return unite(block, viewer);
        divide(block);
        return false;
    }

    void divide(uint64_t block) {
        const uint64_t parts = uint64_t(1) << (kBlockShift - shift_), first = blocks_ + block * parts;
        for (uint64_t c = first; c < first + parts; ++c) {
            cells[c] = cells[block];
            if (!read_times.empty()) std::copy_n(&read_times[block * warps], warps, &read_times[c * warps]);
        }
        divided_[block] = 1;
    }

    // Makes one cell of parts that have been written and not read since by anyone who could still race: writes that
    // are in everyone's past, or one write by lanes of the viewer's warp that is in the past of all its lanes.
    bool unite(uint64_t block, Viewer viewer) {
        const uint64_t parts = uint64_t(1) << (kBlockShift - shift_), first = blocks_ + block * parts;
        const Cell& one = cells[first];
        uint32_t writer = one.writer;
        bool past = true, own = warp_of(one.writer) == viewer.warp && one.written <= viewer.met;
        for (uint64_t c = first; c < first + parts; ++c) {
            const Cell& part = cells[c];
            if (part.written == 0 || part.read > settled) return false;
            past &= part.written <= settled;
            own &= part.written == one.written && warp_of(part.writer) == viewer.warp;
            writer &= part.writer | ~kAtomicAccess;
        }
        if (!past && !own) return false;
        cells[block] = Cell{{one.written, writer, one.write_ins, 0, 0, 0, 0}, 0};
        divided_[block] = 0;
        return true;
    }

    std::vector<uint8_t> divided_;
    uint64_t blocks_ = 0;
    uint32_t shift_ = 2;
};

}  // namespace emu
