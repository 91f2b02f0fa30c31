// ---- Vectors of queries: one lane is one query row. -----------------------------------------------
using Vec [[gnu::vector_size(kLanes * sizeof(Compute))]] = Compute;
using IntVec [[gnu::vector_size(kLanes * sizeof(Compute))]] = IntLane;

// Before a loop whose counter indexes registers: only unrolled can they be registers.
#define UNROLLED _Pragma("GCC unroll 32")

inline Vec splat(Compute x) { return x - Vec{}; }

// The larger of the two, lane by lane; `otherwise` where x is a NaN.
inline Vec max_of(Vec x, Vec otherwise) { return x > otherwise ? x : otherwise; }

// Trades the lanes of `a` that have the bit kStep in their number for those of `b` that have not.
template <int kStep, int... kLane>
inline void trade_lanes(Vec& a, Vec& b, std::integer_sequence<int, kLane...>) {
  const Vec a_old = a;
  a = __builtin_shufflevector(a_old, b, (kLane & kStep ? kLane - kStep + kLanes : kLane)...);
  b = __builtin_shufflevector(a_old, b, (kLane & kStep ? kLane + kLanes : kLane + kStep)...);
}

// Transposes kLanes x kLanes values in registers, in one stage for each bit of a lane number.
template <int kStep = 1>
inline void transpose(Vec (&rows)[kLanes]) {
  UNROLLED for (int i = 0; i < kLanes; ++i)
    if ((i & kStep) == 0)
      trade_lanes<kStep>(rows[i], rows[i + kStep], std::make_integer_sequence<int, kLanes>{});
  if constexpr (2 * kStep < kLanes) transpose<2 * kStep>(rows);
}
