// ---- Online softmax: every lane minds its own query, so there is nothing to reduce across lanes. ---
// Line 9: P^T = exp(scale (S^T - m)) in the place of S^T; m and l follow, and alpha is what the past
// now weighs.
// A query that has seen no key has m = -inf; for it alone 0 is subtracted, so that (-inf) - (-inf) does
// not happen. Subtracting before scaling keeps huge scores right: near the maximum, s - m is exact.
template <int kVecs>
inline void weigh(const Vec* s_t, const Vec* reference, Compute log2_scale, Vec* p_t, Vec* sum) {
  Vec p[kVecs * kDepth];
  UNROLLED for (int vec = 0; vec < kVecs; ++vec)
    UNROLLED for (int key = 0; key < kDepth; ++key)
      p[vec * kDepth + key] = (s_t[key * kGroupVecs + vec] - reference[vec]) * log2_scale;
  exp2_of(p);
  UNROLLED for (int vec = 0; vec < kVecs; ++vec) {
    UNROLLED for (int key = 0; key < kDepth; ++key) sum[vec] += p[vec * kDepth + key];
    p_t[vec] = pack(p[vec * kDepth], p[vec * kDepth + kDepth - 1]);
  }
}

template <int kVecs>
[[gnu::noinline]] void softmax_block(int64_t num_keys, Compute log2_scale, const Vec* m_block, Vec* s_t,
                                     Vec* m, Vec* l, Vec (&alpha)[kVecs]) {
  Vec reference[kVecs];
  UNROLLED for (int vec = 0; vec < kVecs; ++vec) {
    const Vec m_new = max_of(m_block[vec], m[vec]);
    reference[vec] = m_new == -kInfinity ? Vec{} : m_new;
    alpha[vec] = (m[vec] - reference[vec]) * log2_scale;
    m[vec] = m_new;
  }
  exp2_of(alpha);
  UNROLLED for (int vec = 0; vec < kVecs; ++vec) l[vec] *= alpha[vec];
  // Where two keys share a factor, the last of an odd number gets a partner that weighs nothing.
  if (num_keys % kDepth != 0)
    UNROLLED for (int vec = 0; vec < kVecs; ++vec) s_t[num_keys * kGroupVecs + vec] = splat(-kInfinity);
  constexpr int kTogether = kDepth > 1 && kVecs == 4 ? 2 : kVecs;
  Vec* p_t = s_t;
  // A few keys at a time are summed on their own: one large weight would swallow many small ones.
  constexpr int64_t kSumKeys = 16;
  for (int64_t j = 0; j < num_keys; j += kSumKeys) {
    const int64_t end = min_of(j + kSumKeys, num_keys);
    Vec sum[kVecs] = {};
    for (int64_t key = j; key < end; key += kDepth, s_t += kDepth * kGroupVecs, p_t += kGroupVecs)
      UNROLLED for (int vec = 0; vec < kVecs; vec += kTogether)
        weigh<kTogether>(s_t + vec, reference + vec, log2_scale, p_t + vec, sum + vec);
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
