// ---- Fragments of Q_i: kRows query rows of a warp, in kMTiles tiles of 16. ------------------------
// Addresses of the rows that this lane names for ldmatrix, at chunk 0; any chunk is a constant away.
struct LaneRows {
  unsigned q, k, v, last_q, last_k, last_v;
};

// A value as if it came from nowhere: it stays in its register, where the compiler would otherwise spend more
// instructions on it than a register is worth, and compute it anew for each block of keys.
__device__ __forceinline__ unsigned kept(unsigned x) {
  asm volatile("" : "+r"(x));
  return x;
}

// Given the first row of Q_i, and the first keys of K_j and V_j, that its warp works on.
__device__ __forceinline__ LaneRows find_lane_rows(const uint4 (*q)[kChunks], const uint4 (*k)[kChunks],
                                                   const uint4 (*v)[kChunksV]) {
  const int lane = lane_id(), row = lane % 16, key = lane % 8 + lane / 16 * 8;
  const int turn = swizzle<kChunks>(lane), turn_v = swizzle<kChunksV>(lane);
  return {kept(shared_address(&q[row][lane / 16 ^ turn])), kept(shared_address(&k[key][lane / 8 % 2 ^ turn])),
          kept(shared_address(&v[row][lane / 16 ^ turn_v])), shared_address(&q[row][kChunks - 1]),
          shared_address(&k[row][kChunks - 1]), shared_address(&v[row][kChunksV - 1])};
}

// The address of chunk c (even) of a lane's row: swizzling flips bits that its row leaves zero.
template <int kIn>
__device__ __forceinline__ unsigned at_chunk(unsigned lane_row, int c) {
  constexpr int kTurn = kSpread<kIn> > 2 ? kSpread<kIn> : 2;
  return (lane_row ^ c % kTurn * 16) + c / kTurn * kTurn * 16;
}

// Head dims go in steps of 16. Where the number of chunks is odd, half a step is left at the end.
constexpr int kSteps = kChunks / 2, kHalfStep = kChunks % 2;

struct QFragments {
  unsigned step[kMTiles][4];
  unsigned half[kMTiles][2];
};

__device__ __forceinline__ void load_q_step(QFragments& q, const LaneRows& lane, int step) {
#pragma unroll
  for (int i = 0; i < kMTiles; ++i) {
    const int tile = i * 16 * kChunks * 16;
    if (step < kSteps) ldmatrix_x4(q.step[i], at_chunk<kChunks>(lane.q, 2 * step) + tile);
    else ldmatrix_x2(q.half[i], lane.last_q + tile);
  }
}
