// ---- The products of a warp. ----------------------------------------------------------------------
using Scores = float[kMTiles][kKeysOfWarp / 8][4];

// S_ij = Q_i K_j^T. What is loaded of K serves all row tiles, of Q all keys.
__device__ __forceinline__ void multiply_qk(Scores& s, const Queries& queries, const LaneRows& lane) {
#pragma unroll
  for (int i = 0; i < kMTiles; ++i) {
#pragma unroll
    for (int n = 0; n < kKeysOfWarp / 8; ++n) s[i][n][0] = s[i][n][1] = s[i][n][2] = s[i][n][3] = 0;
  }
#pragma unroll
  for (int step = 0; step < kSteps + kHalfStep; ++step) {
    const QFragments q = queries(step);
#pragma unroll
    for (int n = 0; n < kKeysOfWarp / 8; n += 2) {
      const int keys = n * 8 * kChunks * 16;
      if (step < kSteps) {
        unsigned k[4];
        ldmatrix_x4(k, at_chunk<kChunks>(lane.k, 2 * step) + keys);
#pragma unroll
        for (int i = 0; i < kMTiles; ++i) {
          mma_k16(s[i][n], q.step[i], k[0], k[1]);
          mma_k16(s[i][n + 1], q.step[i], k[2], k[3]);
        }
      } else {
        unsigned k[2];
        ldmatrix_x2(k, lane.last_k + keys);
#pragma unroll
        for (int i = 0; i < kMTiles; ++i) {
          mma_k8(s[i][n], q.half[i], k[0]);
          mma_k8(s[i][n + 1], q.half[i], k[1]);
        }
      }
    }
  }
}

using Output = float[kMTiles][kChunksV][4];

// O += P~_ij V_j. The scores that a lane holds, rounded, are the fragment of P~ that it needs.
__device__ __forceinline__ void multiply_pv(Output& o, const Scores& p, const LaneRows& lane) {
#pragma unroll
  for (int step = 0; step < kKeysOfWarp / 16; ++step) {
    unsigned a[kMTiles][4];
#pragma unroll
    for (int i = 0; i < kMTiles; ++i) {
      const float(&left)[4] = p[i][2 * step], (&right)[4] = p[i][2 * step + 1];
      a[i][0] = pack(left[0], left[1]), a[i][1] = pack(left[2], left[3]);
      a[i][2] = pack(right[0], right[1]), a[i][3] = pack(right[2], right[3]);
    }
    const int keys = step * 16 * kChunksV * 16;
#pragma unroll
    for (int n = 0; n + 1 < kChunksV; n += 2) {
      unsigned v[4];
      ldmatrix_x4_transposed(v, at_chunk<kChunksV>(lane.v, n) + keys);
#pragma unroll
      for (int i = 0; i < kMTiles; ++i) {
        mma_k16(o[i][n], a[i], v[0], v[1]);
        mma_k16(o[i][n + 1], a[i], v[2], v[3]);
      }
    }
    if (kChunksV % 2 != 0) {
      unsigned v[2];
      ldmatrix_x2_transposed(v, lane.last_v + keys);
#pragma unroll
      for (int i = 0; i < kMTiles; ++i) mma_k16(o[i][kChunksV - 1], a[i], v[0], v[1]);
    }
  }
}
