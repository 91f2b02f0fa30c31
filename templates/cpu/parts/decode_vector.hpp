// ---- Vectors of dims, or of scores. ---------------------------------------------------------------
using Vec [[gnu::vector_size(kLanes * sizeof(Compute))]] = Compute;
using IntVec [[gnu::vector_size(kLanes * sizeof(Compute))]] = IntLane;

// Before a loop whose counter indexes registers: only unrolled can they be registers.
#define UNROLLED _Pragma("GCC unroll 32")

inline Vec splat(Compute x) { return x - Vec{}; }

// The larger of the two, lane by lane; `otherwise` where x is a NaN.
inline Vec max_of(Vec x, Vec otherwise) { return x > otherwise ? x : otherwise; }

// The lanes of x, each in the place of that one whose number differs in the bits of kStep.
template <int kStep, int... kLane>
inline Vec exchange(Vec x, std::integer_sequence<int, kLane...>) {
  return __builtin_shufflevector(x, x, (kLane ^ kStep)...);
}

// Adds lanes whose numbers differ in the bit kStep: of `a` into those without the bit, of `b` with it.
template <int kStep, int... kLane>
inline Vec fold(Vec a, Vec b, std::integer_sequence<int, kLane...>) {
  const Vec without = __builtin_shufflevector(a, b, (kLane & kStep ? kLane - kStep + kLanes : kLane)...);
  const Vec with = __builtin_shufflevector(a, b, (kLane & kStep ? kLane + kLanes : kLane + kStep)...);
  return without + with;
}

// The sums over the lanes of kLanes vectors: that of x[i] is lane i of the result.
template <int kStep = kLanes / 2>
inline Vec sums_of(Vec* x) {
  UNROLLED for (int i = 0; i < kStep; ++i)
    x[i] = fold<kStep>(x[i], x[i + kStep], std::make_integer_sequence<int, kLanes>{});
  if constexpr (kStep > 1) return sums_of<kStep / 2>(x);
  return x[0];
}

inline Compute sum_of(const Vec& x) {
  Compute sum = 0;
  for (int lane = 0; lane < kLanes; ++lane) sum += x[lane];
  return sum;
}
