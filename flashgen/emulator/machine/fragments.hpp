// Fragments of matrices: a 32-bit register of all lanes, read in the order of the lanes, is 8 rows of 16 bytes, row
// after row (flashgen/emulator/isa/tensor.py). So blocks of a matrix are plain arrays here.
#pragma once
#include "handlers.hpp"

namespace emu {

constexpr int kBlockRows = 8;
constexpr int kBlockHalves = 64;

// The perfect shuffle: out = {low[0], high[0], low[1], ...}.
template <int N, class T>
inline void interleave(T* out, const T* low, const T* high) {
    EMU_LANES
    for (int k = 0; k < N; ++k) {
        out[2 * k] = low[k];
        out[2 * k + 1] = high[k];
    }
}

// A block of 8 rows and N / 8 columns. Each shuffle moves the top bit of an element's index to the bottom, so
// three of them exchange row and column.
template <int N, class T>
inline void transpose(T* out, const T* in) {
    T once[N], twice[N];
    interleave<N / 2>(once, in, in + N / 2);
    interleave<N / 2>(twice, once, once + N / 2);
    interleave<N / 2>(out, twice, twice + N / 2);
}

// `.sync.aligned`: all lanes of the warp run the instruction together.
template <class F>
inline const Ins* as_warp(const Ins* i, Warp& w, F&& run) {
    if (w.exec == kAll) {
        run();
        return i + 1;
    }
    if (!gather_warp(i, w)) return nullptr;
    run();
    return after_sync(i, w);
}

// A register of T from an array in the order of the lanes.
template <class T>
inline void set_register(Warp& w, uint32_t offset, const void* values) {
    T* d = w.reg<T>(offset);
    const T* v = static_cast<const T*>(values);
    each_lane(w.exec, [=](int l) { d[l] = v[l]; });
}

}  // namespace emu
