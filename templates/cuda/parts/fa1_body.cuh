// ---- On-chip memory: the tiles of one CTA, in dynamic shared memory. ------------------------------
struct Tiles {
  alignas(16) Element q[kBr][kQStride];  // rows are filled up with zeros
  alignas(16) Element k[kBc][kKStride];  // likewise; an odd number of banks, so 32 lanes can read 32 rows
  alignas(16) Element v[kBc][kHeadDimV];
  alignas(16) Compute o[kBr][kHeadDimV];
  alignas(16) Compute s[kBr][kBc];       // S_ij, then P~_ij in its place
  Compute l[kBr], m[kBr];
};

// One (batch, head), with pointers moved to its first row. O, l and m live in HBM between the blocks.
struct Head {
  const Element *q, *k, *v;
  Element* out;
  Compute* lse;                        // null: not wanted
  Compute *o, *l, *m;                  // (seqlen_q, kHeadDimV), (seqlen_q,), (seqlen_q,)
  int64 q_row, k_row, v_row, out_row;  // strides
  int64 seqlen_q, num_valid;
  Compute scale;
};

__device__ __forceinline__ Head find_head(const AttentionArgs& args, int64 task) {
  const int64 b = task / args.num_heads, h = task % args.num_heads;
  const int64 h_kv = h / (args.num_heads / args.num_heads_kv);
  const int64 first = task * args.seqlen_q, rows = args.batch * args.num_heads * args.seqlen_q;
  Compute* hbm = static_cast<Compute*>(args.workspace);  // O, then l, then m, each for all heads
  return Head{
      static_cast<const Element*>(args.q) + b * args.q_stride[0] + h * args.q_stride[1],
      static_cast<const Element*>(args.k) + b * args.k_stride[0] + h_kv * args.k_stride[1],
      static_cast<const Element*>(args.v) + b * args.v_stride[0] + h_kv * args.v_stride[1],
      static_cast<Element*>(args.out) + b * args.out_stride[0] + h * args.out_stride[1],
      args.lse != nullptr ? static_cast<Compute*>(args.lse) + first : nullptr,
      hbm + first * kHeadDimV, hbm + rows * kHeadDimV + first, hbm + rows * (kHeadDimV + 1) + first,
      args.q_stride[2], args.k_stride[2], args.v_stride[2], args.out_stride[2],
      args.seqlen_q, valid_keys(args, b), static_cast<Compute>(args.softmax_scale)};
}

// Algorithm 1, line 6: load K_j, V_j from HBM, a warp to a row. Rows that hold no key become zeros.
__device__ __forceinline__ void load_kv(Tiles& tile, const Head& head, int64 key0) {
#pragma unroll 4
  for (int c = warp_id(); c < kBc; c += kWarps) {
    const bool inside = key0 + c < head.num_valid;
    const Element* k = head.k + (key0 + c) * head.k_row;
    const Element* v = head.v + (key0 + c) * head.v_row;
#pragma unroll
    for (int x = lane_id(); x < kKStride; x += kLanes)
      tile.k[c][x] = inside && x < kHeadDim ? k[x] : Element(0);
#pragma unroll
    for (int x = lane_id(); x < kHeadDimV; x += kLanes) tile.v[c][x] = inside ? v[x] : Element(0);
  }
}

// ---- A strip: the rows of block i that one warp works on at a time. No other warp touches them. ---
struct Strip {
  int row, rows;      // its first row in the tile, and how many rows exist
  int64 query, key0;  // its first row, and the first key of block j, in the head
};

// Keys of block j that row r sees: the first ones; none if it is not positive.
__device__ __forceinline__ int64 visible(const Head& head, const Strip& strip, int r) {
  return visible_keys(strip.query + r, head.seqlen_q, head.num_valid) - strip.key0;
}

// Algorithm 1, line 8: load Q_i, O_i, l_i, m_i. At the first j, line 2: O_i = 0, l_i = 0, m_i = -inf.
__device__ __forceinline__ void load_strip(Tiles& tile, const Head& head, const Strip& strip, bool first) {
#pragma unroll
  for (int r = 0; r < kStrip; ++r) {
    const bool inside = r < strip.rows;
    const Element* q = head.q + (strip.query + r) * head.q_row;
    const Compute* o = head.o + (strip.query + r) * kHeadDimV;
#pragma unroll
    for (int x = lane_id(); x < kQStride; x += kLanes)
      tile.q[strip.row + r][x] = inside && x < kHeadDim ? q[x] : Element(0);
#pragma unroll
    for (int x = lane_id(); x < kHeadDimV; x += kLanes)
      tile.o[strip.row + r][x] = inside && !first ? o[x] : Compute(0);
  }
  if (lane_id() < kStrip) {
    const bool stored = lane_id() < strip.rows && !first;
    tile.l[strip.row + lane_id()] = stored ? head.l[strip.query + lane_id()] : Compute(0);
    tile.m[strip.row + lane_id()] = stored ? head.m[strip.query + lane_id()] : -infinity();
  }
  __syncwarp();  // every lane needs all of Q_i
}

