// ---- On-chip memory of one thread. ----------------------------------------------------------------
struct Tiles {
  Compute q[kBr][kHeadDim];
  Compute k_transposed[kHeadDim][kBc];  // so that the keys of a row lie side by side for SIMD
  Compute v[kBc][kHeadDimV];
  Compute o[kBr][kHeadDimV];
  Compute s[kBr][kBc];                  // S_ij, then P~_ij in its place
  Compute l[kBr], m[kBr];
};

// O, l and m of one head, in memory between the blocks ("HBM" in the paper).
struct HeadState {
  Compute* o;  // (seqlen_q, kHeadDimV)
  Compute* l;  // (seqlen_q,)
  Compute* m;  // (seqlen_q,)
};

constexpr int64_t kSumLength = 64;  // products that are summed one after the other

inline int64_t min_of(int64_t a, int64_t b) { return a < b ? a : b; }

// Algorithm 1, line 6: load K_j, V_j from HBM. Rows past `rows` hold no key and become zeros.
inline void load_kv(Tiles& tile, const Element* k, const Element* v, const AttentionArgs& args, int64_t rows) {
  for (int64_t c = 0; c < kBc; ++c) {
    const bool inside = c < rows;
    for (int64_t x = 0; x < kHeadDim; ++x)
      tile.k_transposed[x][c] = inside ? to_compute(k[c * args.k_stride[2] + x]) : Compute(0);
    for (int64_t x = 0; x < kHeadDimV; ++x)
      tile.v[c][x] = inside ? to_compute(v[c * args.v_stride[2] + x]) : Compute(0);
  }
}

// Algorithm 1, line 8: load Q_i, O_i, l_i, m_i from HBM.
inline void load_q(Tiles& tile, const Element* q, const HeadState& hbm, const AttentionArgs& args, int64_t row0,
                   int64_t rows) {
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t x = 0; x < kHeadDim; ++x) tile.q[r][x] = to_compute(q[(row0 + r) * args.q_stride[2] + x]);
    for (int64_t x = 0; x < kHeadDimV; ++x) tile.o[r][x] = hbm.o[(row0 + r) * kHeadDimV + x];
    tile.l[r] = hbm.l[row0 + r];
    tile.m[r] = hbm.m[row0 + r];
  }
}

// Algorithm 1, line 9: S_ij = Q_i K_j^T, one row (for the scale, see above). Only its first `visible`
// keys are used afterwards.
inline void compute_scores(Tiles& tile, int64_t r, const Scale& scale) {
  Compute* s = tile.s[r];
  for (int64_t c = 0; c < kBc; ++c) s[c] = 0;
  for (int64_t x0 = 0; x0 < kHeadDim; x0 += kSumLength) {  // by parts, for the rounding of a long sum
    Compute part[kBc] = {};
    for (int64_t x = x0; x < min_of(x0 + kSumLength, kHeadDim); ++x) {
      const Compute q = scale.sign * tile.q[r][x];
      for (int64_t c = 0; c < kBc; ++c) part[c] += q * tile.k_transposed[x][c];
    }
    for (int64_t c = 0; c < kBc; ++c) s[c] += part[c];
  }
}

// Algorithm 1, lines 10 to 13, one row; only its first `visible` keys take part.
inline void update_row(Tiles& tile, int64_t r, int64_t visible, const Scale& scale) {
  Compute* p = tile.s[r];

  // line 10: m~ = rowmax(S_ij), P~ = exp(S_ij - m~), l~ = rowsum(P~)
  Compute m_tilde = -kInfinity;
  for (int64_t c = 0; c < visible; ++c) m_tilde = p[c] > m_tilde ? p[c] : m_tilde;
  Compute l_tilde = 0;
  for (int64_t c = 0; c < visible; ++c) {
    p[c] = scale.exp_below(p[c], m_tilde);
    l_tilde += p[c];
  }

  // line 11: m_new = max(m_i, m~), l_new = e^(m_i - m_new) l_i + e^(m~ - m_new) l~
  const Compute m_new = tile.m[r] > m_tilde ? tile.m[r] : m_tilde;
  const Compute old_weight = scale.exp_below(tile.m[r], m_new) * tile.l[r];
  const Compute new_weight = scale.exp_below(m_tilde, m_new);
  const Compute l_new = old_weight + new_weight * l_tilde;

  // line 12: O_i <- diag(l_new)^-1 ( diag(l_i) e^(m_i - m_new) O_i + e^(m~ - m_new) P~_ij V_j )
  Compute pv[kHeadDimV] = {};
  for (int64_t c = 0; c < visible; ++c)
    for (int64_t x = 0; x < kHeadDimV; ++x) pv[x] += p[c] * tile.v[c][x];
  const Compute inverse = l_new == 0 ? Compute(0) : 1 / l_new;  // no key seen yet: O_i stays 0
  for (int64_t x = 0; x < kHeadDimV; ++x)
    tile.o[r][x] = inverse * (old_weight * tile.o[r][x] + new_weight * pv[x]);

  // line 13: l_i <- l_new, m_i <- m_new
  tile.l[r] = l_new;
  tile.m[r] = m_new;
}

