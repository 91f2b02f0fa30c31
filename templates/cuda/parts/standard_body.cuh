// ---- On-chip memory of one CTA, in dynamic shared memory. -----------------------------------------
struct ScoreTiles {                      // pass 1
  alignas(16) Element q[kBr][kQStride];  // rows are filled up with zeros
  alignas(16) Element k[kBc][kKStride];  // likewise; an odd number of banks, so 32 lanes can read 32 rows
};

struct OutputTiles {                     // pass 3
  alignas(16) Compute p[kBr][kBc];
  alignas(16) Element v[kBc][kHeadDimV];
};

// One (batch, head), with pointers moved to its first row.
struct Head {
  const Element *q, *k, *v;
  Element* out;
  Compute* lse;                        // null: not wanted
  Compute *s, *p;                      // (seqlen_q, seqlen_k), in the workspace
  int64 q_row, k_row, v_row, out_row;  // strides
  int64 seqlen_q, seqlen_k, num_valid;
  Compute scale;
};

__device__ __forceinline__ Head find_head(const AttentionArgs& args, int64 task) {
  const int64 b = task / args.num_heads, h = task % args.num_heads;
  const int64 h_kv = h / (args.num_heads / args.num_heads_kv);
  const int64 scores = args.seqlen_q * args.seqlen_k;
  Compute* s = static_cast<Compute*>(args.workspace);  // S of all heads, then P of all heads
  return Head{
      static_cast<const Element*>(args.q) + b * args.q_stride[0] + h * args.q_stride[1],
      static_cast<const Element*>(args.k) + b * args.k_stride[0] + h_kv * args.k_stride[1],
      static_cast<const Element*>(args.v) + b * args.v_stride[0] + h_kv * args.v_stride[1],
      static_cast<Element*>(args.out) + b * args.out_stride[0] + h * args.out_stride[1],
      args.lse != nullptr ? static_cast<Compute*>(args.lse) + task * args.seqlen_q : nullptr,
      s + task * scores, s + (args.batch * args.num_heads + task) * scores,
      args.q_stride[2], args.k_stride[2], args.v_stride[2], args.out_stride[2],
      args.seqlen_q, args.seqlen_k, valid_keys(args, b), static_cast<Compute>(args.softmax_scale)};
}

// Loads a tile of kRows rows from global memory, a warp to a row. What the tensor lacks becomes zero.
template <int kDim, int kRows, int kStride>
__device__ __forceinline__ void load_tile(Element (&tile)[kRows][kStride], const Element* from, int64 from_row,
                                          int64 rows) {
#pragma unroll 4
  for (int r = warp_id(); r < kRows; r += kWarps) {
#pragma unroll
    for (int x = lane_id(); x < kStride; x += kLanes)
      tile[r][x] = r < rows && x < kDim ? from[r * from_row + x] : Element(0);
  }
}

// Pass 1, one block: reads Q_i and K_j, writes S_ij = Q_i K_j^T; only the sign of the scale comes in yet, the
// rest with exp. Keys that a row may not see get -inf.
__device__ __forceinline__ void write_scores(ScoreTiles& tile, const Head& head, int64 row0, int64 key0) {
  load_tile<kHeadDim>(tile.q, head.q + row0 * head.q_row, head.q_row, head.seqlen_q - row0);
  load_tile<kHeadDim>(tile.k, head.k + key0 * head.k_row, head.k_row, head.num_valid - key0);
  __syncthreads();  // the tiles are whole

  const int row = warp_id() * kStrip;
#pragma unroll 1
  for (int c0 = lane_id(); c0 < kBc; c0 += kLanes * kKeysPerLane) {
    Compute s[kStrip][kKeysPerLane] = {};
    multiply_qk(s, &tile.q[row], tile.k, c0);
#pragma unroll
    for (int r = 0; r < kStrip; ++r) {
      const int64 i = row0 + row + r;
      if (i >= head.seqlen_q) break;
      const int64 visible = visible_keys(i, head.seqlen_q, head.num_valid);
#pragma unroll
      for (int n = 0; n < kKeysPerLane; ++n) {
        const int c = c0 + n * kLanes;
        if (c < kBc && key0 + c < head.num_valid)
          head.s[i * head.seqlen_k + key0 + c] = key0 + c < visible ? (head.scale < 0 ? -s[r][n] : s[r][n]) : -infinity();
      }
    }
  }
}

// Pass 2, one row by one warp: reads S, writes P = softmax(S), in the numerically stable form. A row that
// sees no key has P = 0 and LSE = -inf.
__device__ __forceinline__ void write_probabilities(const Head& head, int64 i) {
  const Compute* s = head.s + i * head.seqlen_k;
  Compute* p = head.p + i * head.seqlen_k;
  const int64 visible = visible_keys(i, head.seqlen_q, head.num_valid);
  Compute row_max = -infinity(), row_sum = 0;
  for (int64 c = lane_id(); c < visible; c += kLanes) row_max = fmax(row_max, s[c]);
  row_max = warp_max(row_max);
  for (int64 c = lane_id(); c < visible; c += kLanes) row_sum += exp_below(s[c], row_max, head.scale);
  row_sum = warp_sum(row_sum);
  const Compute inverse = row_sum == 0 ? Compute(0) : 1 / row_sum;
  for (int64 c = lane_id(); c < head.num_valid; c += kLanes)
    p[c] = c < visible ? exp_below(s[c], row_max, head.scale) * inverse : Compute(0);
  if (head.lse != nullptr && lane_id() == 0)
    head.lse[i] = row_sum == 0 ? -infinity() : fabs(head.scale) * row_max + log(row_sum);
}

// Pass 3, one block of rows: reads P and V, writes O = P V. Keys that none of the rows sees are left out.
__device__ __forceinline__ void write_output(OutputTiles& tile, const Head& head, int64 row0) {
  const int row = warp_id() * kStrip;
  const int64 last_row = min(row0 + kBr, head.seqlen_q) - 1;
  const int64 keys = visible_keys(last_row, head.seqlen_q, head.num_valid);
  Compute o[kStrip][kColumnsPerLane] = {};
  for (int64 key0 = 0; key0 < keys; key0 += kBc) {
    __syncthreads();  // all warps are done with the last V_j
    load_tile<kHeadDimV>(tile.v, head.v + key0 * head.v_row, head.v_row, head.num_valid - key0);
#pragma unroll
    for (int r = 0; r < kStrip; ++r) {
      const Compute* p = head.p + (row0 + row + r) * head.seqlen_k + key0;
      const bool inside = row0 + row + r < head.seqlen_q;
#pragma unroll 4
      for (int c = lane_id(); c < kBc; c += kLanes)
        tile.p[row + r][c] = inside && key0 + c < head.num_valid ? p[c] : Compute(0);
    }
    __syncthreads();  // V_j is whole, and so are this warp's rows of P_ij
    multiply_pv(o, &tile.p[row], tile.v);
  }
#pragma unroll
  for (int r = 0; r < kStrip; ++r) {
    Element* out = head.out + (row0 + row + r) * head.out_row;
#pragma unroll
    for (int n = 0; n < kColumnsPerLane; ++n) {
      const int x = lane_id() + n * kLanes;
      if (row0 + row + r < head.seqlen_q && x < kHeadDimV) out[x] = to_element(o[r][n]);
    }
  }
}