// Algorithm 1, line 9: S_ij = Q_i K_j^T, a lane to every 32nd key; only the sign of the scale comes in yet,
// the rest with exp. Hidden keys get -inf.
__device__ __forceinline__ void compute_scores(Tiles& tile, const Head& head, const Strip& strip) {
#pragma unroll 1
  for (int c0 = lane_id(); c0 < kBc; c0 += kLanes * kKeysPerLane) {
    Compute s[kStrip][kKeysPerLane] = {};
    multiply_qk(s, &tile.q[strip.row], tile.k, c0);
#pragma unroll
    for (int r = 0; r < kStrip; ++r) {
      const int64 keys = visible(head, strip, r);
#pragma unroll
      for (int n = 0; n < kKeysPerLane; ++n) {
        const int c = c0 + n * kLanes;
        if (c < kBc) tile.s[strip.row + r][c] = c < keys ? (head.scale < 0 ? -s[r][n] : s[r][n]) : -infinity();
      }
    }
  }
}

// Algorithm 1, lines 10 to 13. Lane r has the statistics of row r.
__device__ __forceinline__ void update_strip(Tiles& tile, const Head& head, const Strip& strip) {
  // line 10: m~ = rowmax(S_ij), P~ = exp(S_ij - m~), l~ = rowsum(P~)
  Compute m_tilde = -infinity(), l_tilde = 0;
#pragma unroll 2
  for (int r = 0; r < kStrip; ++r) {
    Compute* p = tile.s[strip.row + r];
    Compute row_max = -infinity(), row_sum = 0;
    for (int c = lane_id(); c < kBc; c += kLanes) row_max = fmax(row_max, p[c]);
    row_max = warp_max(row_max);
    for (int c = lane_id(); c < kBc; c += kLanes) row_sum += p[c] = exp_below(p[c], row_max, head.scale);
    row_sum = warp_sum(row_sum);
    if (lane_id() == r) m_tilde = row_max, l_tilde = row_sum;
  }
  __syncwarp();  // every lane needs all of P~_ij

  // line 11: m_new = max(m_i, m~), l_new = e^(m_i - m_new) l_i + e^(m~ - m_new) l~
  const int row = strip.row + lane_id();
  const bool has_row = lane_id() < kStrip;
  const Compute l = has_row ? tile.l[row] : Compute(0), m = has_row ? tile.m[row] : -infinity();
  const Compute m_new = fmax(m, m_tilde);
  const Compute old_weight = exp_below(m, m_new, head.scale) * l, new_weight = exp_below(m_tilde, m_new, head.scale);
  const Compute l_new = old_weight + new_weight * l_tilde;

  // line 12: O_i <- diag(l_new)^-1 ( diag(l_i) e^(m_i - m_new) O_i + e^(m~ - m_new) P~_ij V_j )
  Compute pv[kStrip][kColumnsPerLane] = {};
  multiply_pv(pv, &tile.s[strip.row], tile.v);
  const Compute inverse = l_new == 0 ? Compute(0) : 1 / l_new;  // no key seen yet: O_i stays 0
#pragma unroll
  for (int r = 0; r < kStrip; ++r) {
    const Compute keep = __shfl_sync(kAllLanes, inverse * old_weight, r);
    const Compute add = __shfl_sync(kAllLanes, inverse * new_weight, r);
    if (visible(head, strip, r) <= 0) continue;  // the row sees none of these keys: O_i stays as it is
#pragma unroll
    for (int x = lane_id(), n = 0; n < kColumnsPerLane; x += kLanes, ++n)
      if (x < kHeadDimV) tile.o[strip.row + r][x] = keep * tile.o[strip.row + r][x] + add * pv[r][n];
  }

  // line 13: l_i <- l_new, m_i <- m_new
  if (has_row) tile.l[row] = l_new, tile.m[row] = m_new;
}

// Algorithm 1, lines 12 and 13: write O_i, l_i, m_i to HBM; each lane writes what it will load again.
__device__ __forceinline__ void store_strip(const Tiles& tile, const Head& head, const Strip& strip) {
#pragma unroll 1
  for (int r = 0; r < strip.rows; ++r) {
    Compute* o = head.o + (strip.query + r) * kHeadDimV;
    for (int x = lane_id(); x < kHeadDimV; x += kLanes) o[x] = tile.o[strip.row + r][x];
  }
  if (lane_id() < strip.rows) {
    head.l[strip.query + lane_id()] = tile.l[strip.row + lane_id()];
    head.m[strip.query + lane_id()] = tile.m[strip.row + lane_id()];
  }
}

// Algorithm 1, line 16: return O, and LSE_i = m_i + ln(l_i) where it is wanted.
__device__ __forceinline__ void write_result(const Tiles& tile, const Head& head, const Strip& strip) {
#pragma unroll 1
  for (int r = 0; r < strip.rows; ++r) {
    Element* out = head.out + (strip.query + r) * head.out_row;
    for (int x = lane_id(); x < kHeadDimV; x += kLanes) out[x] = to_element(tile.o[strip.row + r][x]);
  }
  if (head.lse != nullptr && lane_id() < strip.rows) {
    const Compute l = tile.l[strip.row + lane_id()], m = tile.m[strip.row + lane_id()];
    head.lse[strip.query + lane_id()] = l == 0 ? -infinity() : fabs(head.scale) * m + log(l);
  }
}
