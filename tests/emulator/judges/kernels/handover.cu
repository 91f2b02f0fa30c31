// Two ways in which threads hand data to each other, for a verifier of all schedules to judge.
typedef unsigned u32;

constexpr int kTile = 256, kTiles = 4;

__device__ __forceinline__ void copy16(float* to, const float* from) {
  const u32 address = (u32)__cvta_generic_to_shared(to);
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(address), "l"(from) : "memory");
}
__device__ __forceinline__ void commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
__device__ __forceinline__ void wait_for_copies() { asm volatile("cp.async.wait_group 0;" ::: "memory"); }

// Two buffers in turns: each thread sums up what the thread opposite has copied.
extern "C" __global__ void pipeline(const float* in, float* out) {
  __shared__ __align__(16) float tile[2][kTile];
  const int t = threadIdx.x;
  in += blockIdx.x * kTiles * kTile + 4 * t;
  copy16(&tile[0][4 * t], in);
  commit();
  float sum = 0;
  for (int i = 0; i < kTiles; ++i) {
    wait_for_copies();
    __syncthreads();  // of all threads; and nobody reads the other buffer any more
    if (i + 1 < kTiles) copy16(&tile[(i + 1) & 1][4 * t], in + (i + 1) * kTile);
    commit();
    const float* theirs = &tile[i & 1][4 * (63 - t)];
    sum += theirs[0] + theirs[1] + theirs[2] + theirs[3];
  }
  out[blockIdx.x * 64 + t] = sum;
}

// A sum: each warp by shuffles, then one thread over the warps'.
extern "C" __global__ void reduce(const float* in, float* out) {
  __shared__ float partial[4];
  const int t = threadIdx.x;
  float x = in[blockIdx.x * 128 + t];
  for (int k = 16; k > 0; k /= 2) x += __shfl_xor_sync(~0u, x, k);
  if (t % 32 == 0) partial[t / 32] = x;
  __syncthreads();
  if (t == 0) out[blockIdx.x] = partial[0] + partial[1] + partial[2] + partial[3];
}
