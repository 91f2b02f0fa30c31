// ---- Blocks of K and V are widened to fp32, once for all groups of a tile. ------------------------
constexpr size_t kBlockBytes = kBc * (kHeadDim + kHeadDimV) * sizeof(Compute);

struct KvScratch {
  KvScratch(const AttentionArgs&, const Tasks&) {}

  static constexpr size_t bytes = kBlockBytes;  // what a thread needs
};

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
inline KvBlock read_block(const KvScratch&, const Head& head, int64_t key0, int64_t num_keys, void* memory) {
  Compute* const k = static_cast<Compute*>(memory);  // (kBc, kHeadDim)
  Compute* const v = k + kBc * kHeadDim;             // (kBc, kHeadDimV)
  widen_rows<kHeadDim>(head.k + key0 * head.k_stride, head.k_stride, num_keys, k);
  widen_rows<kHeadDimV>(head.v + key0 * head.v_stride, head.v_stride, num_keys, v);
  return {k, v, kHeadDim, kHeadDimV, num_keys};
}
