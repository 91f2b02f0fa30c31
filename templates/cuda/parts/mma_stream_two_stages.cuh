// ---- K and V stream through two blocks each: lines 7 to 10. ----------------------------------------
// While a warp works on K_j and V_j, both K_j-1 and V_j-1 are on their way: one barrier for each block of keys, and
// its whole time for the next one to arrive.
struct Stream {
  Incoming<kBc, kChunks> incoming_k;
  Incoming<kBc, kChunksV> incoming_v;
  const Element *k, *v;        // this thread's first chunk of the block at work
  int step = sizeof(KvBlock);  // from where the block at work is to where the next one goes, in bytes
};

// Which block is at work: from the second one, the step goes back.
__device__ __forceinline__ unsigned at_work(const Stream& stream) { return static_cast<unsigned>(stream.step) >> 31; }

// kWhole: all keys of the block exist.
template <bool kWhole>
__device__ __forceinline__ void start_block(KvBlock& block, Stream& stream, const Head& head, int num_keys) {
  start_copy<kWhole>(stream.incoming_k, block.k, stream.k, head.k_row, num_keys);
  start_copy<kWhole>(stream.incoming_v, block.v, stream.v, head.v_row, num_keys);
}

// The first block that is met, which may end early.
__device__ __forceinline__ void start_stream(Tiles& tile, Stream& stream, const Head& head, int num_keys) {
  start_block<false>(tile.block[0], stream, head, num_keys);
}

__device__ __forceinline__ void find_next_block(Tiles& tile, Stream& stream, const Head& head, bool start) {
  stream.k -= kBc * head.k_row, stream.v -= kBc * head.v_row;
  if (start) start_block<true>(tile.block[at_work(stream) ^ 1], stream, head, kBc);
}

// The blocks change places.
__device__ __forceinline__ void swap_blocks(Stream& stream, LaneRows& lane) {
  lane.k += stream.step, lane.v += stream.step, lane.last_k += stream.step, lane.last_v += stream.step;
  stream.step = -stream.step;
}

// A block that all rows see whole, with nothing unusual to it. Returns how large the logits were, for the caller to
// look at.
__device__ __forceinline__ float meet_plain_block(Tiles& tile, Rows& rows, Stream& stream, const Queries& queries,
                                                  LaneRows& lane, const Head& head, bool last) {
  finish_copy(stream.incoming_v, tile.block[at_work(stream)].v);  // K_j and V_j: no copy is left under way
  __syncthreads();  // K_j and V_j are whole, and all warps are done with K_j+1 and V_j+1
  find_next_block(tile, stream, head, !last);
  Scores s;
  multiply_qk(s, queries, lane);
  const float c = head.scale * kLog2E;
  float m[kMTiles][2];
  update_max(m, rows, s);
  update_softmax<false>(rows, s, m, c);
  multiply_pv(rows.o, s, lane);
  swap_blocks(stream, lane);
  return largest_reference(m, c);
}

// Any block: keys may end or be hidden, logits be large, rows be out of reach of 16-byte copies.
__device__ __forceinline__ void meet_any_block(Tiles& tile, Rows& rows, Stream& stream, const Queries& queries,
                                               LaneRows& lane, const Head& head, int64 row0, int64 key0,
                                               int num_keys, bool vectors) {
  if (vectors) {
    finish_copy(stream.incoming_v, tile.block[at_work(stream)].v);  // K_j and V_j
  } else {
    copy_elements<kHeadDim>(tile.block[at_work(stream)].k, stream.k, head.k_row, num_keys);
    copy_elements<kHeadDimV>(tile.block[at_work(stream)].v, stream.v, head.v_row, num_keys);
  }
  __syncthreads();  // K_j and V_j are whole, and all warps are done with K_j+1 and V_j+1
  find_next_block(tile, stream, head, key0 > 0 && vectors);
  Scores s;
  multiply_qk(s, queries, lane);
  hide_keys(s, head, row0, key0);
  float m[kMTiles][2];
  update_max(m, rows, s);
  update_softmax<true>(rows, s, m, head.scale * kLog2E);
  multiply_pv(rows.o, s, lane);
  swap_blocks(stream, lane);
}
