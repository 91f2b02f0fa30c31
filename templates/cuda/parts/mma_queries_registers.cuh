struct Queries {  // Q_i of this warp stays in registers
  QFragments fragments[kSteps + kHalfStep];
  __device__ __forceinline__ explicit Queries(const LaneRows& lane) {
    __syncthreads();  // Q_i is whole
#pragma unroll
    for (int step = 0; step < kSteps + kHalfStep; ++step) load_q_step(fragments[step], lane, step);
    __syncthreads();  // all warps have their rows, and K and V may come to lie over them
  }
  __device__ __forceinline__ const QFragments& operator()(int step) const { return fragments[step]; }
};
