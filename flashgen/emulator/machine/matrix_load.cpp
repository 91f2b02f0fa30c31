// ldmatrix: rows of 8 x 8 matrices of 16-bit elements. Lanes 8k to 8k + 7 give the addresses of matrix k's rows;
// a matrix, row after row, is a register in the order of the lanes. Operands: as a load's; `aux[4]` is the number of
// matrices, `aux[6]` asks for their transposes.
#include <iterator>

#include "fragments.hpp"
#include "memory.hpp"

namespace emu {
namespace {

constexpr uint32_t kRowBytes = 16;
using Matrices = uint8_t[kLanes][kRowBytes];

// The lanes whose rows have been read.
template <bool Checked>
uint32_t read_rows(const Ins* i, Warp& w, Access& access, Space space, Matrices& rows) {
    uint8_t* base = admit<Checked>(i, w, access, space);
    if (Checked && access.lanes && is_watched(access, space))
        watch_access(i, w, access, space, base, nullptr);
    each_lane(access.lanes, [&](int l) { std::memcpy(rows[l], base + access.address[l], kRowBytes); });
    return access.lanes;
}

template <Space S, bool Checked>
const Ins* ldmatrix(const Ins* i, Warp& w) {
    const Ins* next = as_warp(i, w, [&] {
        const uint32_t count = i->aux[4], named = count == 4 ? kAll : (1u << kBlockRows * count) - 1;
        uint32_t read = 0;
        Access access;
        access.lanes = w.exec & named;
        access.size = kRowBytes;
        access.use = Use::kLoad;
        access.collective = true;
        read_addresses(i, w, access);
        alignas(64) Matrices rows;
        if (S == kGeneric)
            by_space(access, [&](Access& part, Space space) { read |= read_rows<Checked>(i, w, part, space, rows); });
        else read = read_rows<Checked>(i, w, access, S, rows);
        for (uint32_t m = named & ~read; m; m &= m - 1)  // what cannot be read is NaN
            std::memset(rows[__builtin_ctz(m)], 0xff, kRowBytes);
        for (uint32_t k = 0; k < count; ++k) {
            const void* matrix = rows[kBlockRows * k];
            uint16_t turned[kBlockHalves];
            if (i->aux[6]) {
                transpose<kBlockHalves>(turned, static_cast<const uint16_t*>(matrix));
                matrix = turned;
            }
            set_register<uint32_t>(w, i->op[1 + k], matrix);
        }
    });
    return next == i + 1 ? after_access(i, w) : next;
}

const TableEntry kEntries[] = {
    {"ldmatrix.shared", ldmatrix<kShared, false>, ldmatrix<kShared, true>},
    {"ldmatrix.generic", ldmatrix<kGeneric, false>, ldmatrix<kGeneric, true>},
};

}  // namespace

Table matrix_load_table() { return {kEntries, std::size(kEntries)}; }

}  // namespace emu
