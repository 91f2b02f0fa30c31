// ---- One task: one tile of queries of one head. The lines are those of FlashAttention-2, Algorithm 1.
int64_t attend_tile(const AttentionArgs& args, const Tasks& tasks, const KvScratch& scratch, int64_t task) {
  // lines 1 to 3: for i, a tile of queries
  const Head head = head_of(args, task / tasks.per_head);
  // Under a causal mask the last tile has most to do; beginning with it lets the threads end together.
  const int64_t nth = task % tasks.per_head;
  const int64_t row0 = tasks.rows * (kCausal == Causal::kNone ? nth : tasks.per_head - 1 - nth);
  const int64_t end = min_of(row0 + tasks.rows, head.seqlen_q);

  Tiles* const tile = static_cast<Tiles*>(workspace.reserve(sizeof(Tiles) + scratch.bytes));
  if (tile == nullptr) return kOutOfMemory;
  const auto group_of = [&](int64_t row) -> QueryGroup& { return tile->groups[(row - row0) / kGroupRows]; };

  for (int64_t row = row0; row < end; row += kLanes)
    load_queries(head, row, min_of(kLanes, end - row), group_of(row), row % kGroupRows / kLanes);

  const int64_t num_visible = visible_keys(end - 1, head.seqlen_q, head.num_valid);
  for (int64_t key0 = 0; key0 < num_visible; key0 += kBc) {  // line 6: for j
    const KvBlock block = read_block(scratch, head, key0, min_of(kBc, num_visible - key0), tile + 1);
    for (int64_t row = row0; row < end; row += kGroupRows)
      attend_group(*tile, group_of(row), head, row, min_of(kGroupRows, end - row), block, key0);
  }  // line 11

  for (int64_t row = row0; row < end; row += kLanes)
    store_queries(head, row, min_of(kLanes, end - row), group_of(row), row % kGroupRows / kLanes);
  return kOk;  // line 16
}
