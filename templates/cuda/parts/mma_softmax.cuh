// ---- Online softmax, in registers. A row lies in the four lanes of a group, t = lane % 4. ----------
constexpr float kLog2E = 1.4426950408889634f, kLn2 = 0.6931471805599453f;
constexpr unsigned kAllLanes = 0xffffffffu;

__device__ __forceinline__ float group_max(float x) {  // passes over NaNs
  x = fmaxf(x, __shfl_xor_sync(kAllLanes, x, 1));
  return fmaxf(x, __shfl_xor_sync(kAllLanes, x, 2));
}

__device__ __forceinline__ float group_sum(float x) {
  x += __shfl_xor_sync(kAllLanes, x, 1);
  return x + __shfl_xor_sync(kAllLanes, x, 2);
}

struct Rows {
  Output o = {};  // line 5: O = 0, l = 0, m = -inf; O is not yet divided by l
  float l[kMTiles][2] = {};  // of this lane's columns
  float m[kMTiles][2];       // of rows g and g + 8 of each tile; not yet scaled
  __device__ __forceinline__ Rows() {
#pragma unroll
    for (int i = 0; i < kMTiles; ++i) m[i][0] = m[i][1] = -infinity();
  }
};

// A weight is e^(scale (s - m)) = 2^(c s - c m) with c = scale log2(e). With r = c m, rounded, that is one FMA
// for each score, 2^(c s - r). That r is not quite c m does no harm as long as all weights of a row are
// relative to the same r, and r is not so large that its rounding shows in the exponent: kSmall.
constexpr float kSmall = 1 << 20;

// c m - r, where r is what weights are relative to: c m, rounded; beyond four times kSmall c m itself.
__device__ __forceinline__ float reference_error(float m, float c) {
  return fabsf(m * c) <= 4 * kSmall ? fmaf(m, c, -(m * c)) : 0;
}

// e^(scale (old - m)) for a state whose weights are relative to old, once they shall be relative to m.
__device__ __forceinline__ float rescale(float old, float m, float c) {
  return exp2_of(fmaf(old - m, c, reference_error(m, c) - reference_error(old, c)));
}

// The same for logits of any size: s becomes the exponent, c (s - m) + (c m - r). The difference of two large
// scores is exact. A row that has seen no key yet has m = -inf, and keeps its scores of -inf.
__device__ __forceinline__ void subtract_first(Scores& s, float (&alpha)[kMTiles][2], const Rows& rows,
                                               const float (&m)[kMTiles][2], float scale_log2) {
  const float c = fmaxf(scale_log2, 1.4e-45f);  // of a scale of 0, the weights are 1, and of -inf still 0
#pragma unroll
  for (int i = 0; i < kMTiles; ++i) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const float most = m[i][h] == -infinity() ? 0 : m[i][h], error = reference_error(most, c);
      alpha[i][h] = rescale(rows.m[i][h], most, c);
#pragma unroll
      for (int n = 0; n < kKeysOfWarp / 8; ++n) {
        s[i][n][2 * h] = fmaf(s[i][n][2 * h] - most, c, error);
        s[i][n][2 * h + 1] = fmaf(s[i][n][2 * h + 1] - most, c, error);
      }
    }
  }
}

// Line 9, its first half: m_new = max(m, rowmax(S_ij)).
__device__ __forceinline__ void update_max(float (&m)[kMTiles][2], const Rows& rows, const Scores& s) {
#pragma unroll
  for (int i = 0; i < kMTiles; ++i) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float most = rows.m[i][h];
#pragma unroll
      for (int n = 0; n < kKeysOfWarp / 8; ++n) most = fmaxf(most, fmaxf(s[i][n][2 * h], s[i][n][2 * h + 1]));
      m[i][h] = group_max(most);
    }
  }
}

// Whether one FMA for each score will do, in the rows of this lane.
__device__ __forceinline__ bool are_small(const float (&m)[kMTiles][2], float c) {
  bool small = true;
#pragma unroll
  for (int i = 0; i < kMTiles; ++i) small = small && fabsf(m[i][0] * c) <= kSmall && fabsf(m[i][1] * c) <= kSmall;
  return small;
}

// The same for several blocks takes fewer instructions: they are small if the largest |c m| of all is.
__device__ __forceinline__ float largest_reference(const float (&m)[kMTiles][2], float c) {
  float largest = 0;
#pragma unroll
  for (int i = 0; i < kMTiles; ++i) largest = fmaxf(largest, fmaxf(fabsf(m[i][0] * c), fabsf(m[i][1] * c)));
  return largest;
}

// Lines 9 and 10: P~_ij = exp(S_ij - m_new), l = e^(m - m_new) l + rowsum(P~_ij), O = diag(e^(m - m_new)) O.
// P~ replaces S. kAnySize: logits may be large.
template <bool kAnySize>
__device__ __forceinline__ void update_softmax(Rows& rows, Scores& s, const float (&m)[kMTiles][2], float c) {
  float alpha[kMTiles][2], r[kMTiles][2];
#pragma unroll
  for (int i = 0; i < kMTiles; ++i) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      r[i][h] = m[i][h] * c;
      alpha[i][h] = exp2_of(rows.m[i][h] * c - r[i][h]);
    }
  }
  if (kAnySize && !__all_sync(kAllLanes, are_small(m, c) && c > 0)) {
    subtract_first(s, alpha, rows, m, c);
    c = 1;
#pragma unroll
    for (int i = 0; i < kMTiles; ++i) r[i][0] = r[i][1] = 0;
  }
#pragma unroll
  for (int i = 0; i < kMTiles; ++i) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      rows.m[i][h] = m[i][h];
      rows.l[i][h] *= alpha[i][h];
#pragma unroll
      for (int n = 0; n < kKeysOfWarp / 8; ++n) {
#pragma unroll
        for (int e = 2 * h; e < 2 * h + 2; ++e) rows.l[i][h] += s[i][n][e] = exp2_of(fmaf(s[i][n][e], c, -r[i][h]));
      }
#pragma unroll
      for (int n = 0; n < kChunksV; ++n) rows.o[i][n][2 * h] *= alpha[i][h], rows.o[i][n][2 * h + 1] *= alpha[i][h];
    }
  }
}
