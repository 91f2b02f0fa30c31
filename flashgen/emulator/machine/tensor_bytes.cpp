// mma.sync of 8-bit operands: integers, and floats of 8 bits. All share one product; what a byte stands for is looked
// up.
#include <array>
#include <iterator>

#include "fp8.hpp"
#include "tensor.hpp"

namespace emu {
namespace {

template <class N>
using Meaning = std::array<N, 256>;

template <class N, class F>
const Meaning<N>& meaning(F&& of) {
    static const Meaning<N> table = [&] {
        Meaning<N> all{};
        for (int byte = 0; byte < 256; ++byte) all[size_t(byte)] = N(of(uint8_t(byte)));
        return all;
    }();
    return table;
}
template <class T>
struct Signed {
    using Number = double;
    static const Meaning<double>& all() { return meaning<double>([](uint8_t byte) { return T(byte); }); }
};
template <class F>
struct Float8 {
    using Number = float;
    static const Meaning<float>& all() { return meaning<float>([](uint8_t byte) { return widen_fp8<F>(byte); }); }
};

template <class Acc, int Blocks, class N>
const Ins* multiply_bytes(const Ins* i, Warp& w, const Meaning<N>& a, const Meaning<N>& b) {
    auto look_up = [](const Meaning<N>& table) {
        return [&table](N* out, const uint8_t* in) {
            for (int k = 0; k < kBlockRows * 16; ++k) out[k] = table[in[k]];
        };
    };
    return multiply_fragments<Acc, uint8_t, 2, Blocks>(i, w, look_up(a), look_up(b));
}
template <class Acc, int Blocks, class A, class B>
const Ins* mma(const Ins* i, Warp& w) {
    return multiply_bytes<Acc, Blocks, typename A::Number>(i, w, A::all(), B::all());
}

using s8 = Signed<int8_t>;
using u8 = Signed<uint8_t>;
using x43 = Float8<e4m3>;
using x52 = Float8<e5m2>;

#define EMU_BYTES(shape, sum, Acc, blocks, a, A, b, B) {"mma." shape "." sum "." a "." b, mma<Acc, blocks, A, B>}
#define EMU_PAIRS(shape, sum, Acc, blocks, x, X, y, Y) \
    EMU_BYTES(shape, sum, Acc, blocks, x, X, x, X), EMU_BYTES(shape, sum, Acc, blocks, x, X, y, Y), \
    EMU_BYTES(shape, sum, Acc, blocks, y, Y, x, X), EMU_BYTES(shape, sum, Acc, blocks, y, Y, y, Y)
const TableEntry kEntries[] = {
    EMU_PAIRS("m16n8k16", "s32", int32_t, 1, "s8", s8, "u8", u8),
    EMU_PAIRS("m16n8k32", "s32", int32_t, 2, "s8", s8, "u8", u8),
    EMU_PAIRS("m16n8k32", "f32", float, 2, "e4m3", x43, "e5m2", x52),
    EMU_PAIRS("m16n8k32", "f16", f16, 2, "e4m3", x43, "e5m2", x52),
};

}  // namespace

Table tensor_bytes_table() { return {kEntries, std::size(kEntries)}; }

}  // namespace emu
