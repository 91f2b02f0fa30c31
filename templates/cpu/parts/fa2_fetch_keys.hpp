// Asks for keys before they are needed. Rows far apart, as where heads lie side by side, are more than the
// hardware foresees. (The same for V was measured to do harm.)
inline void fetch_keys(const KvBlock& block, int64_t first, int64_t count) {
  constexpr int64_t kLine = 64 / sizeof(KeyElement);
  for (int64_t key = first; key < first + count; ++key)
    for (int64_t x = 0; x < kHeadDim; x += kLine) __builtin_prefetch(block.k + key * block.k_stride + x);
}
