// ---- Blocks of K and V are read where they lie, unless their rows lie in each other's way. --------
constexpr size_t kBlockBytes = kBc * (kHeadDim + kHeadDimV) * sizeof(Compute);

struct KvScratch {
  bool copies_k, copies_v;
  size_t bytes;  // what a thread needs

  // Rows whole pages apart share a few sets of the L1 cache and drive each other out. Copying them side by
  // side pays once several groups of queries read the copy.
  KvScratch(const AttentionArgs& args, const Tasks& tasks) {
    constexpr int64_t kPage = 4096 / sizeof(Element);
    const bool pays = min_of(tasks.rows, args.seqlen_q) > kGroupRows;
    copies_k = pays && args.k_stride[2] % kPage == 0;
    copies_v = pays && args.v_stride[2] % kPage == 0;
    bytes = copies_k || copies_v ? kBlockBytes : 0;
  }
};

template <int64_t kSize>
inline const Element* copy_rows(const Element* from, int64_t stride, int64_t num_rows, Element* to) {
  for (int64_t row = 0; row < num_rows; ++row)
    __builtin_memcpy(to + row * kSize, from + row * stride, kSize * sizeof(Element));
  return to;
}

// Line 7: load K_j, V_j.
inline KvBlock read_block(const KvScratch& scratch, const Head& head, int64_t key0, int64_t num_keys, void* memory) {
  KvBlock block = {head.k + key0 * head.k_stride, head.v + key0 * head.v_stride, head.k_stride, head.v_stride,
                   num_keys};
  Element* const k = static_cast<Element*>(memory);  // (kBc, kHeadDim)
  Element* const v = k + kBc * kHeadDim;             // (kBc, kHeadDimV)
  if (scratch.copies_k) block.k = copy_rows<kHeadDim>(block.k, head.k_stride, num_keys, k);
  if (scratch.copies_v) block.v = copy_rows<kHeadDimV>(block.v, head.v_stride, num_keys, v);
  if (scratch.copies_k) block.k_stride = kHeadDim;
  if (scratch.copies_v) block.v_stride = kHeadDimV;
  return block;
}
