// ---- On-chip memory of one thread. ----------------------------------------------------------------
constexpr int64_t kRowBlocks = ceil_div(kBr, kMostRows);
constexpr int64_t kRowSlots = kRowBlocks * kMostRows;
constexpr int64_t kScoreVecs = ceil_div(kBc, kAccumulators) * kAccumulators / kLanes;  // of a row and a block

// The rows of a tile are met in blocks of kMostRows, and of 2 or 1 at the end. A block of kRows keeps its
// scores in vectors that hold kLanes / kRows keys for each of its rows: those of the first row, then of the
// second, ...
template <int kRows>
constexpr int64_t kVecKeys = kLanes / kRows;

struct Tiles {
  Vec q[kRowSlots][kQVecs];        // Q, times q_factor
  Vec o[kRowSlots][kOVecs];        // O = P V, not yet divided by l
  Vec m[kRowBlocks];               // largest score so far, of each row, in all its lanes
  Vec l[kRowSlots];                // sums of weights so far, of each block in as many vectors as it has rows
  Vec s[kRowSlots][kScoreVecs];    // S = Q K^T, then P in its place
};

template <int kCount>
struct Count {
  static constexpr int kValue = kCount;
};

// Calls meet(Count<rows of the block>, first row) for each block of a tile. Three rows make a block of four,
// the last of which is empty.
template <typename Meet>
inline void for_each_block(int64_t num_rows, const Meet& meet) {
  int64_t row = 0;
  for (; num_rows - row > kMostRows / 2; row += kMostRows) meet(Count<kMostRows>{}, row);
  if constexpr (kMostRows == 4)
    if (num_rows - row == 2) return meet(Count<2>{}, row);
  if (row < num_rows) meet(Count<1>{}, row);
}

// Lines 4 and 5: Q = q_factor Q; no key seen yet, so O = 0, l = 0, m = -inf. Empty rows are zeros.
inline void load_queries(const Group& group, int64_t row0, int64_t num_rows, Tiles& tile) {
  for_each_block(num_rows, [&](auto rows, int64_t first) {
    tile.m[first / kMostRows] = splat(-kInfinity);
    for (int64_t row = first; row < first + rows.kValue; ++row) {
      tile.l[row] = Vec{};
      for (Vec& o : tile.o[row]) o = Vec{};
      for (Vec& q : tile.q[row]) q = Vec{};
      if (row >= num_rows) continue;
      const Element* const q = group.q_row(row0 + row);
      for (int64_t step = 0; step < kQSteps; ++step) {
        Vec x[kStepVecs];
        read_new<kHeadDim>(q, step, x);
        for (int vec = 0; vec < kStepVecs; ++vec)
          tile.q[row][step * kStepVecs + vec] = group.q_factor * x[vec];
      }
    }
  });
}
