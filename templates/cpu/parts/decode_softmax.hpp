// ---- Online softmax. ------------------------------------------------------------------------------
// The largest lane of each row, in all lanes of the row.
template <int kRows, int kStep = 1>
inline Vec largest_of_rows(Vec x) {
  if constexpr (kStep >= kVecKeys<kRows>) return x;
  else {
    x = max_of(exchange<kStep>(x, std::make_integer_sequence<int, kLanes>{}), x);
    return largest_of_rows<kRows, 2 * kStep>(x);
  }
}

// -inf for keys that a row does not see, and for those past the last. `seen`: how many of the block a lane's
// row sees; `common`: how many all of them see.
template <int kRows>
inline void hide_unseen(const IntVec& seen, int64_t common, int64_t num_vecs, Vec* s) {
  IntVec key;
  UNROLLED for (int lane = 0; lane < kLanes; ++lane) key[lane] = lane % kVecKeys<kRows>;
  for (int64_t i = common / kVecKeys<kRows>; i < num_vecs; ++i)
    s[i] = key + static_cast<IntLane>(i * kVecKeys<kRows>) < seen ? s[i] : splat(-kInfinity);
}

// Line 9: P = exp(scale (S - m)) in the place of S; m and l follow. Returns alpha, what the past now weighs.
// A row that has seen no key has m = -inf; for it alone 0 is subtracted, so that (-inf) - (-inf) does not
// happen. Subtracting before scaling keeps huge scores right: near the maximum, s - m is exact.
// Weights that are kLanes keys apart are summed together, in as many vectors as there are rows, so that a row
// gets the same bits in a block of any size.
template <int kRows>
inline Vec weigh(Compute log2_scale, int64_t num_vecs, Vec* s, Vec& m, Vec* l) {
  Vec m_new = m;
  for (int64_t i = 0; i < num_vecs; ++i) m_new = max_of(s[i], m_new);
  m_new = largest_of_rows<kRows>(m_new);
  const Vec reference = m_new == -kInfinity ? Vec{} : m_new;
  const Vec alpha = exp2_of((m - reference) * log2_scale);
  Vec sum[kRows] = {};
  for (int64_t i = 0; i < num_vecs; i += kRows)
    UNROLLED for (int n = 0; n < kRows; ++n)
      if (i + n < num_vecs) {
        s[i + n] = exp2_of((s[i + n] - reference) * log2_scale);
        sum[n] += s[i + n];
      }
  UNROLLED for (int n = 0; n < kRows; ++n) l[n] = l[n] * alpha + sum[n];
  m = m_new;
  return alpha;
}

// A block of rows, the first of which is row0 of the group, gets the weights of a block of keys.
template <int kRows>
[[gnu::noinline]] Vec softmax_block(const Group& group, int64_t row0, int64_t num_rows, int64_t key0,
                                    int64_t num_keys, Vec* s, Vec& m, Vec* l) {
  IntVec seen;
  int64_t common = num_keys;
  for (int row = 0; row < kRows; ++row) {
    const int64_t visible = group.num_visible(row0 + min_of(row, num_rows - 1)) - key0;
    const int64_t count = visible < 0 ? 0 : min_of(visible, num_keys);
    common = min_of(common, count);
    for (int64_t lane = row * kVecKeys<kRows>; lane < (row + 1) * kVecKeys<kRows>; ++lane)
      seen[lane] = static_cast<IntLane>(count);
  }
  const int64_t num_vecs = ceil_div(num_keys, kVecKeys<kRows>);
  hide_unseen<kRows>(seen, common, num_vecs, s);
  return weigh<kRows>(group.log2_scale, num_vecs, s, m, l);
}

// Calls done(row, o, m, l) for each row of a tile that has met its keys.
template <typename Done>
inline void for_each_row(const Tiles& tile, int64_t num_rows, const Done& done) {
  for_each_block(num_rows, [&](auto rows, int64_t first) {
    constexpr int kRows = rows.kValue;
    const Vec m = tile.m[first / kMostRows];
    for (int64_t row = first; row < min_of(first + kRows, num_rows); ++row) {
      const int64_t lane = (row - first) * kVecKeys<kRows>;
      Compute sum = 0;
      for (int64_t key = 0; key < kLanes; ++key)
        sum += tile.l[first + key / kVecKeys<kRows>][lane + key % kVecKeys<kRows>];
      done(row, tile.o[row], m[lane], sum);
    }
  });
}
