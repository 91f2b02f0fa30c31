// Numbers as PTX sees them: flush to zero, canonical NaN, half-width floats.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "abi.hpp"

#if defined(__clang__)
#define EMU_LANES _Pragma("clang loop vectorize(assume_safety)")
#else
// A destination is the very slot of a source or disjoint from it, so lanes never depend on each other.
#define EMU_LANES _Pragma("GCC ivdep")
#endif

namespace emu {

template <class To, class From>
inline To bits(From from) {
    static_assert(sizeof(To) == sizeof(From));
    To to;
    std::memcpy(&to, &from, sizeof to);
    return to;
}

inline float canonical(float x) { return x == x ? x : bits<float>(0x7fffffffu); }
// A GPU keeps payloads in double precision, but does not say whose; one NaN for all keeps runs alike.
inline double canonical(double x) { return x == x ? x : bits<double>(0x7ff8000000000000ull); }

inline float flush(float x) {
    const uint32_t u = bits<uint32_t>(x);
    return bits<float>((u & 0x7f800000u) ? u : u & 0x80000000u);
}
template <bool Ftz>
inline float ftz(float x) {
    return Ftz ? flush(x) : x;
}
template <bool Ftz>
inline double ftz(double x) {
    return x;
}

// .sat clamps to [0, 1], and NaN to +0.
template <class T>
inline T saturate(T x) {
    return x > T(0) ? (x < T(1) ? x : T(1)) : T(0);
}

// Half-width floats are stored as their 16 bits; arithmetic goes through float or double.
struct f16 {
    uint16_t raw;
};
struct bf16 {
    uint16_t raw;
};

// Exact: the multiplication rebiases the exponent and normalises subnormals in one step.
inline float widen(f16 h) {
    const uint32_t magnitude = uint32_t(h.raw & 0x7fffu) << 13;
    const uint32_t scaled = bits<uint32_t>(bits<float>(magnitude) * 0x1p112f);
    const uint32_t value = magnitude >= (0x7c00u << 13) ? magnitude | 0x7f800000u : scaled;
    return bits<float>(value | uint32_t(h.raw & 0x8000u) << 16);
}
inline float widen(bf16 h) { return bits<float>(uint32_t(h.raw) << 16); }

// Rounds to nearest even; NaN becomes 0x7fff.
template <class H>
H narrow(float x);

// Adding 2^13 times the leading power of two makes the FPU round at the half's last bit; below the
// smallest normal half that bit stays where it is, which gives subnormals.
template <>
inline f16 narrow<f16>(float x) {
    const uint32_t u = bits<uint32_t>(x), magnitude = u & 0x7fffffffu;
    uint32_t shifter = magnitude & 0x7f800000u;
    shifter = (shifter < 0x38800000u ? 0x38800000u : shifter) + (13u << 23);
    const uint32_t digits = bits<uint32_t>(bits<float>(magnitude) + bits<float>(shifter)) - shifter;
    uint32_t half = digits + (((shifter >> 23) - 126u) << 10);
    half = magnitude >= 0x477ff000u ? 0x7c00u : half;  // 65520 and above round to infinity
    half |= (u >> 16) & 0x8000u;
    return {uint16_t(magnitude > 0x7f800000u ? 0x7fffu : half)};
}
template <>
inline bf16 narrow<bf16>(float x) {
    const uint32_t u = bits<uint32_t>(x);
    const uint32_t rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
    return {uint16_t((u & 0x7fffffffu) > 0x7f800000u ? 0x7fffu : rounded)};
}

// Rounding to odd: cut off, and set the last bit if anything was lost. A later rounding to a format at
// least two bits shorter then gives the correctly rounded result of the exact value.
inline double to_odd(double sum, double error) {
    if (error == 0.0 || !std::isfinite(sum)) return sum;
    const uint64_t u = bits<uint64_t>(sum);
    const bool toward_zero = (error < 0.0) != (sum < 0.0);
    return bits<double>((toward_zero ? u - 1 : u) | 1u);
}
inline double add_to_odd(double a, double b) {
    const double sum = a + b, b_part = sum - a;
    return to_odd(sum, (a - (sum - b_part)) + (b - b_part));
}
inline float float_to_odd(double x) {
    const float f = static_cast<float>(x);
    const double error = x - double(f);
    if (!(error != 0.0) || std::isinf(x)) return f;
    const uint32_t u = bits<uint32_t>(f);
    if (f == 0.0f) return bits<float>(u | 1u);
    const bool toward_zero = (error < 0.0) != (x < 0.0);
    return bits<float>((toward_zero ? u - 1 : u) | 1u);
}
template <class H>
inline H fma_half(H a, H b, H c) {
    return narrow<H>(float_to_odd(add_to_odd(double(widen(a)) * double(widen(b)), double(widen(c)))));
}

inline f16 flush(f16 h) { return {uint16_t((h.raw & 0x7c00u) ? h.raw : h.raw & 0x8000u)}; }
inline bf16 flush(bf16 h) { return {uint16_t((h.raw & 0x7f80u) ? h.raw : h.raw & 0x8000u)}; }

}  // namespace emu
