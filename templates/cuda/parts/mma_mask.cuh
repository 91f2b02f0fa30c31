// ---- Mask. ----------------------------------------------------------------------------------------
// Where a causal mask ends in query row i, whether or not there are keys.
__device__ __forceinline__ int64 diagonal(int64 i, int64 seqlen_q, int64 num_valid) {
  return kCausal == Causal::kTopLeft ? i + 1 : i + 1 + num_valid - seqlen_q;
}

// Keys that a row may not see get -inf. Element e of s[i][n] is column 8 n + 2 t + e % 2 of row g + e / 2 * 8.
__device__ __forceinline__ void hide_keys(Scores& s, const Head& head, int64 row0, int64 key0) {
  const int keys = static_cast<int>(min(head.num_valid - key0, int64(kBc)));
  const int first = kCausal == Causal::kNone ? kBc : static_cast<int>(
      max(min(diagonal(row0, head.seqlen_q, head.num_valid) - key0, int64(kBc)), -int64(kBr)));
#pragma unroll
  for (int i = 0; i < kMTiles; ++i) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int row = warp_id() * kRows + i * 16 + h * 8 + lane_id() / 4;
      const int seen = min(kCausal == Causal::kNone ? kBc : first + row, keys) - lane_id() % 4 * 2;
#pragma unroll
      for (int n = 0; n < kKeysOfWarp / 8; ++n) {
        if (8 * n >= seen) s[i][n][2 * h] = -infinity();
        if (8 * n + 1 >= seen) s[i][n][2 * h + 1] = -infinity();
      }
    }
  }
}
