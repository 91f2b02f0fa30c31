// ---- Splits of the keys, and how their parts become one. ------------------------------------------
// Stores a row, lines 16 to 18: O / l and LSE = scale m + ln(l), rounded once. A row that saw no key has l = 0;
// it gets zeros and -inf.
inline void store_row(const Group& group, int64_t row, const Vec* o, Compute m, Compute l) {
  const Compute inverse = l == 0 ? 0 : 1 / l;
  for (int64_t step = 0; step < kOSteps; ++step) {
    Vec x[kStepVecs];
    for (int vec = 0; vec < kStepVecs; ++vec) x[vec] = l == 0 ? Vec{} : o[step * kStepVecs + vec] * inverse;
    write_step<kHeadDimV>(x, step, group.out_row(row));
  }
  if (group.lse == nullptr) return;
  const double lse = l == 0 ? -kInfinity : group.scale * m + std::log(l);
  group.lse[row % group.heads * group.seqlen_q + row / group.heads] = static_cast<Compute>(lse);
}

thread_local Workspace parts_workspace;  // of the thread that makes the call

// The tasks of a call: for each (batch, key head), split and tile of rows. Which they are, and how many,
// depends on the sizes of the call alone.
struct Splits {
  int64_t tiles;       // of rows, in a group
  int64_t tile_rows;   // of a tile, at most
  int64_t per_tile;    // splits
  int64_t num_tasks, num_tiles;
  // What splits leave for the one that joins them, if there are several:
  Vec* o;              // (num_tiles, tile_rows, per_tile, kOVecs)
  Compute *m, *l;      // (num_tiles, tile_rows, padded)
  int64_t* done;       // (num_tiles,) splits that are finished
  int64_t padded;      // per_tile, rounded up to whole vectors

  explicit Splits(const AttentionArgs& args) {
    // lines 1 and 2: the packed rows in tiles, the keys in splits
    const int64_t num_rows = args.num_heads / args.num_heads_kv * args.seqlen_q;
    tiles = ceil_div(num_rows, kBr);
    tile_rows = min_of(num_rows, kBr);
    per_tile = args.seqlen_k > kSplitKeys ? ceil_div(args.seqlen_k, kSplitKeys) : 1;
    padded = ceil_div(per_tile, kLanes) * kLanes;
    num_tiles = args.batch * args.num_heads_kv * tiles;
    num_tasks = num_tiles * per_tile;
  }

  bool reserve_parts() {
    if (per_tile == 1) return true;
    const int64_t num_o = num_tiles * tile_rows * per_tile * kOVecs, num_m = num_tiles * tile_rows * padded;
    const size_t bytes = num_o * sizeof(Vec) + 2 * num_m * sizeof(Compute) + num_tiles * sizeof(int64_t);
    o = static_cast<Vec*>(parts_workspace.reserve(bytes));
    if (o == nullptr) return false;
    m = reinterpret_cast<Compute*>(o + num_o);
    l = m + num_m;
    done = reinterpret_cast<int64_t*>(l + num_m);
    for (int64_t i = 0; i < num_tiles; ++i) done[i] = 0;
    return true;
  }
};

// Line 12: what a split has found of a row.
inline void store_part(const Splits& splits, int64_t tile, int64_t row, int64_t split, const Vec* o,
                       Compute m, Compute l) {
  const int64_t index = tile * splits.tile_rows + row;
  splits.m[index * splits.padded + split] = m;
  splits.l[index * splits.padded + split] = l;
  Vec* const to = splits.o + (index * splits.per_tile + split) * kOVecs;
  for (int64_t i = 0; i < kOVecs; ++i) to[i] = o[i];
}

// Joins the parts of a row. With m, the largest m_s of all splits, each weighs w_s = exp(scale (m_s - m)), so
// that l = sum of w_s l_s and O = sum of w_s O_s. Always in the order of the splits, whoever does it.
inline void join_row(const Group& group, const Splits& splits, int64_t tile, int64_t row, int64_t num_splits,
                     int64_t group_row) {
  const int64_t index = tile * splits.tile_rows + row, padded = ceil_div(num_splits, kLanes) * kLanes;
  Compute* const m = splits.m + index * splits.padded;
  Compute* const l = splits.l + index * splits.padded;
  for (int64_t split = num_splits; split < padded; ++split) m[split] = -kInfinity, l[split] = 0;

  // line 14: m, in all lanes
  Vec largest = splat(-kInfinity), sum = {};
  for (int64_t split = 0; split < padded; split += kLanes)
    largest = max_of(*reinterpret_cast<const Vec*>(m + split), largest);
  largest = largest_of_rows<1>(largest);
  const Vec reference = largest == -kInfinity ? Vec{} : largest;
  // lines 14 and 15: w_s in the place of m_s, and l
  for (int64_t split = 0; split < padded; split += kLanes) {
    Vec& weights = *reinterpret_cast<Vec*>(m + split);
    weights = exp2_of((weights - reference) * group.log2_scale);
    sum += weights * *reinterpret_cast<const Vec*>(l + split);
  }
  // line 16: O, to be divided by l
  Vec o[kOVecs] = {};
  const Vec* part = splits.o + index * splits.per_tile * kOVecs;
  for (int64_t split = 0; split < num_splits; ++split, part += kOVecs)
    for (int64_t i = 0; i < kOVecs; ++i) o[i] += m[split] * part[i];
  store_row(group, group_row, o, largest[0], sum_of(sum));
}
