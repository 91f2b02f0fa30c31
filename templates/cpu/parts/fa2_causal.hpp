// ---- The causal diagonal. -------------------------------------------------------------------------
// Hides from each lane all but its first `seen` keys, and finds the maximum of what is left.
struct CausalMask {
  IntVec seen;
  int64_t num_keys;

  void operator()(Vec* s_t, Vec* m_block) const {
    Vec m = splat(-kInfinity);
    for (int64_t j = 0; j < num_keys; ++j, s_t += kGroupVecs) {
      *s_t = seen > static_cast<IntLane>(j) ? *s_t : splat(-kInfinity);
      m = max_of(*s_t, m);
    }
    *m_block = m;
  }
};

// A group whose first query is row0 meets the block that starts at key0. Keys that all its queries see come
// first. The rest, around the diagonal, goes vector by vector, each with the keys that at least one of its
// queries sees; it starts at a multiple of kLanes keys, which keeps the steps before it whole.
inline void attend_group(Tiles& tile, QueryGroup& group, const Head& head, int64_t row0, int64_t num_rows,
                         const KvBlock& block, int64_t key0) {
  const auto seen_by = [&](int64_t row) {
    const int64_t seen = min_of(visible_keys(row, head.seqlen_q, head.num_valid) - key0, block.num_keys);
    return seen > 0 ? seen : 0;
  };
  const int64_t num_vecs = ceil_div(num_rows, kLanes);
  int64_t common = seen_by(row0);
  if (common < block.num_keys) common -= common % kLanes;
  if (common > 0) attend_visible(tile, group, num_vecs, block.keys(0, common), head.log2_scale);

  for (int64_t vec = 0; vec < num_vecs; ++vec) {
    const int64_t first = row0 + vec * kLanes, last = min_of(first + kLanes, row0 + num_rows) - 1;
    const int64_t num_keys = seen_by(last) - common;
    if (num_keys <= 0) continue;
    IntVec seen = {};
    for (int lane = 0; lane < kLanes; ++lane)
      seen[lane] = static_cast<IntLane>(seen_by(first + lane) - common);
    const CausalMask mask{seen, num_keys};
    attend_block<1>(tile, group, vec, block.keys(common, num_keys), head.log2_scale, mask);
  }
}
