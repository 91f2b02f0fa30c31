// ---- Warps: a row of a tile belongs to one warp, and its elements to the lanes in turn. ----------
constexpr int kLanes = 32;
constexpr unsigned kAllLanes = 0xffffffffu;

__device__ __forceinline__ int lane_id() { return threadIdx.x % kLanes; }
__device__ __forceinline__ int warp_id() { return threadIdx.x / kLanes; }

// Over all lanes of the warp, for each of them, in a fixed order. A maximum passes over NaNs.
__device__ __forceinline__ Compute warp_max(Compute x) {
#pragma unroll
  for (int step = kLanes / 2; step > 0; step /= 2) x = fmax(x, __shfl_xor_sync(kAllLanes, x, step));
  return x;
}

__device__ __forceinline__ Compute warp_sum(Compute x) {
#pragma unroll
  for (int step = kLanes / 2; step > 0; step /= 2) x += __shfl_xor_sync(kAllLanes, x, step);
  return x;
}

// e^(|scale| (s - reference)), where the reference is a maximum of scores s. The difference of two large
// scores is exact, so logits may be of any size. -inf weighs 0, and (-inf) - (-inf) and 0 * inf do not happen.
__device__ __forceinline__ Compute exp_below(Compute s, Compute reference, Compute scale) {
  if (s == -infinity() || reference == -infinity()) return s != s ? s : Compute(0);  // a NaN stays one
  return exp(fabs(scale) * (s - reference));
}
