// ---- Tasks: each is a tile of queries of one head. ------------------------------------------------
struct Tasks {
  int64_t rows;      // queries of a tile, at most kBr
  int64_t per_head;
  int64_t count;
};

// The larger the tile, the more queries share the reading of K and V. But threads end together only if each
// gets several tasks, so that tiles have fewer groups where there are many threads and few queries. What a
// query gets is the same, to the bit, in a tile of any size.
inline Tasks tasks_of(const AttentionArgs& args) {
  constexpr int64_t kPerThread = 16;
  const int64_t heads = args.batch * args.num_heads;
  const int64_t wanted = args.max_threads > 1 ? kPerThread * args.max_threads : 1;
  Tasks tasks = {};
  for (int64_t groups = kBr / kGroupRows; tasks.count < wanted && groups > 0; groups /= 2) {
    tasks.rows = groups * kGroupRows;
    tasks.per_head = ceil_div(args.seqlen_q, tasks.rows);
    tasks.count = heads * tasks.per_head;
  }
  return tasks;
}
