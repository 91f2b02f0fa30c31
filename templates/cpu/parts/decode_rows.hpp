// ---- Rows of tensors, a step at a time. -----------------------------------------------------------
constexpr int64_t min_of(int64_t a, int64_t b) { return a < b ? a : b; }
constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

constexpr int64_t kStep = kStepVecs * kLanes;               // elements of a step
constexpr int64_t kQSteps = ceil_div(kHeadDim, kStep);      // of a row of Q or K
constexpr int64_t kOSteps = ceil_div(kHeadDimV, kStep);     // of a row of V or O
constexpr int64_t kQVecs = kQSteps * kStepVecs, kOVecs = kOSteps * kStepVecs;

// Where a step starts in a row. The last one starts early, so that it ends with the row; it meets some
// elements again.
template <int64_t kSize>
constexpr int64_t step_start(int64_t step) {
  return kSize < kStep ? 0 : min_of(step * kStep, kSize - kStep);
}

// The elements of a step, in a row of kSize; the whole row, then zeros, if it is shorter than a step.
template <int64_t kSize>
inline void read_step(const Element* row, int64_t step, Vec (&x)[kStepVecs]) {
  if constexpr (kSize >= kStep) return load_step(row + step_start<kSize>(step), x);
  Element padded[kStep] = {};
  __builtin_memcpy(padded, row, min_of(kSize, kStep) * sizeof(Element));
  load_step(padded, x);
}

// As read_step, for sums over a row: zeros stand for what an earlier step has met.
template <int64_t kSize>
inline void read_new(const Element* row, int64_t step, Vec (&x)[kStepVecs]) {
  read_step<kSize>(row, step, x);
  constexpr int64_t kNumMet = kSize > kStep && kSize % kStep != 0 ? kStep - kSize % kStep : 0;
  if (kNumMet == 0 || step < kSize / kStep) return;
  UNROLLED for (int vec = 0; vec < kStepVecs; ++vec) {
    IntVec is_new;
    UNROLLED for (int lane = 0; lane < kLanes; ++lane) is_new[lane] = lane * kStepVecs + vec >= kNumMet;
    x[vec] = is_new ? x[vec] : Vec{};
  }
}

template <int64_t kSize>
inline void write_step(const Vec (&x)[kStepVecs], int64_t step, Element* row) {
  if constexpr (kSize >= kStep) return store_step(x, row + step_start<kSize>(step));
  Element padded[kStep];
  store_step(x, padded);
  __builtin_memcpy(row, padded, min_of(kSize, kStep) * sizeof(Element));
}

// Rows of kSize that will be read soon. The hardware does not foresee the change from K to V and back.
template <int64_t kSize>
struct RowsAhead {
  const Element* row;
  int64_t stride, count;

  // Asks memory for the next few of them.
  void fetch(int64_t few) {
    constexpr int64_t kLine = 64 / sizeof(Element);
    for (; few > 0 && count > 0; --few, --count, row += stride)
      UNROLLED for (int64_t x = 0; x < kSize; x += kLine) __builtin_prefetch(row + x);
  }
};
