// ---- Values: rows of V, weighed and summed over keys. ---------------------------------------------
using KeysAhead = RowsAhead<kHeadDim>;

// Steps of dims that there are registers for, with kRows rows, and how often V must be met for all dims.
template <int kRows>
constexpr int64_t kMostSteps = kAccumulators / kRows / kStepVecs;
template <int kRows>
constexpr int64_t kTurns = ceil_div(kOSteps, kMostSteps<kRows>);

// Line 10: O = diag(alpha) O + P V for kRows rows and kSteps steps of dims, which start at step0. Keys that
// come next are asked for meanwhile, in each turn a part of them.
template <int kRows, int kSteps>
[[gnu::noinline]] void accumulate(const Element* v, int64_t v_stride, int64_t num_keys, const Vec* p,
                                  const Vec& alpha, int64_t step0, Vec (*o)[kOVecs], KeysAhead& ahead) {
  Vec acc[kRows][kSteps * kStepVecs] = {};
  const auto add_key = [&](const Compute* weights) {
    UNROLLED for (int step = 0; step < kSteps; ++step) {
      Vec x[kStepVecs];
      read_step<kHeadDimV>(v, step0 + step, x);
      UNROLLED for (int vec = 0; vec < kStepVecs; ++vec)
        UNROLLED for (int row = 0; row < kRows; ++row)
          acc[row][step * kStepVecs + vec] += weights[row * kVecKeys<kRows>] * x[vec];
    }
    v += v_stride;
  };
  for (int64_t j = 0; j < num_keys; j += kVecKeys<kRows>, ++p) {
    const Compute* const weights = reinterpret_cast<const Compute*>(p);
    const int64_t count = min_of(kVecKeys<kRows>, num_keys - j);
    for (int64_t key = 0; key < count; ++key) {
      if (key % kTurns<kRows> == 0) ahead.fetch(1);
      add_key(weights + key);
    }
  }
  UNROLLED for (int row = 0; row < kRows; ++row)
    UNROLLED for (int i = 0; i < kSteps * kStepVecs; ++i) {
      Vec& sum = o[row][step0 * kStepVecs + i];
      sum = sum * alpha[row * kVecKeys<kRows>] + acc[row][i];
    }
}

// O for a block of keys: all dims, as many at a time as there are registers for.
template <int kRows>
inline void accumulate_block(const Element* v, int64_t v_stride, int64_t num_keys, const Vec* p,
                             const Vec& alpha, Vec (*o)[kOVecs], KeysAhead& ahead) {
  constexpr int64_t kSteps = ceil_div(kOSteps, kTurns<kRows>);
  constexpr int64_t kRest = kOSteps % kSteps;
  int64_t step = 0;
  for (; step + kSteps <= kOSteps; step += kSteps)
    accumulate<kRows, kSteps>(v, v_stride, num_keys, p, alpha, step, o, ahead);
  if constexpr (kRest > 0) accumulate<kRows, kRest>(v, v_stride, num_keys, p, alpha, step, o, ahead);
}
