// Every query of a group sees every key of the block.
inline void attend_group(Tiles& tile, QueryGroup& group, const Head& head, int64_t, int64_t num_rows,
                         const KvBlock& block, int64_t) {
  attend_visible(tile, group, ceil_div(num_rows, kLanes), block, head.log2_scale);
}
