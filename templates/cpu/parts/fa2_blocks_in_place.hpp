// A block is read where it lies.
constexpr size_t kScratchBytes = 0;

// Line 7: load K_j, V_j.
inline KvBlock read_block(const Head& head, int64_t key0, int64_t num_keys, Compute*) {
  const int64_t k_stride = head.k_stride, v_stride = head.v_stride;
  return {head.k + key0 * k_stride, head.v + key0 * v_stride, k_stride, v_stride, num_keys};
}

// Asks for keys before they are needed. Rows far apart, as where heads lie side by side, are more than the
// hardware foresees. (The same for V was measured to do harm.)
inline void fetch_keys(const KvBlock& block, int64_t first, int64_t count) {
  constexpr int64_t kLine = 64 / sizeof(Compute);
  for (int64_t key = first; key < first + count; ++key)
    for (int64_t x = 0; x < kHeadDim; x += kLine) __builtin_prefetch(block.k + key * block.k_stride + x);
}
