// ---- Blocks of K and V are read where they lie. ---------------------------------------------------
constexpr size_t kBlockBytes = kBc * (kHeadDim + kHeadDimV) * sizeof(Compute);

struct KvScratch {
  KvScratch(const AttentionArgs&, const Tasks&) {}

  static constexpr size_t bytes = 0;
};

// Line 7: load K_j, V_j.
inline KvBlock read_block(const KvScratch&, const Head& head, int64_t key0, int64_t num_keys, void*) {
  const int64_t k_stride = head.k_stride, v_stride = head.v_stride;
  return {head.k + key0 * k_stride, head.v + key0 * v_stride, k_stride, v_stride, num_keys};
}
