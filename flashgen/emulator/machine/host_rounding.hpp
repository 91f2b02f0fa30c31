// The host's rounding mode for a scope, and values that the compiler cannot compute ahead of it.
#pragma once
#include <cfenv>

namespace emu {

enum Rounding { kNearest, kZero, kDown, kUp };

class HostRounding {
public:
    explicit HostRounding(int mode) : before_(std::fegetround()) {
        constexpr int kModes[] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD};
        std::fesetround(kModes[mode]);
    }
    ~HostRounding() { std::fesetround(before_); }
    HostRounding(const HostRounding&) = delete;
    HostRounding& operator=(const HostRounding&) = delete;

private:
    int before_;
};

// Compilers assume rounding to nearest; passing a value through here keeps them from folding or moving it.
template <class T>
inline T opaque(T x) {
    asm volatile("" : "+m"(x) : : "memory");
    return x;
}

}  // namespace emu
