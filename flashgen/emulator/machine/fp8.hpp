// Floats of 8 bits: e4m3 (no infinities, NaN is 0x7f) and e5m2 (as IEEE has it).
#pragma once
#include <algorithm>

#include "lanes.hpp"

namespace emu {

struct e4m3 {
    static constexpr int kDigits = 3, kBias = 7;
    static constexpr uint32_t kLargest = 0x7e;  // 448
    static bool is_nan(uint32_t magnitude) { return magnitude == 0x7f; }
    static bool is_infinite(uint32_t) { return false; }
};
struct e5m2 {
    static constexpr int kDigits = 2, kBias = 15;
    static constexpr uint32_t kLargest = 0x7b;  // 57344
    static bool is_nan(uint32_t magnitude) { return magnitude > 0x7c; }
    static bool is_infinite(uint32_t magnitude) { return magnitude == 0x7c; }
};

template <class F>
inline float widen_fp8(uint8_t raw) {
    const uint32_t magnitude = raw & 0x7fu, exponent = magnitude >> F::kDigits;
    const uint32_t digits = magnitude & ((1u << F::kDigits) - 1);
    const int power = int(exponent ? exponent : 1) - F::kBias - F::kDigits;
    float x = std::ldexp(float(digits + (exponent ? 1u << F::kDigits : 0u)), power);
    if (F::is_infinite(magnitude)) x = std::numeric_limits<float>::infinity();
    if (F::is_nan(magnitude)) return canonical(std::numeric_limits<float>::quiet_NaN());
    return raw & 0x80u ? -x : x;
}

// Nearest even; .satfinite: what is too large becomes the largest finite number, NaN becomes 0x7f.
template <class F>
inline uint8_t narrow_fp8(float x, bool relu) {
    if (x != x) return 0x7f;
    if (relu && !(x > 0.0f)) return 0;
    constexpr int kLeast = 1 - F::kBias;  // exponent of the smallest normal number
    const float magnitude = std::min(std::fabs(x), 65536.0f);
    const int exponent = std::max(int(bits<uint32_t>(magnitude) >> 23) - 127, kLeast);
    const float units = std::nearbyint(std::ldexp(magnitude, F::kDigits - exponent));
    const uint32_t code = (uint32_t(exponent - kLeast) << F::kDigits) + uint32_t(units);
    return uint8_t(std::min(code, F::kLargest) | (std::signbit(x) ? 0x80u : 0u));
}

}  // namespace emu
