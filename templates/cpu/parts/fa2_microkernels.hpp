// ---- The two matrix products, on register tiles. --------------------------------------------------
// Both take a factor of K or V, broadcast it, and multiply it with vectors of queries. The accumulators
// are indexed by constants once the loops are unrolled and so live in registers. Not inlined: each gets
// the register file for itself, and compiles faster.

// Line 8: S^T = K Q^T for kKeys keys and kVecs vectors; m_block is the running maximum of each query.
// Rounding errors grow with the length of a sum, so long head dims are summed in stretches.
template <int kKeys, int kVecs>
[[gnu::noinline]] void score_keys(const KeyElement* k, int64_t k_stride, const Vec* q_t, Vec* s_t,
                                  Vec* m_block) {
  constexpr int64_t kStretch = 128 / kDepth;
  for (int64_t start = 0; start < kSteps; start += kStretch) {
    const int64_t end = min_of(start + kStretch, kSteps);
    Vec acc[kKeys][kVecs] = {};
    for (int64_t x = start; x < end; ++x)
      UNROLLED for (int key = 0; key < kKeys; ++key)
        UNROLLED for (int vec = 0; vec < kVecs; ++vec)
          acc[key][vec] =
              multiply_add(key_factor(k + key * k_stride, x), q_t[x * kGroupVecs + vec], acc[key][vec]);

    UNROLLED for (int vec = 0; vec < kVecs; ++vec) {
      Vec m = m_block[vec];
      UNROLLED for (int key = 0; key < kKeys; ++key) {
        Vec& s = s_t[key * kGroupVecs + vec];
        s = start == 0 ? acc[key][vec] : s + acc[key][vec];
        m = max_of(s, m);
      }
      if (end == kSteps) m_block[vec] = m;
    }
  }
}

// Line 10: O^T = O^T diag(alpha) + V^T P^T for kDims dims and kVecs vectors.
template <int kDims, int kVecs>
[[gnu::noinline]] void accumulate_dims(const Factor* v, int64_t v_stride, int64_t num_rows, const Vec* p_t,
                                       const Vec* alpha, Vec* o_t) {
  Vec acc[kDims][kVecs] = {};
  for (int64_t j = 0; j < num_rows; ++j)
    UNROLLED for (int dim = 0; dim < kDims; ++dim)
      UNROLLED for (int vec = 0; vec < kVecs; ++vec)
        acc[dim][vec] = multiply_add(v[j * v_stride + dim], p_t[j * kGroupVecs + vec], acc[dim][vec]);

  UNROLLED for (int dim = 0; dim < kDims; ++dim)
    UNROLLED for (int vec = 0; vec < kVecs; ++vec) {
      Vec& o = o_t[dim * kGroupVecs + vec];
      o = o * alpha[vec] + acc[dim][vec];
    }
}

template <int kCount>
struct Step {
  static constexpr int kSize = kCount;
};

// S^T for a block of keys, kKeys at a time. A last step that would be cut short starts early instead and
// finds some scores again, so that nothing past the last key is read.
template <int kVecs>
inline void score_block(const KvBlock& block, const Vec* q_t, Vec* s_t, Vec* m_block) {
  constexpr int kKeys = kVecs > 1 ? kWideKeys : kNarrowKeys;
  const int64_t stride = block.k_stride;
  const auto score = [&](auto step, int64_t j) {
    score_keys<step.kSize, kVecs>(block.k + j * stride, stride, q_t, s_t + j * kGroupVecs, m_block);
  };
  int64_t j = 0;
  for (; j + kKeys <= block.num_keys; j += kKeys) {
    if (j + 2 * kKeys <= block.num_keys) fetch_keys(block, j + kKeys, kKeys);
    score(Step<kKeys>{}, j);
  }
  if (j < block.num_keys && block.num_keys >= kKeys) return score(Step<kKeys>{}, block.num_keys - kKeys);
  for (; j < block.num_keys; ++j) score(Step<1>{}, j);
}

// O^T for a block of keys, kDims at a time.
template <int kVecs>
inline void accumulate_block(const KvBlock& block, const Vec* p_t, const Vec* alpha, Vec* o_t) {
  constexpr int kDims = kVecs > 1 ? kWideDims : kNarrowDims, kRest = kHeadDimV % kDims;
  const auto accumulate = [&](auto step, int64_t x) {
    accumulate_dims<step.kSize, kVecs>(block.v + x, block.v_stride, ceil_div(block.num_keys, kDepth), p_t,
                                       alpha, o_t + x * kGroupVecs);
  };
  for (int64_t x = 0; x + kDims <= kHeadDimV; x += kDims) accumulate(Step<kDims>{}, x);
  if constexpr (kRest > 0) accumulate(Step<kRest>{}, kHeadDimV - kRest);
}
