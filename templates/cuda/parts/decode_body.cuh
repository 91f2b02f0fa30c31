// ---- What a CTA works on. -------------------------------------------------------------------------
struct Work {
  Head head;              // the first of the group that shares a kv head
  int64 head_index;       // its number, among those of all batch entries
  int64 q_head;           // stride from one head of the group to the next
  int group;              // heads in it
  int64 first_row;        // of the packed rows
  int rows;               // how many there are
  int64 begin, end;       // keys
  bool vectors;
};

__device__ __forceinline__ Work find_work(const AttentionArgs& args) {
  // line 1: the packed rows of a group of heads, in tiles
  const unsigned num_heads = args.num_heads, num_heads_kv = args.num_heads_kv, group = num_heads / num_heads_kv;
  const int64 packed = args.seqlen_q * group;
  const unsigned tiles = (packed + kBr - 1) / kBr, tile = blockIdx.x % tiles, kv = blockIdx.x / tiles;
  Work work;
  work.head_index = kv / num_heads_kv * num_heads + kv % num_heads_kv * group;
  work.head = find_head(args, work.head_index);
  work.q_head = args.q_stride[1], work.group = group;
  work.first_row = int64(tile) * kBr, work.rows = static_cast<int>(min(packed - work.first_row, int64(kBr)));
  work.vectors = have_vectors(work.head) && work.q_head % kInChunk == 0;

  // line 2: a split has whole blocks; their number follows from the sizes alone, so the bits are the same anywhere
  const int64 last_query = (work.first_row + work.rows - 1) / group;
  const int64 num_visible = visible_keys(last_query, args.seqlen_q, work.head.num_valid);
  const int64 share = ((args.seqlen_k + kBc - 1) / kBc + args.row_ranges - 1) / args.row_ranges * kBc;
  work.begin = min(blockIdx.y * share, num_visible), work.end = min(work.begin + share, num_visible);
  return work;
}

__device__ __forceinline__ int64 query_of(const Work& work, int row) { return (work.first_row + row) / work.group; }
__device__ __forceinline__ int64 head_of(const Work& work, int row) { return (work.first_row + row) % work.group; }

// Line 4: load Q_i. Rows past the last are zeros. The sign of the scale goes into Q.
__device__ __forceinline__ void load_packed_queries(Tiles& tile, const Work& work) {
#pragma unroll 1
  for (int at = threadIdx.x; at < kBr * kChunks; at += kThreads) {
    const int row = at / kChunks, chunk = at % kChunks;
    const Element* q = work.head.q + query_of(work, row) * work.head.q_row + head_of(work, row) * work.q_head;
    uint4 x = make_uint4(0, 0, 0, 0);
    if (row < work.rows) x = work.vectors ? reinterpret_cast<const uint4*>(q)[chunk] : gather<kHeadDim>(q, chunk);
    const unsigned flip = work.head.sign < 0 ? 0x80008000u : 0;
    chunk_at(tile.q, row, chunk) = make_uint4(x.x ^ flip, x.y ^ flip, x.z ^ flip, x.w ^ flip);
  }
}

// Line 7: load K_j, V_j, which arrive later.
__device__ __forceinline__ void start_block(Tiles& tile, const Work& work, int64 key0, int stage) {
  if (key0 < work.end) {
    KvBlock& block = tile.block[stage];
    const int keys = static_cast<int>(min(work.end - key0, int64(kBc)));
    copy_rows<kHeadDim>(block.k, work.head.k + key0 * work.head.k_row, work.head.k_row, keys, work.vectors);
    copy_rows<kHeadDimV>(block.v, work.head.v + key0 * work.head.v_row, work.head.v_row, keys, work.vectors);
  }
  close_group();
}

// Keys that a row may not see get -inf. Element e of s[0][n] is column 8 n + 2 t + e % 2 of row g + e / 2 * 8.
__device__ __forceinline__ void hide_keys(Scores& s, const Work& work, int64 key0) {
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int64 query = query_of(work, h * 8 + lane_id() / 4);
    const int64 left = min(visible_keys(query, work.head.seqlen_q, work.head.num_valid), work.end) - key0;
    const int seen = static_cast<int>(max(min(left, int64(kKeysOfWarp)), 0ll)) - lane_id() % 4 * 2;
#pragma unroll
    for (int n = 0; n < kKeysOfWarp / 8; ++n) {
      if (8 * n >= seen) s[0][n][2 * h] = -infinity();
      if (8 * n + 1 >= seen) s[0][n][2 * h + 1] = -infinity();
    }
  }
}

// This warp's keys of each block, one block after the other; the softmax is that of prefill.
__device__ __forceinline__ Rows meet_keys(Tiles& tile, const Work& work) {
  Rows rows;  // line 5
#pragma unroll
  for (int stage = 0; stage < kStages - 1; ++stage) start_block(tile, work, work.begin + stage * kBc, stage);
  int stage = 0;
  for (int64 key0 = work.begin; key0 < work.end; key0 += kBc) {  // line 6: for j
    wait_for_block();
    __syncthreads();  // the block is whole, and so is Q; all warps are done with the block before
    start_block(tile, work, key0 + (kStages - 1) * kBc, (stage + kStages - 1) % kStages);

    const int first = warp_id() * kKeysOfWarp;
    const LaneRows lane = find_lane_rows(tile.q, tile.block[stage].k + first, tile.block[stage].v + first);
    Scores s;
    multiply_qk(s, Queries(lane), lane);  // line 8
    hide_keys(s, work, key0 + first);
    float m[kMTiles][2];
    update_max(m, rows, s);  // line 9
    update_softmax<true>(rows, s, m, work.head.scale * kLog2E);  // lines 9 and 10
    multiply_pv(rows.o, s, lane);  // line 10
    stage = (stage + 1) % kStages;
  }  // line 11
  return rows;
}

