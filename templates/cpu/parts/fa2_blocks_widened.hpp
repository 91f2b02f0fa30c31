// A block is widened to fp32, once for all groups of a tile.
constexpr size_t kScratchBytes = kBc * (kHeadDim + kHeadDimV) * sizeof(Compute);

template <int64_t kSize>
inline void widen_rows(const Element* from, int64_t stride, int64_t num_rows, Compute* to) {
  for (int64_t row = 0; row < num_rows; ++row, from += stride, to += kSize)
    for (int64_t x = 0; x < kSize; x += kLanes) {
      const int64_t start = step_start(x, kSize);
      const Vec wide = load_elements<kSize>(from + start);
      __builtin_memcpy(to + start, &wide, min_of(kSize, kLanes) * sizeof(Compute));
    }
}

// Line 7: load K_j, V_j.
inline KvBlock read_block(const Head& head, int64_t key0, int64_t num_keys, Compute* scratch) {
  Compute* const k = scratch;                   // (kBc, kHeadDim)
  Compute* const v = scratch + kBc * kHeadDim;  // (kBc, kHeadDimV)
  widen_rows<kHeadDim>(head.k + key0 * head.k_stride, head.k_stride, num_keys, k);
  widen_rows<kHeadDimV>(head.v + key0 * head.v_stride, head.v_stride, num_keys, v);
  return {k, v, kHeadDim, kHeadDimV, num_keys};
}

// Widened a moment ago, the keys are in the cache.
inline void fetch_keys(const KvBlock&, int64_t, int64_t) {}
