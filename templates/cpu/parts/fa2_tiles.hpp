// ---- On-chip memory of one thread. ----------------------------------------------------------------
// A tile of kBr queries is made of groups. Everything is transposed: a row holds one value for each query
// of a group.
constexpr int64_t kScoreRows = ceil_div(kBc, kDepth) * kDepth;

struct QueryGroup {
  Vec q_t[kSteps][kGroupVecs];     // Q^T, in factors
  Vec o_t[kHeadDimV][kGroupVecs];  // O^T = V^T P^T, not yet divided by l
  Vec m[kGroupVecs];               // largest score so far
  Vec l[kGroupVecs];               // sum of weights so far
};

struct Tiles {
  QueryGroup groups[kBr / kGroupRows];
  Vec s_t[kScoreRows][kGroupVecs];  // S^T = K Q^T of the group at work, then P^T, in factors, in its place
};

// Lines 4 and 5, one vector of queries: load Q^T = q_factor Q^T; no key seen yet, so O = 0, l = 0, m = -inf.
// Lanes past the last row get zeros.
inline void load_queries(const Head& head, int64_t row0, int64_t num_rows, QueryGroup& group, int64_t vec) {
  const Element* q = head.q + row0 * head.q_stride;
  for (int64_t x = 0; x < kSteps; x += kLanes) {
    const int64_t start = step_start(x, kSteps);
    Vec rows[kLanes];
    UNROLLED for (int row = 0; row < kLanes; ++row)
      rows[row] = row < num_rows ? load_factors(q + row * head.q_stride, start) : Vec{};
    transpose(rows);
    UNROLLED for (int i = 0; i < min_of(kLanes, kSteps); ++i)
      group.q_t[start + i][vec] = times(rows[i], head.q_factor);
  }
  for (auto& o : group.o_t) o[vec] = Vec{};
  group.m[vec] = splat(-kInfinity);
  group.l[vec] = Vec{};
}

// Lines 12 to 15, one vector of queries: store O = (O^T)^T / l and LSE = scale m + ln(l), rounded once. A
// query that saw no key has l = 0; it gets zeros and -inf.
inline void store_queries(const Head& head, int64_t row0, int64_t num_rows, const QueryGroup& group,
                          int64_t vec) {
  const Vec m = group.m[vec], l = group.l[vec], inverse = 1 / l;
  Element* out = head.out + row0 * head.out_stride;
  for (int64_t x = 0; x < kHeadDimV; x += kLanes) {
    const int64_t start = step_start(x, kHeadDimV);
    Vec rows[kLanes] = {};
    UNROLLED for (int i = 0; i < min_of(kLanes, kHeadDimV); ++i)
      rows[i] = l == 0 ? Vec{} : group.o_t[start + i][vec] * inverse;
    transpose(rows);
    UNROLLED for (int row = 0; row < kLanes; ++row)
      if (row < num_rows) store_elements<kHeadDimV>(rows[row], out + row * head.out_stride + start);
  }
  if (head.lse == nullptr) return;
  for (int64_t row = 0; row < num_rows; ++row) {
    const double lse = head.scale * m[row] + std::log(l[row]);
    head.lse[row0 + row] = l[row] == 0 ? -kInfinity : static_cast<Compute>(lse);
  }
}
