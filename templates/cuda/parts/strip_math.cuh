// ---- Products of a strip: kStrip rows of one warp, with operands in shared memory. ---------------
// What a lane loads serves all rows. s[r][n] = q_r . k_c for the lane's keys c = c0 + 32 n:
__device__ __forceinline__ void multiply_qk(Compute (&s)[kStrip][kKeysPerLane], const Element (*q)[kQStride],
                                            const Element (*k)[kKStride], int c0) {
#pragma unroll 4
  for (int x = 0; x < kQStride; ++x) {
    Compute k_x[kKeysPerLane];
#pragma unroll
    for (int n = 0; n < kKeysPerLane; ++n) k_x[n] = to_compute(k[min(c0 + n * kLanes, kBc - 1)][x]);
#pragma unroll
    for (int r = 0; r < kStrip; ++r) {
      const Compute q_x = to_compute(q[r][x]);
#pragma unroll
      for (int n = 0; n < kKeysPerLane; ++n) s[r][n] += q_x * k_x[n];
    }
  }
}

// o[r][n] += sum over c of p_rc v_cx for the lane's columns x = lane + 32 n:
__device__ __forceinline__ void multiply_pv(Compute (&o)[kStrip][kColumnsPerLane], const Compute (*p)[kBc],
                                            const Element (*v)[kHeadDimV]) {
#pragma unroll 4
  for (int c = 0; c < kBc; ++c) {
    Compute v_c[kColumnsPerLane];
#pragma unroll
    for (int n = 0; n < kColumnsPerLane; ++n)
      v_c[n] = to_compute(v[c][min(lane_id() + n * kLanes, kHeadDimV - 1)]);
#pragma unroll
    for (int r = 0; r < kStrip; ++r) {
#pragma unroll
      for (int n = 0; n < kColumnsPerLane; ++n) o[r][n] += p[r][c] * v_c[n];
    }
  }
}
