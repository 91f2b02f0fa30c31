// ---- Scores: products of keys and query rows, summed over dims. -----------------------------------
// A key of a block by its number. Past the last there is the last again, so that nothing else is read.
struct Keys {
  const Element* first;
  int64_t stride, last;

  const Element* operator()(int64_t key) const { return first + min_of(key, last) * stride; }
};

// The same where no number is too large.
struct WholeKeys {
  const Element* first;
  int64_t stride;

  const Element* operator()(int64_t key) const { return first + key * stride; }
};

// Line 8: S = Q K^T for kRows rows and as many keys as make kAccumulators products.
template <int kRows, typename KeyAt>
[[gnu::noinline]] void score_keys(KeyAt key_at, const Vec (*q)[kQVecs], Vec* s) {
  constexpr int kKeys = kAccumulators / kRows;
  Vec acc[kKeys / kVecKeys<kRows>][kLanes] = {};  // in the order of a score vector's lanes
  for (int64_t step = 0; step < kQSteps; ++step)
    UNROLLED for (int key = 0; key < kKeys; ++key) {
      Vec k[kStepVecs];
      read_new<kHeadDim>(key_at(key), step, k);
      UNROLLED for (int row = 0; row < kRows; ++row)
        UNROLLED for (int vec = 0; vec < kStepVecs; ++vec)
          acc[key / kVecKeys<kRows>][row * kVecKeys<kRows> + key % kVecKeys<kRows>] +=
              k[vec] * q[row][step * kStepVecs + vec];
    }
  UNROLLED for (int i = 0; i < kKeys / kVecKeys<kRows>; ++i) s[i] = sums_of(acc[i]);
}

// Lines 7 and 8: S for a block of keys. Keys are read from memory once for all rows, a few at a time; the values
// of the same keys are asked for meanwhile, a few at a time too: the core waits once it has asked for more than
// it can note.
inline void score_block(const Group& group, int64_t key0, int64_t num_keys, int64_t num_rows, Tiles& tile) {
  RowsAhead<kHeadDimV> values{group.v + key0 * group.v_stride, group.v_stride, num_keys};
  for (int64_t j = 0; j < num_keys; j += kAccumulators) {
    for_each_block(num_rows, [&](auto rows, int64_t row) {
      constexpr int kRows = rows.kValue, kKeys = kAccumulators / kRows;
      for (int64_t key = j; key < min_of(j + kAccumulators, num_keys); key += kKeys) {
        if (row == 0) values.fetch(kKeys);
        const Element* const k = group.k + (key0 + key) * group.k_stride;
        Vec* const s = tile.s[row] + key / kVecKeys<kRows>;
        const int64_t last = num_keys - key - 1;
        if (last >= kKeys - 1) score_keys<kRows>(WholeKeys{k, group.k_stride}, &tile.q[row], s);
        else score_keys<kRows>(Keys{k, group.k_stride, last}, &tile.q[row], s);
      }
    });
  }
}
