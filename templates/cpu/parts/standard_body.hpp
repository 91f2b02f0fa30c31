// ---- The blocks that one thread works on. ---------------------------------------------------------
struct Tiles {
  Compute q[kBr][kHeadDim];
  Compute k_transposed[kHeadDim][kBc];  // so that the keys of a row lie side by side for SIMD
  Compute v[kBc][kHeadDimV];
  Compute o[kBr][kHeadDimV];
  Compute s[kBr][kBc];                  // a block of S in pass 1, of P in pass 3
};

// One (batch, head), with pointers moved to its first row.
struct Head {
  const Element* q;
  const Element* k;
  const Element* v;
  Element* out;
  Compute* lse;  // null: not wanted
  int64_t q_row, k_row, v_row, out_row;  // strides
  int64_t seqlen_q, num_valid;
};

constexpr int64_t kSumLength = 64;  // products that are summed one after the other

inline int64_t min_of(int64_t a, int64_t b) { return a < b ? a : b; }

// Pass 1: read Q and K, write S = Q K^T (for the scale, see above).
void write_scores(Tiles& tile, const Head& head, const Scale& scale, Compute* s_memory) {
  for (int64_t key0 = 0; key0 < head.num_valid; key0 += kBc) {
    const int64_t keys = min_of(kBc, head.num_valid - key0);
    for (int64_t c = 0; c < kBc; ++c)
      for (int64_t x = 0; x < kHeadDim; ++x)
        tile.k_transposed[x][c] = c < keys ? to_compute(head.k[(key0 + c) * head.k_row + x]) : Compute(0);
    for (int64_t row0 = 0; row0 < head.seqlen_q; row0 += kBr) {
      const int64_t rows = min_of(kBr, head.seqlen_q - row0);
      for (int64_t r = 0; r < rows; ++r) {
        const Element* q = head.q + (row0 + r) * head.q_row;
        for (int64_t x = 0; x < kHeadDim; ++x) tile.q[r][x] = scale.sign * to_compute(q[x]);
        Compute* s = tile.s[r];
        for (int64_t c = 0; c < kBc; ++c) s[c] = 0;
        for (int64_t x0 = 0; x0 < kHeadDim; x0 += kSumLength) {  // by parts, for the rounding of a long sum
          Compute part[kBc] = {};
          for (int64_t x = x0; x < min_of(x0 + kSumLength, kHeadDim); ++x)
            for (int64_t c = 0; c < kBc; ++c) part[c] += tile.q[r][x] * tile.k_transposed[x][c];
          for (int64_t c = 0; c < kBc; ++c) s[c] += part[c];
        }
        Compute* s_row = s_memory + (row0 + r) * head.num_valid + key0;
        for (int64_t c = 0; c < keys; ++c) s_row[c] = s[c];
      }
    }
  }
}

// Pass 2: read S, write P = softmax(S) by rows, in the numerically stable form. A row that sees no key
// has P = 0 and LSE = -inf.
void write_probabilities(const Head& head, const Scale& scale, const Compute* s_memory, Compute* p_memory) {
  for (int64_t i = 0; i < head.seqlen_q; ++i) {
    const Compute* s = s_memory + i * head.num_valid;
    Compute* p = p_memory + i * head.num_valid;
    const int64_t visible = visible_keys(i, head.seqlen_q, head.num_valid);
    Compute row_max = -kInfinity;
    for (int64_t c = 0; c < visible; ++c) row_max = s[c] > row_max ? s[c] : row_max;
    Compute row_sum = 0;
    for (int64_t key0 = 0; key0 < visible; key0 += kBc) {  // by blocks, for the rounding of a long sum
      Compute block_sum = 0;
      for (int64_t c = key0; c < min_of(key0 + kBc, visible); ++c) {
        p[c] = scale.exp_below(s[c], row_max);
        block_sum += p[c];
      }
      row_sum += block_sum;
    }
    const Compute inverse = row_sum == 0 ? Compute(0) : 1 / row_sum;
    for (int64_t c = 0; c < head.num_valid; ++c) p[c] = c < visible ? p[c] * inverse : Compute(0);
    if (head.lse != nullptr) head.lse[i] = scale.log_sum_exp(row_max, row_sum);
  }
}

// Pass 3: read P and V, write O = P V.
void write_output(Tiles& tile, const Head& head, const Compute* p_memory) {
  for (int64_t row0 = 0; row0 < head.seqlen_q; row0 += kBr) {
    const int64_t rows = min_of(kBr, head.seqlen_q - row0);
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t x = 0; x < kHeadDimV; ++x) tile.o[r][x] = 0;
    for (int64_t key0 = 0; key0 < head.num_valid; key0 += kBc) {
      const int64_t keys = min_of(kBc, head.num_valid - key0);
      for (int64_t c = 0; c < keys; ++c)
        for (int64_t x = 0; x < kHeadDimV; ++x) tile.v[c][x] = to_compute(head.v[(key0 + c) * head.v_row + x]);
      for (int64_t r = 0; r < rows; ++r) {
        const int64_t visible = min_of(keys, visible_keys(row0 + r, head.seqlen_q, head.num_valid) - key0);
        for (int64_t c = 0; c < visible; ++c) tile.s[r][c] = p_memory[(row0 + r) * head.num_valid + key0 + c];
        Compute pv[kHeadDimV] = {};
        for (int64_t c = 0; c < visible; ++c)
          for (int64_t x = 0; x < kHeadDimV; ++x) pv[x] += tile.s[r][c] * tile.v[c][x];
        for (int64_t x = 0; x < kHeadDimV; ++x) tile.o[r][x] += pv[x];
      }
    }
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t x = 0; x < kHeadDimV; ++x) head.out[(row0 + r) * head.out_row + x] = to_element(tile.o[r][x]);
  }
}

// One (batch, head). S and P take 2 * seqlen_q * num_valid elements, which are given back at the end.
int64_t attend_head(const AttentionArgs& args, int64_t task) {
  const int64_t b = task / args.num_heads, h = task % args.num_heads;
  const int64_t h_kv = h / (args.num_heads / args.num_heads_kv);
  const Head head{
      static_cast<const Element*>(args.q) + b * args.q_stride[0] + h * args.q_stride[1],
      static_cast<const Element*>(args.k) + b * args.k_stride[0] + h_kv * args.k_stride[1],
      static_cast<const Element*>(args.v) + b * args.v_stride[0] + h_kv * args.v_stride[1],
      static_cast<Element*>(args.out) + b * args.out_stride[0] + h * args.out_stride[1],
      args.lse != nullptr ? static_cast<Compute*>(args.lse) + task * args.seqlen_q : nullptr,
      args.q_stride[2], args.k_stride[2], args.v_stride[2], args.out_stride[2],
      args.seqlen_q, valid_keys(args, b)};

  const int64_t scores = head.seqlen_q * head.num_valid;
  void* memory = std::malloc(sizeof(Tiles) + 2 * static_cast<size_t>(scores) * sizeof(Compute));
  if (memory == nullptr) return kOutOfMemory;
  Tiles& tile = *static_cast<Tiles*>(memory);
  Compute* s_memory = reinterpret_cast<Compute*>(&tile + 1);
  Compute* p_memory = s_memory + scores;

  const Scale scale(args.softmax_scale);
  write_scores(tile, head, scale, s_memory);
  write_probabilities(head, scale, s_memory, p_memory);
  write_output(tile, head, p_memory);
  std::free(memory);
  return kOk;
}
