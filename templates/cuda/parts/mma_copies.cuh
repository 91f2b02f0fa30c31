// ---- Copying a tile: each thread has a share of its chunks. Neighbours copy neighbouring chunks. ---
struct Place {
  unsigned row, chunk;
};

template <int kRows, int kIn>
struct Share {
  // A round takes kSide chunks of each of kRowsAtOnce rows; the n-th chunk is then a constant away from the first.
  static constexpr unsigned kSide = kSpread<kIn> >= 4 ? kSpread<kIn> : kIn, kFit = kThreads / kSide;
  static constexpr unsigned kRowsAtOnce = kSpread<kIn> == 2 && kFit > 8 ? kFit / 8 * 8 : kFit;
  static constexpr unsigned kRounds = (kRows + kRowsAtOnce - 1) / kRowsAtOnce, kAcross = kIn / kSide;
  static constexpr int kCount = kRounds * kAcross;

  static __device__ __forceinline__ Place place(unsigned n) {
    return {threadIdx.x / kSide + n / kAcross * kRowsAtOnce, threadIdx.x % kSide + n % kAcross * kSide};
  }

  // Whether this thread has an n-th chunk.
  static __device__ __forceinline__ bool has(unsigned n) {
    const bool takes_part = kRowsAtOnce * kSide == kThreads || threadIdx.x < kRowsAtOnce * kSide;
    return takes_part && ((n / kAcross + 1) * kRowsAtOnce <= kRows || place(n).row < kRows);
  }

  // Where the first chunk comes from, given the tile's first row; and the n-th, given the first.
  static __device__ __forceinline__ const Element* first(const Element* from, int64 from_row) {
    return from + place(0).row * from_row + place(0).chunk * kInChunk;
  }
  static __device__ __forceinline__ const Element* source(const Element* first, int64 from_row, unsigned n) {
    return first + static_cast<int>(place(n).row - place(0).row) * from_row +
           static_cast<int>(place(n).chunk - place(0).chunk) * kInChunk;
  }

  static __device__ __forceinline__ uint4& destination(uint4 (&tile)[kRows][kIn], unsigned n) {
    const Place from = place(kRowsAtOnce % 8 == 0 ? 0 : n), to = place(n);  // eight rows on, swizzling is the same
    return (&chunk_at(tile, from.row, from.chunk))[static_cast<int>((to.row - from.row) * kIn + to.chunk - from.chunk)];
  }
};

// A chunk of a row of which only elements can be had.
template <int kDim>
__device__ __forceinline__ uint4 gather(const Element* row, unsigned chunk) {
  unsigned x[4] = {};
#pragma unroll
  for (int i = 0; i < kInChunk; ++i)
    if (chunk * kInChunk + i < kDim) x[i / 2] |= row[chunk * kInChunk + i] << i % 2 * 16;
  return make_uint4(x[0], x[1], x[2], x[3]);
}

// Where 16-byte copies cannot be had: pointers, strides or head dims that are no multiples of 8 elements.
// Rows from num_rows on become zeros, here as below.
template <int kDim, int kRows, int kIn>
__device__ __forceinline__ void copy_elements(uint4 (&tile)[kRows][kIn], const Element* first, int64 from_row,
                                              int num_rows) {
#pragma unroll 1
  for (int n = 0; n < Share<kRows, kIn>::kCount; ++n) {
    if (!Share<kRows, kIn>::has(n)) return;
    const Place at = Share<kRows, kIn>::place(n);
    const Element* source = Share<kRows, kIn>::source(first, from_row, n) - at.chunk * kInChunk;
    const bool inside = static_cast<int>(at.row) < num_rows;
    chunk_at(tile, at.row, at.chunk) = inside ? gather<kDim>(source, at.chunk) : make_uint4(0, 0, 0, 0);
  }
}

// Whether all rows of all tensors begin at multiples of 16 bytes.
__device__ __forceinline__ bool have_vectors(const Head& head) {
  const int64 strides = head.q_row | head.k_row | head.v_row | head.out_row | kHeadDim | kHeadDimV;
  const int64 pointers = reinterpret_cast<int64>(head.q) | reinterpret_cast<int64>(head.k) |
                         reinterpret_cast<int64>(head.v) | reinterpret_cast<int64>(head.out);
  return strides % kInChunk == 0 && pointers % 16 == 0;
}

// For a negative scale: each thread flips the chunks that it has copied.
template <int kRows, int kIn>
__device__ __forceinline__ void flip_signs(uint4 (&tile)[kRows][kIn]) {
#pragma unroll 1
  for (int n = 0; n < Share<kRows, kIn>::kCount; ++n) {
    if (!Share<kRows, kIn>::has(n)) return;
    uint4& x = Share<kRows, kIn>::destination(tile, n);
    x = make_uint4(x.x ^ 0x80008000u, x.y ^ 0x80008000u, x.z ^ 0x80008000u, x.w ^ 0x80008000u);
  }
}

__device__ __forceinline__ int rows_left(int64 rows) { return static_cast<int>(min(rows, 1ll << 20)); }
