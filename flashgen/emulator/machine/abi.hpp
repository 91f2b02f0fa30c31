// The structures that Python fills in and reads back. Plain layout, no pointers to C++ objects;
// flashgen/emulator/native.py declares the same fields, and compares the sizes when it loads the library.
#pragma once
#include <cstdint>

namespace emu {

constexpr int kLanes = 32;
constexpr uint32_t kAll = 0xffffffffu;
constexpr int kAux = 8;
constexpr uint32_t kAbiVersion = 1;
constexpr uint32_t kNoGuard = 0xffffffffu;
constexpr uint32_t kNegated = 0x80000000u;  // of a guard: run the lanes whose predicate is false
constexpr uint32_t kNowhere = 0xffffffffu;  // of a branch: its arms meet again only at the end

// Generic addresses: global addresses stand for themselves, the other spaces have windows of 2^40 bytes.
enum Space : uint8_t { kGlobal, kShared, kLocal, kConst, kParam, kGeneric };
constexpr int kWindowBits = 40;
constexpr uint64_t window(Space space) { return uint64_t(space) << kWindowBits; }

// One instruction of a program. `op` indexes the operand pool; each operand is a byte offset into a frame.
struct EncodedIns {
    uint32_t handler;
    uint32_t op;
    uint32_t guard;
    uint32_t own_guard;  // the handler reads the guard itself (a branch)
    uint64_t imm;
    uint8_t aux[kAux];
};

// A special register that the program reads, and where in the frame the machine puts it.
struct SpecialSlot {
    uint32_t id;
    uint32_t offset;
};

struct ProgramDesc {
    const EncodedIns* ins;
    const uint32_t* ops;
    const uint8_t* image;  // the frame's first bytes: constants, broadcast to 32 lanes
    const SpecialSlot* specials;
    const uint8_t* constants;  // .const space
    uint64_t constant_bytes;
    uint32_t num_ins, num_ops, num_specials;
    uint32_t image_bytes, frame_bytes, local_bytes;
    uint32_t cell_shift;  // log2 bytes of a shared-memory shadow cell: the narrowest shared access
    uint32_t partial_barriers;  // some barriers are not of the whole CTA
};

enum BufferFlags : uint32_t {
    kReadable = 1,
    kWritable = 2,
    kMapped = 4,  // consult the byte map: the buffer has gaps, or its writes are tracked
};
enum MapFlags : uint8_t { kLegal = 1, kInitialised = 2, kWritten = 4, kReadOnly = 8 };

// One allocation of global memory: device addresses [base, end).
struct BufferDesc {
    uint64_t base, end;
    uint32_t flags, pad;
};

struct AccessCounts {
    uint64_t requests, bytes, sectors;
};

// Counters of one instruction. `executed` and `lanes` are kept by block markers only; `accesses`, `bytes` and
// wavefronts are of shared memory, sectors of global memory.
struct InsCounts {
    uint64_t executed, lanes, accesses, bytes, sectors, wavefronts, ideal_wavefronts;
};

enum FindingKind : uint32_t {
    kOutOfBounds,
    kMisaligned,
    kUninitialised,
    kRace,
    kForbiddenWrite,
    kBarrierDivergence,
    kBarrierExited,
    kDeadlock,
    kWarpSync,
    kInactiveLane,
    kUniformBranch,
    kStepLimit,
    kTrap,
    kInFlight,
};

struct Finding {
    uint32_t kind, ins, other_ins, cta, warp, other_warp, lanes, space;
    uint64_t address;
    uint32_t size, barrier, other_cta, pad;
    uint64_t count;
};

enum Order : uint32_t { kRoundRobin, kReverse, kRandom };

struct LaunchDesc {
    uint32_t grid[3], block[3];
    uint32_t shared_bytes, static_shared_bytes, shared_base, param_bytes;
    const uint8_t* params;
    uint8_t* arena;      // host memory of the device range [arena_base, arena_base + arena_bytes)
    uint8_t* arena_map;  // MapFlags of every byte of it
    void* global_cells;  // GlobalCell of every cell of it; null: races in global memory are not looked for
    uint64_t arena_base, arena_bytes;
    const BufferDesc* buffers;
    AccessCounts* traffic;  // [buffer][load, store]
    InsCounts* counts;      // [instruction]
    Finding* findings;
    uint64_t step_limit;  // basic blocks that one CTA may run
    uint64_t seed;
    uint64_t barriers;  // out: barriers completed
    uint32_t num_buffers, max_findings, num_findings /* out */, findings_dropped /* out */;
    uint32_t threads, checked, warp_order, cta_order;
    uint32_t global_shift, pad;  // log2 bytes of a cell
};

}  // namespace emu