// ---- Joining parts of a row: each is relative to its own m. ----------------------------------------
// In the workspace, for each split and each row of O: O, not divided by l; after all those, l and m likewise.
struct Parts {
  float *o, *l, *m;
  int64 rows;  // of O, in one split
};

__device__ __forceinline__ Parts find_parts(const AttentionArgs& args) {
  const int64 rows = args.batch * args.num_heads * args.seqlen_q;
  float* o = static_cast<float*>(args.workspace);
  float* l = o + args.row_ranges * rows * kHeadDimV;
  return {o, l, l + args.row_ranges * rows, rows};
}

__device__ __forceinline__ float log_sum_exp(float l, float m, float scale) {
  const float c = scale * kLog2E, r = m * c;
  return l == 0 ? -infinity() : log(l) + (fabsf(r) <= 4 * kSmall ? r * kLn2 : m * scale);
}

// What an older part counts, beside parts whose largest score is m. A scale of 0 makes all parts equal.
__device__ __forceinline__ float weight_of(float old, float m, float scale) {
  return old == -infinity() ? 0 : rescale(old, m, scale * kLog2E);
}

// The warps' rows into one, through shared memory: a part for the workspace, or the result if there is but one split.
__device__ __forceinline__ void join_warps(Tiles& tile, const Rows& rows, const Work& work, const AttentionArgs& args) {
  WarpRows& mine = tile.warp[warp_id()];
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int row = h * 8 + lane_id() / 4, column = lane_id() % 4 * 2;
    const float l = group_sum(rows.l[0][h]);
#pragma unroll
    for (int n = 0; n < kChunksV; ++n)
      *reinterpret_cast<float2*>(&mine.o[row][n * 8 + column]) = make_float2(rows.o[0][n][2 * h], rows.o[0][n][2 * h + 1]);
    if (column == 0) mine.l[row] = l, mine.m[row] = rows.m[0][h];
  }
  __syncthreads();  // all warps' rows are there

  const Parts parts = find_parts(args);
  const float scale = work.head.scale;
  for (int row = warp_id(); row < work.rows; row += kWarps) {
    // line 12: a part is joined of what the warps found, as the parts of all splits are later
    float most = -infinity(), l = 0, weights[kWarps];
#pragma unroll
    for (int w = 0; w < kWarps; ++w) most = fmaxf(most, tile.warp[w].m[row]);
#pragma unroll
    for (int w = 0; w < kWarps; ++w) l += (weights[w] = weight_of(tile.warp[w].m[row], most, scale)) * tile.warp[w].l[row];

    const int64 query = query_of(work, row), head = head_of(work, row);
    const int64 at = (work.head_index + head) * args.seqlen_q + query, part = blockIdx.y * parts.rows + at;
    Element* out = work.head.out + query * work.head.out_row + head * args.out_stride[1];
    const float inverse = l == 0 ? 0 : 1 / l;
    for (int x = lane_id(); x < kHeadDimV; x += 32) {
      float o = 0;
#pragma unroll
      for (int w = 0; w < kWarps; ++w) o += weights[w] * tile.warp[w].o[row][x];
      if (args.row_ranges == 1) out[x] = to_element(o * inverse);  // lines 16 and 18
      else parts.o[part * kHeadDimV + x] = o;                      // line 12
    }
    if (lane_id() != 0) continue;
    if (args.row_ranges > 1) parts.l[part] = l, parts.m[part] = most;  // line 12
    else if (args.lse != nullptr) static_cast<float*>(args.lse)[at] = log_sum_exp(l, most, scale);  // lines 17 and 18
  }
}

// The splits' rows into one, in their order.
__device__ __forceinline__ void join_splits(const AttentionArgs& args, int64 row) {
  const Parts parts = find_parts(args);
  const float scale = fabsf(static_cast<float>(args.softmax_scale));
  float most = -infinity(), l = 0, o[(kHeadDimV + 31) / 32] = {};
  // line 14: m = max of all m_s
  for (int64 split = 0; split < args.row_ranges; ++split) most = fmaxf(most, parts.m[split * parts.rows + row]);
  for (int64 split = 0; split < args.row_ranges; ++split) {
    const int64 part = split * parts.rows + row;
    const float weight = weight_of(parts.m[part], most, scale);  // line 14: w_s
    l += weight * parts.l[part];                                 // line 15
    // line 16: O, to be divided by l
#pragma unroll
    for (int x = lane_id(), n = 0; n < (kHeadDimV + 31) / 32; x += 32, ++n)
      if (x < kHeadDimV) o[n] += weight * parts.o[part * kHeadDimV + x];
  }
  // lines 16 to 18: O / l and LSE = scale m + ln(l)
  const unsigned seqlen_q = args.seqlen_q;
  const Head head = find_head(args, row / seqlen_q);
  const float inverse = l == 0 ? 0 : 1 / l;
  Element* out = head.out + row % seqlen_q * head.out_row;
#pragma unroll
  for (int x = lane_id(), n = 0; n < (kHeadDimV + 31) / 32; x += 32, ++n)
    if (x < kHeadDimV) out[x] = to_element(o[n] * inverse);
  if (args.lse != nullptr && lane_id() == 0) static_cast<float*>(args.lse)[row] = log_sum_exp(l, most, scale);
}
