// ld and st, in every space, width and vector length.
#include <iterator>

#include "memory.hpp"

namespace emu {
namespace {

constexpr int kMaxVector = 8;

// Element type in memory, register type. A narrower element is extended by its sign; a wider register
// is cut when stored.
template <class M, class R, int N>
void read_lanes(const Ins* i, Warp& w, const Access& access, const uint8_t* base) {
    R* d[N];
    for (int k = 0; k < N; ++k) d[k] = w.reg<R>(i->op[1 + k]);
    const uint64_t* a = access.address;
    auto one = [&](int l) {
        M v[N];
        std::memcpy(v, base + a[l], sizeof v);
        for (int k = 0; k < N; ++k) d[k][l] = R(v[k]);
    };
    if (access.lanes == kAll)
        for (int l = 0; l < kLanes; ++l) one(l);
    else
        for (uint32_t m = access.lanes; m; m &= m - 1) one(__builtin_ctz(m));
}
template <class M, class R, int N>
void write_lanes(const Ins* i, Warp& w, const Access& access, uint8_t* base, bool packed) {
    const R* s[N];
    for (int k = 0; k < N; ++k) s[k] = w.reg<R>(i->op[1 + k]);
    const uint64_t* a = access.address;
    auto one = [&](int l) {
        M v[N];
        for (int k = 0; k < N; ++k) v[k] = M(s[k][l]);
        std::memcpy(packed ? base + size_t(l) * sizeof v : base + a[l], v, sizeof v);
    };
    if (access.lanes == kAll)
        for (int l = 0; l < kLanes; ++l) one(l);
    else
        for (uint32_t m = access.lanes; m; m &= m - 1) one(__builtin_ctz(m));
}

template <class M, class R, class F>
void with_length(const Ins* i, F&& f) {
    switch (i->aux[4]) {
        case 1: return f(M{}, R{}, std::integral_constant<int, 1>{});
        case 2: return f(M{}, R{}, std::integral_constant<int, 2>{});
        case 4: return f(M{}, R{}, std::integral_constant<int, 4>{});
        default: return f(M{}, R{}, std::integral_constant<int, 8>{});
    }
}
template <class M, class S, class R, class F>  // unsigned and signed element, register
void with_sign(const Ins* i, F&& f) {
    if (i->aux[2]) with_length<S, R>(i, f);
    else with_length<M, R>(i, f);
}
template <class M, class S, class F>
void with_register(const Ins* i, F&& f) {
    switch (i->aux[3]) {
        case 1:
            if constexpr (sizeof(M) <= 2) return with_sign<M, S, uint16_t>(i, f);
            return;
        case 2:
            if constexpr (sizeof(M) <= 4) return with_sign<M, S, uint32_t>(i, f);
            return;
        default: return with_sign<M, S, uint64_t>(i, f);
    }
}
template <class F>
void with_types(const Ins* i, F&& f) {
    if (i->aux[1] == 2 && i->aux[3] == 2) return with_length<uint32_t, uint32_t>(i, f);  // the usual ones first
    if (i->aux[1] == 3) return with_length<uint64_t, uint64_t>(i, f);
    if (i->aux[1] == 2) return with_register<uint32_t, int32_t>(i, f);
    if (i->aux[1] == 1) return with_register<uint16_t, int16_t>(i, f);
    return with_register<uint8_t, int8_t>(i, f);
}

// One instance of each for all spaces and modes.
void read_any(const Ins* i, Warp& w, const Access& access, const uint8_t* base) {
    with_types(i, [&](auto m, auto r, auto n) { read_lanes<decltype(m), decltype(r), n()>(i, w, access, base); });
}
void write_any(const Ins* i, Warp& w, const Access& access, uint8_t* base, bool packed) {
    with_types(i, [&](auto m, auto r, auto n) {
        write_lanes<decltype(m), decltype(r), n()>(i, w, access, base, packed);
    });
}

template <bool Checked>
void load_from(const Ins* i, Warp& w, Access& access, Space space) {
    uint8_t* base = admit<Checked>(i, w, access, space);
    if (!access.lanes) return;
    if (Checked && is_watched(access, space)) watch_access(i, w, access, space, base, nullptr);
    read_any(i, w, access, base);
}
template <bool Checked>
void store_to(const Ins* i, Warp& w, Access& access, Space space) {
    uint8_t* base = admit<Checked>(i, w, access, space);
    if (!access.lanes) return;
    const bool watched = Checked && is_watched(access, space);
    alignas(64) uint8_t incoming[kLanes * kMaxVector * 8];
    write_any(i, w, access, watched ? incoming : base, watched);
    if (watched) watch_access(i, w, access, space, base, incoming);
}

template <Space S, bool Checked>
const Ins* load(const Ins* i, Warp& w) {
    Access access;
    access.lanes = w.exec;
    access.size = uint32_t(i->aux[4]) << i->aux[1];
    access.use = Use::kLoad;
    access.strong = i->aux[5];
    read_addresses(i, w, access);
    if (S == kGeneric) by_space(access, [&](Access& part, Space space) { load_from<Checked>(i, w, part, space); });
    else load_from<Checked>(i, w, access, S);
    return after_access(i, w);
}
template <Space S, bool Checked>
const Ins* store(const Ins* i, Warp& w) {
    Access access;
    access.lanes = w.exec;
    access.size = uint32_t(i->aux[4]) << i->aux[1];
    access.use = Use::kStore;
    access.strong = i->aux[5];
    read_addresses(i, w, access);
    if (S == kGeneric) by_space(access, [&](Access& part, Space space) { store_to<Checked>(i, w, part, space); });
    else store_to<Checked>(i, w, access, S);
    return after_access(i, w);
}

const Ins* prefetch(const Ins* i, Warp&) { return i + 1; }

#define EMU_ACCESS(name, function, space) {name, function<space, false>, function<space, true>}
const TableEntry kEntries[] = {
    EMU_ACCESS("ld.global", load, kGlobal), EMU_ACCESS("st.global", store, kGlobal),
    EMU_ACCESS("ld.shared", load, kShared), EMU_ACCESS("st.shared", store, kShared),
    EMU_ACCESS("ld.local", load, kLocal), EMU_ACCESS("st.local", store, kLocal),
    EMU_ACCESS("ld.generic", load, kGeneric), EMU_ACCESS("st.generic", store, kGeneric),
    EMU_ACCESS("ld.const", load, kConst), EMU_ACCESS("ld.param", load, kParam),
    {"prefetch", prefetch},
};

}  // namespace

Table memory_table() { return {kEntries, std::size(kEntries)}; }

}  // namespace emu
