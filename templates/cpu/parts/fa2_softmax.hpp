// ---- Online softmax: every lane minds its own query, so there is nothing to reduce across lanes. ---
// Line 9: P^T = exp(scale (S^T - m)) in the place of S^T; m and l follow, and alpha is what the past
// now weighs.
// A query that has seen no key has m = -inf; for it alone 0 is subtracted, so that (-inf) - (-inf) does
// not happen. Subtracting before scaling keeps huge scores right: near the maximum, s - m is exact.
template <int kVecs>
[[gnu::noinline]] void softmax_block(int64_t num_keys, Compute log2_scale, const Vec* m_block, Vec* s_t,
                                     Vec* m, Vec* l, Vec* alpha) {
  Vec reference[kVecs];
  UNROLLED for (int vec = 0; vec < kVecs; ++vec) {
    const Vec m_new = max_of(m_block[vec], m[vec]);
    reference[vec] = m_new == -kInfinity ? Vec{} : m_new;
    alpha[vec] = exp2_of((m[vec] - reference[vec]) * log2_scale);
    l[vec] *= alpha[vec];
    m[vec] = m_new;
  }
  // A few keys at a time are summed on their own: one large weight would swallow many small ones.
  constexpr int64_t kSumKeys = 16;
  for (int64_t j = 0; j < num_keys; j += kSumKeys) {
    const int64_t end = min_of(j + kSumKeys, num_keys);
    Vec sum[kVecs] = {};
    for (int64_t key = j; key < end; ++key, s_t += kGroupVecs)
      UNROLLED for (int vec = 0; vec < kVecs; ++vec) {
        s_t[vec] = exp2_of((s_t[vec] - reference[vec]) * log2_scale);
        sum[vec] += s_t[vec];
      }
    UNROLLED for (int vec = 0; vec < kVecs; ++vec) l[vec] += sum[vec];
  }
}

struct NothingMasked {
  void operator()(Vec*, Vec*) const {}
};

// kVecs vectors of a group, from vec0 on, meet a block of keys. `mask` may hide keys from queries.
template <int kVecs, typename Mask>
inline void attend_block(Tiles& tile, QueryGroup& group, int64_t vec0, const KvBlock& block,
                         Compute log2_scale, const Mask& mask) {
  Vec* const s_t = &tile.s_t[0][vec0];
  Vec m_block[kVecs], alpha[kVecs];
  for (Vec& m : m_block) m = splat(-kInfinity);
  score_block<kVecs>(block, &group.q_t[0][vec0], s_t, m_block);
  mask(s_t, m_block);
  softmax_block<kVecs>(block.num_keys, log2_scale, m_block, s_t, &group.m[vec0], &group.l[vec0], alpha);
  accumulate_block<kVecs>(block, s_t, alpha, &group.o_t[0][vec0]);
}

// A group meets keys that all its queries see. If it is not full its vectors go one by one.
inline void attend_visible(Tiles& tile, QueryGroup& group, int64_t num_vecs, const KvBlock& block,
                           Compute log2_scale) {
  constexpr NothingMasked mask;
  if (num_vecs == kGroupVecs) return attend_block<kGroupVecs>(tile, group, 0, block, log2_scale, mask);
  for (int64_t vec = 0; vec < num_vecs; ++vec) attend_block<1>(tile, group, vec, block, log2_scale, mask);
}
