// Line 4: load Q_i. Rows past the last are zeros.
__device__ __forceinline__ void load_queries(Tiles& tile, const Head& head, int64 row0, bool vectors) {
  const Element* first = Share<kBr, kChunks>::first(head.q + row0 * head.q_row, head.q_row);
  if (vectors) {
    Incoming<kBr, kChunks> incoming;
    start_copy<false>(incoming, tile.q, first, head.q_row, rows_left(head.seqlen_q - row0));
    finish_copy(incoming, tile.q);
  } else {
    copy_elements<kHeadDim>(tile.q, first, head.q_row, rows_left(head.seqlen_q - row0));
  }
  if (head.sign < 0) flip_signs(tile.q);
}
