// ---- One task: one split of the keys, for one tile of query rows. ---------------------------------
// The rows of a tile meet the keys from key0 up to `end`.
inline void attend_keys(const Group& group, int64_t row0, int64_t num_rows, int64_t key0, int64_t end,
                        Tiles& tile) {
  KeysAhead first{group.k + key0 * group.k_stride, group.k_stride, end - key0};
  first.fetch(kBc);
  for (; key0 < end; key0 += kBc) {                    // line 6: for j
    const int64_t num_keys = min_of(kBc, end - key0);  // line 7: K and V are read where they lie
    const int64_t next = key0 + num_keys;
    KeysAhead ahead{group.k + next * group.k_stride, group.k_stride, min_of(kBc, end - next)};
    score_block(group, key0, num_keys, num_rows, tile);
    for_each_block(num_rows, [&](auto rows, int64_t row) {
      constexpr int kRows = rows.kValue;
      const int64_t block = row / kMostRows;
      const Vec alpha = softmax_block<kRows>(group, row0 + row, num_rows - row, key0, num_keys, tile.s[row],
                                             tile.m[block], &tile.l[row]);
      accumulate_block<kRows>(group.v + key0 * group.v_stride, group.v_stride, num_keys, tile.s[row], alpha,
                              &tile.o[row], ahead);
    });
  }  // line 11
}

int64_t attend_split(const AttentionArgs& args, const Splits& splits, int64_t task) {
  // line 3: for i and s, a tile of rows and a split
  const int64_t nth_tile = task % splits.tiles, split = task / splits.tiles % splits.per_tile;
  const int64_t index = task / splits.tiles / splits.per_tile, tile_index = index * splits.tiles + nth_tile;
  const Group group = group_of(args, index);
  const int64_t row0 = nth_tile * kBr, num_rows = min_of(kBr, group.heads * group.seqlen_q - row0);
  const int64_t num_visible = group.num_visible(row0 + num_rows - 1);
  const int64_t num_parts = ceil_div(num_visible, kSplitKeys);  // splits that have keys for this tile
  const bool is_whole = num_parts <= 1;                         // the only part is the result
  if (is_whole && split > 0) return kOk;

  if (is_whole || split < num_parts) {
    Tiles* const tile = static_cast<Tiles*>(workspace.reserve(sizeof(Tiles)));
    if (tile == nullptr) return kOutOfMemory;
    load_queries(group, row0, num_rows, *tile);
    const int64_t key0 = split * kSplitKeys;
    attend_keys(group, row0, num_rows, key0, min_of(key0 + kSplitKeys, num_visible), *tile);
    for_each_row(*tile, num_rows, [&](int64_t row, const Vec* o, Compute m, Compute l) {
      if (is_whole) store_row(group, row0 + row, o, m, l);
      else store_part(splits, tile_index, row, split, o, m, l);
    });
  }
  if (is_whole) return kOk;
  // line 13: whoever ends last joins the parts
  if (__atomic_add_fetch(&splits.done[tile_index], 1, __ATOMIC_ACQ_REL) < splits.per_tile) return kOk;
  for (int64_t row = 0; row < num_rows; ++row)
    join_row(group, splits, tile_index, row, num_parts, row0 + row);
  return kOk;
}
