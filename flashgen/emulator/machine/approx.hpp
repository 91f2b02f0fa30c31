// The approximate functions, computed in double and rounded once: within 1 ulp (of float), so inside the
// error that the PTX manual grants, but not bit for bit what a GPU's table gives.
#pragma once
#include "lanes.hpp"

namespace emu {

// 2^x. x = n + f with |f| <= 1/2; 2^f by its Taylor series (error below 1e-12), 2^n by the exponent bits.
inline double exp2_double(double x) {
    constexpr double kRound = 0x1.8p52;  // adding it leaves the nearest integer in the low bits
    const double clamped = x < -1000.0 ? -1000.0 : x > 1000.0 ? 1000.0 : x;  // NaN stays
    const double shifted = clamped + kRound, t = (clamped - (shifted - kRound)) * 0x1.62e42fefa39efp-1;
    double p = 1.0 / 3628800;
    p = p * t + 1.0 / 362880;
    p = p * t + 1.0 / 40320;
    p = p * t + 1.0 / 5040;
    p = p * t + 1.0 / 720;
    p = p * t + 1.0 / 120;
    p = p * t + 1.0 / 24;
    p = p * t + 1.0 / 6;
    p = p * t + 0.5;
    p = p * t + 1.0;
    p = p * t + 1.0;
    return p * bits<double>((bits<uint64_t>(shifted) + 1023) << 52);
}

// log2 of a float. x = 2^e m with m in [sqrt(1/2), sqrt(2)); log2 m = 2/ln 2 atanh((m - 1)/(m + 1)).
inline double log2_double(float value) {
    const double x = value;
    const uint64_t u = bits<uint64_t>(x);
    const int64_t e = int64_t((u - 0x3fe6a09e667f3bcdull) >> 52);
    const int64_t exponent = e >= 2048 ? e - 4096 : e;
    const double m = bits<double>(u - (uint64_t(exponent) << 52));
    const double t = (m - 1.0) / (m + 1.0), s = t * t;
    double p = 1.0 / 15;
    p = p * s + 1.0 / 13;
    p = p * s + 1.0 / 11;
    p = p * s + 1.0 / 9;
    p = p * s + 1.0 / 7;
    p = p * s + 1.0 / 5;
    p = p * s + 1.0 / 3;
    p = p * s + 1.0;
    const double result = double(exponent) + p * t * 0x1.71547652b82fep+1;
    const double infinity = std::numeric_limits<double>::infinity();
    const double edge = x == 0.0 ? -infinity : x == infinity ? infinity : std::numeric_limits<double>::quiet_NaN();
    return x > 0.0 && x < infinity ? result : edge;
}

struct Ex2 { static double of(float x) { return exp2_double(x); } };
struct Lg2 { static double of(float x) { return log2_double(x); } };
struct Rcp { static double of(float x) { return 1.0 / double(x); } };
struct Sqrt { static double of(float x) { return std::sqrt(double(x)); } };
struct Rsqrt { static double of(float x) { return 1.0 / std::sqrt(double(x)); } };
struct Sin { static double of(float x) { return std::sin(double(x)); } };
struct Cos { static double of(float x) { return std::cos(double(x)); } };
struct Tanh { static double of(float x) { return std::tanh(double(x)); } };

}  // namespace emu
