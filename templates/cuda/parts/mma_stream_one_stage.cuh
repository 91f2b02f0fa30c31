// ---- K and V stream through one block each: lines 7 to 10. -----------------------------------------
// While a warp works on K_j, V_j is on its way; on V_j, K_j-1.
struct Stream {
  Incoming<kBc, kChunks> incoming_k;
  Incoming<kBc, kChunksV> incoming_v;
  const Element *k, *v;  // this thread's first chunk of the block at work
};

// The first block that is met, which may end early.
__device__ __forceinline__ void start_stream(Tiles& tile, Stream& stream, const Head& head, int num_keys) {
  start_copy<false>(stream.incoming_k, tile.block[0].k, stream.k, head.k_row, num_keys);
}

// A block that all rows see whole, with nothing unusual to it. Returns how large the logits were, for the caller to
// look at.
__device__ __forceinline__ float meet_plain_block(Tiles& tile, Rows& rows, Stream& stream, const Queries& queries,
                                                  const LaneRows& lane, const Head& head, bool last) {
  KvBlock& block = tile.block[0];
  finish_copy(stream.incoming_k, block.k);
  __syncthreads();  // K_j is whole, and all warps are done with V_j+1
  start_copy<true>(stream.incoming_v, block.v, stream.v, head.v_row, kBc);
  Scores s;
  multiply_qk(s, queries, lane);

  finish_copy(stream.incoming_v, block.v);
  __syncthreads();  // V_j is whole, and all warps are done with K_j
  stream.k -= kBc * head.k_row, stream.v -= kBc * head.v_row;
  if (!last) start_copy<true>(stream.incoming_k, block.k, stream.k, head.k_row, kBc);
  const float c = head.scale * kLog2E;
  float m[kMTiles][2];
  update_max(m, rows, s);
  update_softmax<false>(rows, s, m, c);
  multiply_pv(rows.o, s, lane);
  return largest_reference(m, c);
}

// Any block: keys may end or be hidden, logits be large, rows be out of reach of 16-byte copies.
__device__ __forceinline__ void meet_any_block(Tiles& tile, Rows& rows, Stream& stream, const Queries& queries,
                                               const LaneRows& lane, const Head& head, int64 row0, int64 key0,
                                               int num_keys, bool vectors) {
  KvBlock& block = tile.block[0];
  if (vectors) finish_copy(stream.incoming_k, block.k);
  else copy_elements<kHeadDim>(block.k, stream.k, head.k_row, num_keys);
  __syncthreads();  // K_j is whole, and all warps are done with V_j+1
  if (vectors) start_copy<false>(stream.incoming_v, block.v, stream.v, head.v_row, num_keys);
  else copy_elements<kHeadDimV>(block.v, stream.v, head.v_row, num_keys);
  Scores s;
  multiply_qk(s, queries, lane);
  hide_keys(s, head, row0, key0);

  if (vectors) finish_copy(stream.incoming_v, block.v);
  __syncthreads();  // V_j is whole, and all warps are done with K_j
  stream.k -= kBc * head.k_row, stream.v -= kBc * head.v_row;
  if (key0 > 0 && vectors) start_copy<true>(stream.incoming_k, block.k, stream.k, head.k_row, kBc);
  float m[kMTiles][2];
  update_max(m, rows, s);
  update_softmax<true>(rows, s, m, head.scale * kLog2E);
  multiply_pv(rows.o, s, lane);
}
