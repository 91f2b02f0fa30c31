// ---- On-chip memory of one CTA, in dynamic shared memory. -----------------------------------------
struct Tiles {
  alignas(16) Compute q[kBr][kQDims];              // filled up with zeros, and times the sign of the scale
  union {                                          // the slice at work
    alignas(16) Compute k[kBc][kKStride];
    alignas(16) Compute v[kSliceKeys][16 * kColumns];
  };
  alignas(16) Compute p[kBr][kPKeys];
};

__device__ __forceinline__ int half_warp_id() { return threadIdx.x / 16; }

// Line 4: load Q_i, a warp to a row; rows past the last are zeros.
__device__ __forceinline__ void load_q(Tiles& tile, const Head& head, int64 row0) {
#pragma unroll 4
  for (int r = warp_id(); r < kBr; r += kWarps) {
    const Element* q = head.q + (row0 + r) * head.q_row;
    const bool inside = row0 + r < head.seqlen_q;
#pragma unroll
    for (int x = lane_id(); x < kQDims; x += 32)
      tile.q[r][x] = inside && x < kHeadDim ? head.sign * to_compute(q[x]) : Compute(0);
  }
}

// ---- Slices of K_j and V_j go through registers, so that loading one hides behind the work on another.
// A warp takes every kWarps-th key, element by element: pointers and strides may have any alignment.
constexpr int kKFetched = kBc / kWarps;
constexpr int kVRounds = (16 * kColumns + 31) / 32, kVFetched = kSliceKeys / kWarps * kVRounds;
constexpr int kFetched = kKFetched > kVFetched ? kKFetched : kVFetched;

__device__ __forceinline__ int keys_left(int64 key, int64 num_visible) {
  return static_cast<int>(min(num_visible - key, int64(kBc)));
}

// Line 7: load K_j, a slice of its dims. What no row of the tile sees is not looked at; it counts as zeros.
__device__ __forceinline__ void fetch_k(Compute (&next)[kFetched], const Head& head, int64 key0, int slice,
                                        int64 num_visible) {
  const int x = slice * kSliceDims + lane_id();
  const bool mine = lane_id() < kSliceDims && x < kHeadDim;
  const Element* k = head.k + (key0 + warp_id()) * head.k_row + x;
  const int keys = keys_left(key0 + warp_id(), num_visible);
#pragma unroll
  for (int i = 0; i < kKFetched; ++i, k += kWarps * head.k_row)
    next[i] = mine && i * kWarps < keys ? to_compute(*k) : Compute(0);
}

__device__ __forceinline__ void stage_k(Tiles& tile, const Compute (&next)[kFetched]) {
  if (lane_id() >= kSliceDims) return;
#pragma unroll
  for (int i = 0; i < kKFetched; ++i) tile.k[warp_id() + i * kWarps][lane_id()] = next[i];
}

// Line 7: load V_j, a slice of its keys.
__device__ __forceinline__ void fetch_v(Compute (&next)[kFetched], const Head& head, int64 key0,
                                        int64 num_visible) {
  const Element* v = head.v + (key0 + warp_id()) * head.v_row + lane_id();
  const int keys = keys_left(key0 + warp_id(), num_visible);
#pragma unroll
  for (int i = 0; i < kVFetched; i += kVRounds, v += kWarps * head.v_row) {
#pragma unroll
    for (int n = 0; n < kVRounds; ++n) {
      const bool inside = lane_id() + n * 32 < kHeadDimV && i / kVRounds * kWarps < keys;
      next[i + n] = inside ? to_compute(v[n * 32]) : Compute(0);
    }
  }
}

__device__ __forceinline__ void stage_v(Tiles& tile, const Compute (&next)[kFetched]) {
#pragma unroll
  for (int i = 0; i < kVFetched; ++i) {
    const int x = lane_id() + i % kVRounds * 32;
    if (x < 16 * kColumns) tile.v[warp_id() + i / kVRounds * kWarps][x] = next[i];
  }
}
