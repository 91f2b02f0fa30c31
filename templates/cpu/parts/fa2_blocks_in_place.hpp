// A block is read where it lies.
constexpr size_t kScratchBytes = 0;

// Line 7: load K_j, V_j.
inline KvBlock read_block(const Head& head, int64_t key0, int64_t num_keys, Compute*) {
  const int64_t k_stride = head.k_stride, v_stride = head.v_stride;
  return {head.k + key0 * k_stride, head.v + key0 * v_stride, k_stride, v_stride, num_keys};
}
