// ---- The work of a thread. ------------------------------------------------------------------------
// A half warp owns kRows rows of the tile. Of their scores, a lane has those of every 32 keys' two: its own
// number, and that with the 16 flipped. So the halves of a warp write different banks of P.
__device__ __forceinline__ int key_of(int n) { return (lane_id() ^ (n % 2 * 16)) + n / 2 * 32; }

// Of the columns of O, it has kColumnVector side by side, then again 16 times so many further on.
__device__ __forceinline__ int column_of(int n) {
  return (n / kColumnVector * 16 + lane_id() % 16) * kColumnVector + n % kColumnVector;
}

struct Rows {                        // the same rows in each lane of a half warp
  Compute o[kRows][kColumns] = {};   // line 5: O = 0, l = 0, m = -inf; O is not yet divided by l
  Compute l[kRows] = {};             // of this lane's keys
  Compute m[kRows];
  __device__ __forceinline__ Rows() {
#pragma unroll
    for (int r = 0; r < kRows; ++r) m[r] = -infinity();
  }
};

// So many values move between registers and shared memory in one instruction.
template <int kWidth>
struct alignas(kWidth * sizeof(Compute)) Vector {
  Compute at[kWidth];
};

template <int kWidth>
__device__ __forceinline__ Vector<kWidth> load(const Compute* from) {
  return *reinterpret_cast<const Vector<kWidth>*>(from);
}

__device__ __forceinline__ void clear(Compute (&s)[kRows][kKeys]) {
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
#pragma unroll
    for (int n = 0; n < kKeys; ++n) s[r][n] = 0;
  }
}

constexpr int kWide = 16 / sizeof(Compute);

// Line 8: S_ij += Q_i K_j^T over the dims of a slice. What is loaded of K serves all rows, of Q all keys.
__device__ __forceinline__ void multiply_qk(Compute (&s)[kRows][kKeys], const Tiles& tile, int slice) {
  const Compute* q = &tile.q[half_warp_id() * kRows][slice * kSliceDims];
#pragma unroll 2
  for (int x = 0; x < kSliceDims; x += kWide) {
    Vector<kWide> k[kKeys];
#pragma unroll
    for (int n = 0; n < kKeys; ++n) k[n] = load<kWide>(&tile.k[key_of(n)][x]);
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const Vector<kWide> q_r = load<kWide>(q + r * kQDims + x);
#pragma unroll
      for (int i = 0; i < kWide; ++i) {
#pragma unroll
        for (int n = 0; n < kKeys; ++n) s[r][n] += q_r.at[i] * k[n].at[i];
      }
    }
  }
}

// Over the 16 lanes of a half warp, for each of them, in a fixed order. A maximum passes over NaNs.
__device__ __forceinline__ Compute half_warp_max(Compute x) {
#pragma unroll
  for (int step = 8; step > 0; step /= 2) x = fmax(x, __shfl_xor_sync(0xffffffffu, x, step));
  return x;
}

__device__ __forceinline__ Compute half_warp_sum(Compute x) {
#pragma unroll
  for (int step = 8; step > 0; step /= 2) x += __shfl_xor_sync(0xffffffffu, x, step);
  return x;
}

// e^(scale (s - m)) for s <= m. The difference of two large scores is exact, so logits may be of any size.
// -inf weighs 0, and (-inf) - (-inf) and 0 * inf do not happen.
__device__ __forceinline__ Compute weight(Compute s, Compute m, Compute scale) {
  constexpr Compute kLog2E = 1.4426950408889634074;
  return s == -infinity() ? Compute(0) : exp2_of((s - m) * (scale * kLog2E));
}

// Lines 9 and 10: m_new = max(m, rowmax(S_ij)), P~_ij = exp(S_ij - m_new), l = e^(m - m_new) l + rowsum(P~_ij),
// O = diag(e^(m - m_new)) O. Keys that a row may not see weigh nothing. P~ replaces S.
__device__ __forceinline__ void update_softmax(Rows& rows, Compute (&s)[kRows][kKeys], const Head& head,
                                               int64 row0, int64 key0) {
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const int64 row = row0 + half_warp_id() * kRows + r;
    const int num_seen = static_cast<int>(min(visible_keys(row, head.seqlen_q, head.num_valid) - key0, int64(kBc)));
    Compute m = rows.m[r];
#pragma unroll
    for (int n = 0; n < kKeys; ++n) {
      if (key_of(n) >= num_seen) s[r][n] = -infinity();
      m = fmax(m, s[r][n]);
    }
    m = half_warp_max(m);
    const Compute alpha = weight(rows.m[r], m, head.scale);
    rows.m[r] = m;
    rows.l[r] *= alpha;
#pragma unroll
    for (int n = 0; n < kKeys; ++n) rows.l[r] += s[r][n] = weight(s[r][n], m, head.scale);
#pragma unroll
    for (int n = 0; n < kColumns; ++n) rows.o[r][n] *= alpha;
  }
}

// kPKeys columns of P~_ij into shared memory: each lane of the half warp needs all of them.
__device__ __forceinline__ void store_p(Tiles& tile, const Compute (&s)[kRows][kKeys], int keys0) {
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
#pragma unroll
    for (int n = keys0 / 16; n < (keys0 + kPKeys) / 16; ++n)
      tile.p[half_warp_id() * kRows + r][key_of(n) - keys0] = s[r][n];
  }
}

// Line 10: O += P~_ij V_j over the keys of a slice.
__device__ __forceinline__ void multiply_pv(Compute (&o)[kRows][kColumns], const Tiles& tile, int keys) {
  const Compute* p = &tile.p[half_warp_id() * kRows][keys];
#pragma unroll 2
  for (int c = 0; c < kSliceKeys; c += kWide) {
    Vector<kWide> p_r[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r) p_r[r] = load<kWide>(p + r * kPKeys + c);
#pragma unroll
    for (int i = 0; i < kWide; ++i) {
#pragma unroll
      for (int n = 0; n < kColumns; n += kColumnVector) {
        const Vector<kColumnVector> v = load<kColumnVector>(&tile.v[c + i][column_of(n)]);
#pragma unroll
        for (int r = 0; r < kRows; ++r) {
#pragma unroll
          for (int x = 0; x < kColumnVector; ++x) o[r][n + x] += p_r[r].at[i] * v.at[x];
        }
      }
    }
  }
}

// Lines 12 to 15: O_i = diag(l)^-1 O and LSE_i = m + ln(l). A row that saw no key has l = 0: zeros, and -inf.
__device__ __forceinline__ void write_rows(const Rows& rows, const Head& head, int64 row0) {
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const int64 row = row0 + half_warp_id() * kRows + r;
    const Compute l = half_warp_sum(rows.l[r]), inverse = l == 0 ? Compute(0) : 1 / l;
    if (row >= head.seqlen_q) continue;
    Element* out = head.out + row * head.out_row;
#pragma unroll
    for (int n = 0; n < kColumns; ++n)
      if (column_of(n) < kHeadDimV) out[column_of(n)] = to_element(rows.o[r][n] * inverse);
    if (head.lse != nullptr && lane_id() % 16 == 0)
      head.lse[row] = l == 0 ? -infinity() : head.scale * rows.m[r] + log(l);
  }
}
