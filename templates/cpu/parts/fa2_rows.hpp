// ---- Rows of tensors, kLanes elements at a time. --------------------------------------------------
constexpr int64_t min_of(int64_t a, int64_t b) { return a < b ? a : b; }
constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Where a step of kLanes elements starts in a row of `size`. The last one starts early, so that it ends
// with the row; it meets some elements again.
constexpr int64_t step_start(int64_t x, int64_t size) { return size < kLanes ? 0 : min_of(x, size - kLanes); }

// kLanes elements of a row of kSize; the whole row, then zeros, if it is shorter.
template <int64_t kSize>
inline Vec load_elements(const Element* from) {
  if constexpr (kSize >= kLanes) return widen(from);
  Vec x = {};
  for (int64_t i = 0; i < kSize; ++i) x[i] = to_compute(from[i]);
  return x;
}

template <int64_t kSize>
inline void store_elements(const Vec& x, Element* to) {
  if constexpr (kSize >= kLanes) return narrow(x, to);
  for (int64_t i = 0; i < kSize; ++i) to[i] = to_element(x[i]);
}