// Algorithm 1, lines 12 and 13: write O_i, l_i, m_i back to HBM.
inline void store_state(const Tiles& tile, const HeadState& hbm, int64_t row0, int64_t rows) {
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t x = 0; x < kHeadDimV; ++x) hbm.o[(row0 + r) * kHeadDimV + x] = tile.o[r][x];
    hbm.l[row0 + r] = tile.l[r];
    hbm.m[row0 + r] = tile.m[r];
  }
}

// Algorithm 1, line 16: return O, and LSE_i = m_i + ln(l_i) where it is wanted.
inline void write_result(const AttentionArgs& args, const HeadState& hbm, const Scale& scale, Element* out,
                         Compute* lse) {
  for (int64_t i = 0; i < args.seqlen_q; ++i) {
    for (int64_t x = 0; x < kHeadDimV; ++x) out[i * args.out_stride[2] + x] = to_element(hbm.o[i * kHeadDimV + x]);
    if (lse != nullptr) lse[i] = scale.log_sum_exp(hbm.m[i], hbm.l[i]);
  }
}

// One (batch, head): Algorithm 1, lines 2 to 16.
int64_t attend_head(const AttentionArgs& args, int64_t task) {
  const int64_t b = task / args.num_heads, h = task % args.num_heads;
  const int64_t h_kv = h / (args.num_heads / args.num_heads_kv);
  const int64_t seqlen_q = args.seqlen_q, num_valid = valid_keys(args, b);
  const Element* q = static_cast<const Element*>(args.q) + b * args.q_stride[0] + h * args.q_stride[1];
  const Element* k = static_cast<const Element*>(args.k) + b * args.k_stride[0] + h_kv * args.k_stride[1];
  const Element* v = static_cast<const Element*>(args.v) + b * args.v_stride[0] + h_kv * args.v_stride[1];
  Element* out = static_cast<Element*>(args.out) + b * args.out_stride[0] + h * args.out_stride[1];
  Compute* lse = args.lse != nullptr ? static_cast<Compute*>(args.lse) + task * seqlen_q : nullptr;

  const Scale scale(args.softmax_scale);

  const size_t state_bytes = static_cast<size_t>(seqlen_q * (kHeadDimV + 2)) * sizeof(Compute);
  void* memory = workspace.reserve(sizeof(Tiles) + state_bytes);
  if (memory == nullptr) return kOutOfMemory;
  Tiles& tile = *static_cast<Tiles*>(memory);

  // line 2: O = 0, l = 0, m = -inf in HBM
  Compute* state = reinterpret_cast<Compute*>(&tile + 1);
  const HeadState hbm{state, state + seqlen_q * kHeadDimV, state + seqlen_q * (kHeadDimV + 1)};
  for (int64_t i = 0; i < seqlen_q * kHeadDimV; ++i) hbm.o[i] = 0;
  for (int64_t i = 0; i < seqlen_q; ++i) hbm.l[i] = 0, hbm.m[i] = -kInfinity;

  for (int64_t key0 = 0; key0 < num_valid; key0 += kBc) {       // lines 3 and 5: for each block j of kBc keys
    load_kv(tile, k + key0 * args.k_stride[2], v + key0 * args.v_stride[2], args, min_of(kBc, num_valid - key0));
    for (int64_t row0 = 0; row0 < seqlen_q; row0 += kBr) {      // lines 3, 4 and 7: for each block i of kBr rows
      const int64_t rows = min_of(kBr, seqlen_q - row0);
      if (visible_keys(row0 + rows - 1, seqlen_q, num_valid) <= key0) continue;  // the mask hides the block
      load_q(tile, q, hbm, args, row0, rows);
      for (int64_t r = 0; r < rows; ++r) {
        const int64_t visible = min_of(kBc, visible_keys(row0 + r, seqlen_q, num_valid) - key0);
        if (visible <= 0) continue;  // this row sees none of these keys and stays as it is
        compute_scores(tile, r, scale);
        update_row(tile, r, visible, scale);
      }
      store_state(tile, hbm, row0, rows);
    }                                                           // line 14
  }                                                             // line 15
  write_result(args, hbm, scale, out, lse);
  return kOk;
}
