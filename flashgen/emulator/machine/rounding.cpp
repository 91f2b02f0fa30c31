// Directed rounding (.rz, .rm, .rp) and .sat in single and double precision: rare, so through the host's
// rounding mode, one lane at a time. `aux` is {rounding, ftz, sat}.
#include <cfenv>
#include <iterator>

#include "handlers.hpp"
#include "host_rounding.hpp"

namespace emu {
namespace {

struct Add { template <class T> static T of(T a, T b) { return opaque(a) + opaque(b); } };
struct Sub { template <class T> static T of(T a, T b) { return opaque(a) - opaque(b); } };
struct Mul { template <class T> static T of(T a, T b) { return opaque(a) * opaque(b); } };
struct Div { template <class T> static T of(T a, T b) { return opaque(a) / opaque(b); } };
struct Fma { template <class T> static T of(T a, T b, T c) { return std::fma(opaque(a), opaque(b), opaque(c)); } };
struct Rcp { template <class T> static T of(T a) { return opaque(T(1)) / opaque(a); } };
struct Sqrt { template <class T> static T of(T a) { return std::sqrt(opaque(a)); } };

inline float flushed(float x, bool ftz) { return ftz ? flush(x) : x; }
inline double flushed(double x, bool) { return x; }

template <class F, class T, int N>
const Ins* directed(const Ins* i, Warp& w) {
    const HostRounding scope(i->aux[0]);
    const bool ftz = i->aux[1], sat = i->aux[2];
    T* d = w.reg<T>(i->op[0]);
    for (uint32_t m = w.exec; m; m &= m - 1) {
        const int l = __builtin_ctz(m);
        T x[3] = {};
        for (int k = 0; k < N; ++k) x[k] = flushed(w.reg<T>(i->op[k + 1])[l], ftz);
        T r;
        if constexpr (N == 1) r = F::of(x[0]);
        if constexpr (N == 2) r = F::of(x[0], x[1]);
        if constexpr (N == 3) r = F::of(x[0], x[1], x[2]);
        r = flushed(opaque(r), ftz);
        d[l] = sat ? saturate(r) : canonical(r);
    }
    return i + 1;
}

#define EMU_DIRECTED(name, F, N) {name ".rnd.f32", directed<F, float, N>}, {name ".rnd.f64", directed<F, double, N>}
const TableEntry kEntries[] = {
    EMU_DIRECTED("add", Add, 2), EMU_DIRECTED("sub", Sub, 2), EMU_DIRECTED("mul", Mul, 2),
    EMU_DIRECTED("div", Div, 2), EMU_DIRECTED("fma", Fma, 3), EMU_DIRECTED("rcp", Rcp, 1),
    EMU_DIRECTED("sqrt", Sqrt, 1),
};

}  // namespace

Table rounding_table() { return {kEntries, std::size(kEntries)}; }

}  // namespace emu
