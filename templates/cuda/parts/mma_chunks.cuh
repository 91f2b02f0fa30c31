// ---- Rows of a tile are chunks of 16 bytes. --------------------------------------------------------
constexpr int kThreads = 32 * kWarps;
constexpr int kInChunk = 16 / sizeof(Element);
constexpr int kChunks = (kHeadDim + kInChunk - 1) / kInChunk, kChunksV = (kHeadDimV + kInChunk - 1) / kInChunk;

// Chunk c of row r lies at place c ^ swizzle(r), so that 8 rows of one column of chunks, which ldmatrix
// reads, and 8 chunks of one row, which a copy writes, both hit all banks. Nothing is padded.
template <int kIn>
constexpr int kSpread = kIn % 8 == 0 ? 8 : kIn % 4 == 0 ? 4 : kIn % 2 == 0 ? 2 : 1;

template <int kIn>
__device__ __forceinline__ unsigned swizzle(unsigned row) { return row % 8 * kSpread<kIn> / 8; }

template <int kRows, int kIn>
__device__ __forceinline__ uint4& chunk_at(uint4 (&tile)[kRows][kIn], unsigned row, unsigned chunk) {
  return tile[row][chunk ^ swizzle<kIn>(row)];
}

__device__ __forceinline__ unsigned shared_address(const void* x) {
  return static_cast<unsigned>(__cvta_generic_to_shared(x));
}
