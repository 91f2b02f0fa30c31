struct Queries {  // Q_i of this warp stays in shared memory, and is whole when the first block of keys is
  const LaneRows& lane;
  __device__ __forceinline__ explicit Queries(const LaneRows& rows) : lane(rows) {}
  __device__ __forceinline__ QFragments operator()(int step) const {
    QFragments fragments;
    load_q_step(fragments, lane, step);
    return fragments;
  }
};
