// What the machine remembers of each cell of memory, to find races and uninitialised reads.
//
// Time is a count of the CTA's watched memory instructions. Each warp knows, for every other warp, up to
// which time that warp's accesses happen before its own (`Warp::seen`, raised by barriers), and each lane
// when it last met the other lanes of its warp (`Warp::met`, raised by bar.warp.sync and by barriers). Two
// accesses of different threads, one of them a write, race if the later does not have the earlier in its
// past: that holds for the program whatever order the machine happened to run it in.
#pragma once
#include <cstdint>
#include <vector>

namespace emu {

struct Cell {
    uint32_t written;  // time of the last write; 0: never
    uint32_t writer;   // its warp (low 8 bits), lane (next 8), kAtomicAccess if it was atomic or volatile
    uint32_t write_ins;
    uint32_t read;     // time of the last read since then
    uint32_t readers;  // warps that have read since then, one bit each
    uint32_t reader;   // thread of the last read; kManyLanes if others of its warp read, too; kAtomicAccess
                       // if all of these reads were atomic or volatile
    uint32_t read_ins;
};

constexpr uint32_t kInFlightTime = 0xffffffffu;  // `written`: an asynchronous copy is still to write the cell
constexpr uint32_t kAtomicAccess = 1u << 16, kManyLanes = 1u << 17, kManyBlocks = 1u << 18;

// A cell of global memory that kernels may write. Times are those of the block in question. Host threads
// may update one cell at once only if two blocks use it: a torn cell can then garble the report of that
// conflict, or miss it.
struct GlobalCell : Cell {
    uint32_t write_block, read_block;  // index + 1; 0: none
};

inline uint32_t thread_id(uint32_t warp, uint32_t lane) { return warp | lane << 8; }
inline uint32_t warp_of(uint32_t thread) { return thread & 0xffu; }

struct Shadow {
    std::vector<Cell> cells;
    // When each warp last read each cell. Barriers of a whole CTA leave all its warps with one past, so that a
    // cell's last read stands for all; with others, each reader has to be looked at by itself.
    std::vector<uint32_t> read_times;
    uint32_t warps = 0;
    uint32_t shift = 2;
    uint32_t now = 0;
    bool rewound = false;  // times in global cells have lost their meaning

    void reset(uint64_t bytes, uint32_t cell_shift, uint32_t num_warps, bool each_reader) {
        shift = cell_shift;
        warps = num_warps;
        now = 0;
        rewound = false;
        cells.assign((bytes + (uint64_t(1) << shift) - 1) >> shift, Cell{});
        read_times.resize(each_reader ? cells.size() * warps : 0);
    }

    // Every access so far happens before every access to come (a barrier of all warps), and time is
    // running out: keep only what has been written.
    void rewind() {
        for (Cell& cell : cells)
            if (cell.written != kInFlightTime) cell = Cell{cell.written ? 1u : 0u, 0, cell.write_ins, 0, 0, 0, 0};
        now = 1;
        rewound = true;
    }
};

}  // namespace emu
